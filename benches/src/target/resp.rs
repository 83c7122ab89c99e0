//! Redis commands in the bytes of its protocol: arrays of strings, each with its length in front.

use std::io::Write;

/// Appends a command.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing into a vector cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"key", b"two\r\nlines"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10\r\ntwo\r\nlines\r\n");
    }
}

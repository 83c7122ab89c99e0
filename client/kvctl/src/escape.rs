//! Bytes as text that a person can read and a program can turn back: `\\ \t \n \r \xHH`.
//!
//! Used by `scan`, by tsv files, by the shell, and wherever a message names a key.

use std::fmt::Write as _;

/// Why escaped text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EscapeError {
    /// A backslash with something behind it that means nothing.
    #[error("`\\{0}` is no escape; known are \\\\ \\t \\n \\r \\xHH")]
    Unknown(char),
    /// A backslash at the end.
    #[error("a lone backslash at the end; write \\\\")]
    Lone,
    /// `\x` without two hexadecimal digits.
    #[error("`\\x` wants two hexadecimal digits")]
    BadHex,
}

/// Bytes as one line of text: control characters and what is not UTF-8 are escaped.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            push(&mut text, character);
        }
        for byte in chunk.invalid() {
            push_hex(&mut text, *byte);
        }
    }
    text
}

fn push(text: &mut String, character: char) {
    match character {
        '\\' => text.push_str("\\\\"),
        '\t' => text.push_str("\\t"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        control if control.is_control() => {
            let mut buffer = [0; 4];
            for byte in control.encode_utf8(&mut buffer).bytes() {
                push_hex(text, byte);
            }
        }
        plain => text.push(plain),
    }
}

fn push_hex(text: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

/// The byte that an escape stands for, and how many bytes of `rest` (what follows the backslash) it took.
pub fn unescape_one(rest: &[u8]) -> Result<(u8, usize), EscapeError> {
    match rest.first() {
        None => Err(EscapeError::Lone),
        Some(b'\\') => Ok((b'\\', 1)),
        Some(b't') => Ok((b'\t', 1)),
        Some(b'n') => Ok((b'\n', 1)),
        Some(b'r') => Ok((b'\r', 1)),
        Some(b'x') => {
            let digits = rest.get(1..3).ok_or(EscapeError::BadHex)?;
            Ok((nibble(digits[0])? << 4 | nibble(digits[1])?, 3))
        }
        Some(_) => Err(EscapeError::Unknown(String::from_utf8_lossy(rest).chars().next().unwrap_or('?'))),
    }
}

/// The bytes that escaped text stands for.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, EscapeError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, taken) = unescape_one(&rest[at + 1..])?;
        bytes.push(byte);
        rest = &rest[at + 1 + taken..];
    }
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

/// The bytes that hexadecimal digits stand for, two a byte.
pub fn parse_hex(text: &[u8]) -> Result<Vec<u8>, EscapeError> {
    if !text.len().is_multiple_of(2) {
        return Err(EscapeError::BadHex);
    }
    text.chunks_exact(2).map(|pair| Ok(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

fn nibble(digit: u8) -> Result<u8, EscapeError> {
    (digit as char).to_digit(16).map(|value| value as u8).ok_or(EscapeError::BadHex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_broken_utf8_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(escape(&all).as_bytes()).unwrap(), all);
        for bytes in [&b"a\\nb"[..], b"\xffabc\xc3", b"", b"\\", "gr\u{fc}n \u{85}".as_bytes()] {
            let text = escape(bytes);
            assert!(!text.contains(['\n', '\t', '\r', '\0', '\u{85}']));
            assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
        }
    }

    #[test]
    fn readable_text_stays_readable() {
        assert_eq!(escape("user:7 grün".as_bytes()), "user:7 grün");
        assert_eq!(escape(b"a\tb\x00\xff"), "a\\tb\\x00\\xff");
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        assert_eq!(unescape(b"C:\\users"), Err(EscapeError::Unknown('u')));
        assert_eq!(unescape("\\ü".as_bytes()), Err(EscapeError::Unknown('ü')));
        assert_eq!(unescape(b"end\\"), Err(EscapeError::Lone));
        assert_eq!(unescape(b"\\x4"), Err(EscapeError::BadHex));
        assert_eq!(unescape(b"\\xzz"), Err(EscapeError::BadHex));
        assert_eq!(parse_hex(b"00ff41").unwrap(), b"\x00\xffA");
        assert_eq!(parse_hex(b"0"), Err(EscapeError::BadHex));
        assert_eq!(parse_hex(b"0g"), Err(EscapeError::BadHex));
    }
}

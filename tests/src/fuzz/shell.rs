//! Lines of `kvctl shell`.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// What stands on such lines.
pub const WORDS: &[&[u8]] = &[
    b"put ",
    b"get ",
    b"del ",
    b"exists ",
    b"counter ",
    b"create ",
    b"add ",
    b"seq ",
    b"next ",
    b"lock ",
    b"run ",
    b"scan ",
    b"info",
    b"help ",
    b"quit",
    b"--ttl ",
    b"--if-absent ",
    b"--if-version ",
    b"--key-hex ",
    b"--prefix ",
    b"--json ",
    b"-- ",
    b"'",
    b"\"",
    b"\\x",
    b"\\",
    b"#",
    b"00ff",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"10s",
    b"\xff\xfe",
    b"\0",
];

/// Feeds splitter and parser.
///
/// # Panics
/// When a line's words, written differently, are other words, or a complaint is none.
pub fn run(line: &[u8]) -> bool {
    match kvctl::understand(line) {
        Ok(words) => {
            let mut again = String::new();
            for word in &words {
                again.push_str(" ''");
                word.as_bytes().iter().for_each(|byte| write!(again, "\\x{byte:02x}").expect("a string takes all"));
            }
            assert_eq!(kvctl::understand(again.as_bytes()).as_ref(), Ok(&words), "written as {again}");
            // Within single quotes everything is itself.
            if words.iter().all(|word| !word.as_bytes().contains(&b'\'')) {
                let quoted: Vec<_> = words.iter().map(|word| [b"'", word.as_bytes(), b"'"].concat()).collect();
                assert_eq!(kvctl::understand(&quoted.join(&b' ')).as_ref(), Ok(&words), "in single quotes");
            }
            assert!(words.iter().map(|word| word.len()).sum::<usize>() <= line.len(), "more than was written");
            !words.is_empty()
        }
        Err(complaint) => {
            assert!(!complaint.is_empty() && !complaint.contains('\n'), "{complaint:?}");
            false
        }
    }
}

//! A line of the shell, split into words.
//!
//! Blanks separate words. Single quotes keep everything as it is. Elsewhere `\t \n \r \xHH` are bytes and a
//! backslash before anything else makes it plain; double quotes keep blanks.

use crate::escape::{EscapeError, unescape_one};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Why a line could not be split.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// A quote that has no end.
    #[error("the quote {0} is not closed")]
    Unclosed(char),
    /// A bad escape.
    #[error(transparent)]
    Escape(#[from] EscapeError),
}

/// The words of a line; none when it is blank or a comment.
pub fn split(line: &[u8]) -> Result<Vec<OsString>, WordError> {
    let mut words = Vec::new();
    // A word has begun, even if it is an empty one in quotes.
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(b'\''), _) => word.get_or_insert_default().push(byte),
            (_, b'\\') => {
                let (plain, taken) = escaped(rest)?;
                word.get_or_insert_default().push(plain);
                rest = &rest[taken..];
            }
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, b' ' | b'\t' | b'\r') => words.extend(word.take().map(OsString::from_vec)),
            (None, b'#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if let Some(open) = quote {
        return Err(WordError::Unclosed(open as char));
    }
    words.extend(word.map(OsString::from_vec));
    Ok(words)
}

fn escaped(rest: &[u8]) -> Result<(u8, usize), EscapeError> {
    match (unescape_one(rest), rest.first()) {
        (Err(EscapeError::Unknown(_)), Some(&plain)) => Ok((plain, 1)),
        (outcome, _) => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        split(line.as_bytes()).unwrap().into_iter().map(OsString::into_vec).collect()
    }

    #[test]
    fn blanks_quotes_and_escapes() {
        assert_eq!(words("put  greeting\t'hello  world' \r"), [&b"put"[..], b"greeting", b"hello  world"]);
        assert_eq!(words(r#"put k "a \"b\" \x00\xff\n""#), [&b"put"[..], b"k", b"a \"b\" \x00\xff\n"]);
        assert_eq!(words(r"put a\ b '\x41'x"), [&b"put"[..], b"a b", b"\\x41x"]);
        assert_eq!(words("put k ''"), [&b"put"[..], b"k", b""]);
        assert_eq!(words("put k {\\\"a\\\":1}"), [&b"put"[..], b"k", b"{\"a\":1}"]);
        assert_eq!(words("grün"), ["grün".as_bytes()]);
    }

    #[test]
    fn comments_and_blank_lines_are_nothing() {
        assert!(words("").is_empty());
        assert!(words("   # put a b").is_empty());
        assert_eq!(words("get a#b # why"), [&b"get"[..], b"a#b"]);
    }

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(split(b"put k 'a"), Err(WordError::Unclosed('\'')));
        assert_eq!(split(b"put k \"a"), Err(WordError::Unclosed('"')));
        assert_eq!(split(b"put k a\\"), Err(WordError::Escape(EscapeError::Lone)));
        assert_eq!(split(b"put k \\x4"), Err(WordError::Escape(EscapeError::BadHex)));
    }
}

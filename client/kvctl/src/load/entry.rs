//! What a line of a file asks for.

use std::time::Duration;

/// One key to be stored.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line it begins on, from 1.
    pub line: u64,
    /// The key.
    pub key: Vec<u8>,
    /// What it shall hold.
    pub content: Content,
    /// How long.
    pub ttl: Option<Duration>,
}

/// What a key shall hold.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes.
    Value(Vec<u8>),
    /// A counter with this value.
    Counter(i64),
    /// A sequence whose next number is this.
    Sequence(i64),
}

/// Why there is no entry.
#[derive(Debug)]
pub enum Problem {
    /// A line that cannot be understood; the next one may be fine.
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be read on, or was not understood at all.
    File(crate::failure::Failure),
}

/// Entries of a file, in its order.
pub type Entries = Box<dyn Iterator<Item = Result<Entry, Problem>>>;

impl Problem {
    /// A line that cannot be understood.
    pub fn line(line: u64, reason: impl ToString) -> Self {
        Self::Line { line, reason: reason.to_string() }
    }
}

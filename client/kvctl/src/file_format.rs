//! Formats of the files that `load` reads and `dump` writes.

use clap::ValueEnum;
use std::path::Path;

/// A format.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object a line
    Jsonl,
    /// Fields between tabs, with \t \n \r \\ \xHH for what would break them
    Tsv,
    /// Fields between commas, quoted where needed
    Csv,
}

impl Format {
    /// The format that a file's name tells.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "tsv" | "tab" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

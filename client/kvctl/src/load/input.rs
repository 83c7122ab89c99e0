//! The file to be loaded: where it comes from, how far it was read, and its lines.

use super::entry::Problem;
use crate::failure::{Done, Failure};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

/// Longest line of tsv and jsonl, bytes. Room for the largest value any server takes, with every byte escaped.
const LINE_BYTES_MAX: u64 = 1 << 30;
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes read so far.
pub type Position = Rc<Cell<u64>>;

/// An open file.
pub struct Input {
    /// Its bytes.
    pub reader: Box<dyn BufRead>,
    /// How far they were read.
    pub position: Position,
    /// All its bytes, when that is known.
    pub bytes: Option<u64>,
    /// Its name for messages.
    pub name: String,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Done<Self> {
        let position = Position::default();
        let (source, bytes, name): (Box<dyn Read>, _, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None, "standard input".into())
        } else {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| Failure::file("open", &name, &error))?;
            let facts = file.metadata().map_err(|error| Failure::file("open", &name, &error))?;
            if facts.is_dir() {
                return Err(Failure::usage(format!("{name} is a folder")));
            }
            (Box::new(file), facts.is_file().then_some(facts.len()), name)
        };
        let counted = Counted { source, position: Rc::clone(&position) };
        let mut reader = Box::new(BufReader::with_capacity(256 << 10, counted));
        let begin = reader.fill_buf().map_err(|error| Failure::file("read", &name, &error))?;
        if begin.starts_with(UTF8_MARK) {
            reader.consume(UTF8_MARK.len());
        }
        Ok(Self { reader, position, bytes, name })
    }
}

struct Counted {
    source: Box<dyn Read>,
    position: Position,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.position.set(self.position.get() + count as u64);
        Ok(count)
    }
}

/// Lines with their numbers, without the line break; blank ones are skipped.
pub struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    line: u64,
    bytes: Vec<u8>,
}

impl Lines {
    /// The lines of an input.
    pub fn new(reader: Box<dyn BufRead>, name: String) -> Self {
        Self { reader, name, line: 0, bytes: Vec::new() }
    }

    /// The next line.
    pub fn next(&mut self) -> Option<Result<(u64, &[u8]), Problem>> {
        loop {
            self.bytes.clear();
            match (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.bytes) {
                Ok(0) => return None,
                Ok(_) => self.line += 1,
                Err(error) => return Some(Err(Problem::File(Failure::file("read", &self.name, &error)))),
            }
            if self.bytes.len() as u64 == LINE_BYTES_MAX {
                let reason = format!("{}:{}: the line has no end within 1 GiB", self.name, self.line);
                return Some(Err(Problem::File(Failure::usage(reason))));
            }
            if self.bytes.last() == Some(&b'\n') {
                self.bytes.pop();
            }
            if self.bytes.last() == Some(&b'\r') {
                self.bytes.pop();
            }
            if !self.bytes.is_empty() {
                return Some(Ok((self.line, &self.bytes)));
            }
        }
    }
}

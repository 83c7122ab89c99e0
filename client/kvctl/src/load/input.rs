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

/// Lines with their numbers.
pub struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    line: u64,
    bytes: Vec<u8>,
}

impl Lines {
    /// The lines of an input.
    pub const fn new(reader: Box<dyn BufRead>, name: String) -> Self {
        Self { reader, name, line: 0, bytes: Vec::new() }
    }

    /// The next line that is not blank, without its break.
    pub fn next(&mut self) -> Option<Result<(u64, &[u8]), Problem>> {
        loop {
            match self.read() {
                Ok(true) if is_blank(&self.bytes) => {}
                Ok(true) => return Some(Ok((self.line, without_break(&self.bytes)))),
                Ok(false) => return None,
                Err(problem) => return Some(Err(problem)),
            }
        }
    }

    /// The next line as it is, its break included.
    pub fn next_whole(&mut self) -> Option<Result<(u64, &[u8]), Problem>> {
        match self.read() {
            Ok(true) => Some(Ok((self.line, &self.bytes))),
            Ok(false) => None,
            Err(problem) => Some(Err(problem)),
        }
    }

    fn read(&mut self) -> Result<bool, Problem> {
        self.bytes.clear();
        let length = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.bytes);
        let length = length.map_err(|error| Problem::File(Failure::file("read", &self.name, &error)))?;
        if length == 0 {
            return Ok(false);
        }
        self.line += 1;
        if length as u64 == LINE_BYTES_MAX {
            let reason = format!("{}:{}: the line has no end within 1 GiB", self.name, self.line);
            return Err(Problem::File(Failure::usage(reason)));
        }
        Ok(true)
    }
}

/// Whether there is nothing but a line break.
pub fn is_blank(line: &[u8]) -> bool {
    without_break(line).is_empty()
}

fn without_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

//! Fields between commas, quoted where needed.
//!
//! The parser is fed line by line, so that the line on which a record begins is known exactly.

use super::columns::{Choice, Columns};
use super::entry::{Content, Entries, Entry, Problem};
use super::input::{Input, Lines, is_blank};
use crate::failure::{Done, Failure};
use csv_core::{ReadRecordResult, Reader};

/// The records of a csv file.
pub fn entries(input: Input, choice: &Choice) -> Done<Entries> {
    let mut records = Records::new(Lines::new(input.reader, input.name));
    let columns = if choice.no_header {
        choice.without_header()?
    } else {
        match records.next() {
            None => return Ok(Box::new(std::iter::empty())),
            Some(Ok(_)) => choice.with_header(&records.fields())?,
            Some(Err(Problem::File(failure))) => return Err(failure),
            Some(Err(Problem::Line { reason, .. })) => return Err(Failure::usage(format!("the header: {reason}"))),
        }
    };
    Ok(Box::new(std::iter::from_fn(move || match records.next()? {
        Ok(line) => Some(entry(line, &records.fields(), &columns)),
        Err(problem) => Some(Err(problem)),
    })))
}

fn entry(line: u64, fields: &[&[u8]], columns: &Columns) -> Result<Entry, Problem> {
    let (key, value) = columns.pick(fields).map_err(|reason| Problem::line(line, reason))?;
    Ok(Entry { line, key: key.to_vec(), content: Content::Value(value.to_vec()), ttl: None })
}

/// Records one after the other.
struct Records {
    lines: Lines,
    parser: Reader,
    /// What of the current line is not parsed yet.
    rest: Vec<u8>,
    line: u64,
    /// Fields of the record, one behind the other, and where each ends.
    output: Vec<u8>,
    ends: Vec<usize>,
    bytes: usize,
    count: usize,
}

impl Records {
    fn new(lines: Lines) -> Self {
        let (output, ends) = (vec![0; 4096], vec![0; 16]);
        Self { lines, parser: Reader::new(), rest: Vec::new(), line: 0, output, ends, bytes: 0, count: 0 }
    }

    /// The fields of the record that was read last.
    fn fields(&self) -> Vec<&[u8]> {
        let mut begin = 0;
        let field = |&end: &usize| &self.output[std::mem::replace(&mut begin, end)..end];
        self.ends[..self.count].iter().map(field).collect()
    }

    /// Reads a record; gives the line it begins on.
    fn next(&mut self) -> Option<Result<u64, Problem>> {
        (self.bytes, self.count) = (0, 0);
        while is_blank(&self.rest) {
            if let Err(problem) = self.refill()? {
                return Some(Err(problem));
            }
        }
        let begin = self.line;
        loop {
            if self.parse() {
                return Some(Ok(begin));
            }
            match self.refill() {
                Some(Ok(())) => {}
                Some(Err(problem)) => return Some(Err(problem)),
                None => {
                    // A last line may lack its break. If the break does not end the record, an open quote holds it.
                    self.rest = b"\n".to_vec();
                    return Some(if self.parse() {
                        Ok(begin)
                    } else {
                        Err(Problem::line(begin, "a quote of this record is not closed before the end of the file"))
                    });
                }
            }
        }
    }

    fn refill(&mut self) -> Option<Result<(), Problem>> {
        Some(self.lines.next_whole()?.map(|(line, bytes)| {
            self.line = line;
            self.rest.clear();
            self.rest.extend_from_slice(bytes);
        }))
    }

    /// Parses the rest of the line; true when it ended a record.
    fn parse(&mut self) -> bool {
        let mut taken = 0;
        loop {
            // No input would mean the end of the file to the parser.
            if taken == self.rest.len() {
                self.rest.clear();
                return false;
            }
            let (result, input, output, ends) =
                self.parser.read_record(&self.rest[taken..], &mut self.output[self.bytes..], &mut self.ends[self.count..]);
            taken += input;
            self.bytes += output;
            self.count += ends;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.output.resize(self.output.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record | ReadRecordResult::End => {
                    self.rest.drain(..taken);
                    return true;
                }
            }
        }
    }
}

//! Fields between commas, quoted where needed.

use super::columns::{Choice, Columns};
use super::entry::{Content, Entries, Entry, Problem};
use super::input::Input;
use crate::failure::{Done, Failure};
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::io::BufRead;

/// The records of a csv file.
pub fn entries(input: Input, choice: &Choice) -> Done<Entries> {
    let name = input.name;
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input.reader);
    let mut record = ByteRecord::new();
    let columns = if choice.no_header {
        choice.without_header()?
    } else if read(&mut reader, &mut record, &name)? {
        choice.with_header(&record.iter().collect::<Vec<_>>())?
    } else {
        return Ok(Box::new(std::iter::empty()));
    };
    Ok(Box::new(std::iter::from_fn(move || match read(&mut reader, &mut record, &name) {
        Ok(true) => Some(entry(first_line(&reader, &record), &record, &columns)),
        Ok(false) => None,
        Err(failure) => Some(Err(Problem::File(failure))),
    })))
}

fn read(reader: &mut Reader<Box<dyn BufRead>>, record: &mut ByteRecord, name: &str) -> Done<bool> {
    reader.read_byte_record(record).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::file("read", name, &error),
        other => Failure::usage(format!("{name}: {other:?}")),
    })
}

/// The line a record begins on.
fn first_line(reader: &Reader<Box<dyn BufRead>>, record: &ByteRecord) -> u64 {
    let _ = reader;
    record.position().map_or(0, csv::Position::line)
}

fn entry(line: u64, record: &ByteRecord, columns: &Columns) -> Result<Entry, Problem> {
    let fields: Vec<_> = record.iter().collect();
    let (key, value) = columns.pick(&fields).map_err(|reason| Problem::line(line, reason))?;
    Ok(Entry { line, key: key.to_vec(), content: Content::Value(value.to_vec()), ttl: None })
}

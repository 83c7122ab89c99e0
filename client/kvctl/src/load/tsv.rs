//! Fields between tabs, one record a line.

use super::columns::{Choice, Columns};
use super::entry::{Content, Entries, Entry, Problem};
use super::input::{Input, Lines};
use crate::escape::unescape;
use crate::failure::Done;

/// The records of a tsv file. `raw`: backslashes mean themselves.
pub fn entries(input: Input, choice: &Choice, raw: bool) -> Done<Entries> {
    let mut lines = Lines::new(input.reader, input.name);
    let columns = if choice.no_header {
        choice.without_header()?
    } else {
        match lines.next() {
            None => return Ok(Box::new(std::iter::empty())),
            Some(Ok((_, header))) => choice.with_header(&fields(header))?,
            Some(Err(Problem::File(failure))) => return Err(failure),
            Some(Err(Problem::Line { reason, .. })) => return Err(crate::failure::Failure::usage(reason)),
        }
    };
    Ok(Box::new(std::iter::from_fn(move || {
        lines.next().map(|line| {
            let (number, bytes) = line?;
            entry(number, bytes, &columns, raw)
        })
    })))
}

fn fields(line: &[u8]) -> Vec<&[u8]> {
    line.split(|&byte| byte == b'\t').collect()
}

fn entry(line: u64, bytes: &[u8], columns: &Columns, raw: bool) -> Result<Entry, Problem> {
    let (key, value) = columns.pick(&fields(bytes)).map_err(|reason| Problem::line(line, reason))?;
    let plain = |field: &[u8]| {
        if raw {
            return Ok(field.to_vec());
        }
        unescape(field).map_err(|error| Problem::line(line, format!("{error}; with --raw a backslash means itself")))
    };
    Ok(Entry { line, key: plain(key)?, content: Content::Value(plain(value)?), ttl: None })
}

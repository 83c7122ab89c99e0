//! `kvctl load`: a file's records into the store, many in flight, with an account of every line that was refused.

mod columns;
mod csv;
mod entry;
#[cfg(test)]
mod formats_test;
mod input;
mod jsonl;
mod ledger;
mod pipeline;
mod progress;
mod tsv;

use crate::cli::positive_duration;
use crate::context::Context;
use crate::failure::{Done, Failure};
use crate::file_format::Format;
use crate::output::Output;
use crate::signals;
use clap::Args;
use columns::Choice;
use entry::{Entries, Problem};
use input::Input;
use ledger::Ledger;
use pipeline::Pipeline;
use progress::Progress;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kvctl load people.csv --key-column email --value-column name
  kvctl load pairs.tsv --no-header
  kvctl load all.jsonl --resume-from 50001
  zcat all.jsonl.gz | kvctl load - --format jsonl

Formats:
  csv    a header line with the columns `key` and `value`, or others by --key-column and
         --value-column (name or number, from 1); with --no-header columns 1 and 2
  tsv    as csv, one record a line; \\t \\n \\r \\\\ \\xHH stand for bytes, unless --raw
  jsonl  an object a line with the fields `key` and `value`, or others by --key-column and
         --value-column; key_base64 and value_base64 for bytes that are not UTF-8; a value that is
         not a string is stored as its JSON; what `dump` writes comes back as it was

Existing keys get the new value; existing counters and sequences are left alone, and told.
A line that is refused is told with its number on standard error, and the rest goes on; the exit
code is 1. When the load stops, it says from which line to go on.";

/// Store the records of a csv, tsv or jsonl file
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Load {
    /// The file; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// csv, tsv or jsonl; told from the file's name when not given
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    format: Option<Format>,
    /// The column or field that holds the key
    #[arg(long, value_name = "NAME|NUMBER")]
    key_column: Option<String>,
    /// The column or field that holds the value
    #[arg(long, value_name = "NAME|NUMBER")]
    value_column: Option<String>,
    /// The first line is a record, not names of columns
    #[arg(long)]
    no_header: bool,
    /// In tsv a backslash means itself
    #[arg(long)]
    raw: bool,
    /// Every key expires after this long, unless its line says otherwise
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    ttl: Option<Duration>,
    /// Stop when more lines than this were refused
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    max_errors: u64,
    /// Begin at this line of the file; a header is read all the same
    #[arg(long, value_name = "LINE", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u64).range(1..))]
    resume_from: u64,
}

impl Load {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let format = self.format()?;
        let input = Input::open(&self.file)?;
        let mut ledger = Ledger::new(input.name.clone(), self.max_errors, Progress::new(&input));
        let entries = self.entries(format, input)?;
        let session = context.session()?;
        let interrupted = interruption()?;
        let mut pipeline = Pipeline::new(session);
        let mut settled = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) if entry.line < self.resume_from => continue,
                Err(Problem::Line { line, .. }) if line < self.resume_from => continue,
                Ok(mut entry) => {
                    entry.ttl = entry.ttl.or(self.ttl);
                    ledger.begin(entry.line);
                    pipeline.store(&entry, &mut settled);
                    ledger.book(&mut settled);
                }
                Err(Problem::Line { line, reason }) => {
                    ledger.begin(line);
                    ledger.refuse(line, &reason);
                }
                Err(Problem::File(failure)) => ledger.stop(failure),
            }
            if interrupted.load(Relaxed) {
                ledger.interrupt();
            }
            if ledger.is_stopped() {
                break;
            }
        }
        pipeline.drain(&mut settled);
        ledger.book(&mut settled);
        ledger.close(output)
    }

    fn format(&self) -> Done<Format> {
        self.format.or_else(|| Format::of(&self.file)).ok_or_else(|| {
            let what = if self.file == Path::new("-") {
                "standard input has no name".into()
            } else {
                format!("`{}` has no such ending", self.file.display())
            };
            Failure::usage(format!("is it csv, tsv or jsonl? {what}; say --format"))
        })
    }

    fn entries(&self, format: Format, input: Input) -> Done<Entries> {
        let choice = || Choice { key: self.key_column.clone(), value: self.value_column.clone(), no_header: self.no_header };
        match format {
            Format::Csv => csv::entries(input, &choice()),
            Format::Tsv => tsv::entries(input, &choice(), self.raw),
            Format::Jsonl => Ok(jsonl::entries(
                input,
                jsonl::Names {
                    key: self.key_column.clone().unwrap_or_else(|| "key".into()),
                    value: self.value_column.clone().unwrap_or_else(|| "value".into()),
                },
            )),
        }
    }
}

/// Set by the first signal that asks to end; a second one ends at once.
fn interruption() -> Done<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    signals::watch(move |signal| {
        if seen.swap(true, Relaxed) {
            std::process::exit(128 + signal.as_raw());
        }
        true
    })?;
    Ok(flag)
}

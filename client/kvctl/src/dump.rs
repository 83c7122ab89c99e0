//! `kvctl dump`: everything to a file that `load` reads back.

use crate::context::Context;
use crate::escape::escape;
use crate::failure::{Done, Failure};
use crate::file_format::Format;
use crate::item::{self, Content};
use crate::json_bytes;
use crate::output::{Output, note};
use clap::Args;
use serde_json::json;
use sidewire::ScanItem;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

const EXAMPLES: &str = "\
Examples:
  kvctl dump > all.jsonl
  kvctl dump --output users.csv --prefix user:
  kvctl dump --format tsv | sort > all.tsv

What is not text:
  jsonl  a key or value that is not UTF-8 stands in key_base64 or value_base64; counters, sequences
         and the time a key has left are kept
  tsv    tab, newline, backslash and bytes that are not UTF-8 are written as \\t \\n \\\\ \\xHH
  csv    bytes as they are, quoted; a file with bytes that are not UTF-8 is not UTF-8
In tsv and csv only values are kept; what was left out is counted on standard error. Locks are
never kept. A dump is no snapshot: what changes meanwhile may be told old, new or twice.
With --output the file appears when it is complete.";

/// Write all keys and values to a file or standard output
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Dump {
    /// jsonl, tsv or csv; told from the name of --output, else jsonl
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    format: Option<Format>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only keys that begin with this
    #[arg(short, long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// No header line in tsv and csv
    #[arg(long)]
    no_header: bool,
}

#[derive(Default)]
struct Counts {
    written: u64,
    left_out: u64,
}

impl Dump {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let format = self.format.or_else(|| self.output.as_deref().and_then(Format::of)).unwrap_or(Format::Jsonl);
        let items = context.fleet()?.scan(self.prefix.as_bytes(), true, 0);
        let items = items.filter_map(|item| match item {
            Ok(item) => item::complete(context, item).transpose(),
            Err(error) => Some(Err(error.into())),
        });
        let Some(path) = &self.output else {
            let counts = self.write(format, items, output, &|error| Failure::output(error))?;
            counts.tell_left_out();
            return Ok(());
        };
        let trouble = |error: &io::Error| Failure::file("write", path.display(), error);
        let file = beside(path).map_err(|error| trouble(&error))?;
        let mut writer = BufWriter::new(file);
        let counts = self.write(format, items, &mut writer, &trouble)?;
        let file = writer.into_inner().map_err(|error| trouble(error.error()))?;
        file.as_file().sync_all().map_err(|error| trouble(&error))?;
        file.persist(path).map_err(|error| trouble(&error.error))?;
        counts.tell_left_out();
        let json = json!({ "written": counts.written, "left_out": counts.left_out, "file": path.to_string_lossy() });
        output.reply(format_args!("{} records in {}", counts.written, path.display()), &json)
    }

    fn write(
        &self,
        format: Format,
        items: impl Iterator<Item = Done<ScanItem>>,
        stream: &mut impl Write,
        trouble: &dyn Fn(&io::Error) -> Failure,
    ) -> Done<Counts> {
        let mut counts = Counts::default();
        if format != Format::Jsonl && !self.no_header {
            stream.write_all(if format == Format::Tsv { b"key\tvalue\n" } else { b"key,value\n" }).map_err(|e| trouble(&e))?;
        }
        for item in items {
            let item = item?;
            match record(format, &item) {
                Some(record) => {
                    stream.write_all(&record).map_err(|error| trouble(&error))?;
                    counts.written += 1;
                }
                None => counts.left_out += 1,
            }
        }
        stream.flush().map_err(|error| trouble(&error))?;
        Ok(counts)
    }
}

impl Counts {
    fn tell_left_out(&self) {
        if self.left_out > 0 {
            note(format_args!("kvctl: {} keys that hold no plain value were left out", self.left_out));
        }
    }
}

/// A temporary file in the same folder, so that it can take the name in one step.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".kvctl-dump-").tempfile_in(folder)
}

/// A record's line, or nothing when the format has no place for it.
fn record(format: Format, item: &ScanItem) -> Option<Vec<u8>> {
    match (format, item::content(item)) {
        (_, Content::Lock { .. }) => None,
        (Format::Jsonl, content) => Some(jsonl(item, &content)),
        (Format::Tsv, Content::Value(value)) => Some(format!("{}\t{}\n", escape(&item.key), escape(value)).into_bytes()),
        (Format::Csv, Content::Value(value)) => Some(csv(&item.key, value)),
        _ => None,
    }
}

fn jsonl(item: &ScanItem, content: &Content<'_>) -> Vec<u8> {
    let mut object = json_bytes::object("key", &item.key);
    match content {
        Content::Value(value) => json_bytes::insert(&mut object, "value", value),
        Content::Counter(number) => drop(object.insert("counter".into(), json!(number))),
        Content::Sequence(number) => drop(object.insert("sequence".into(), json!(number))),
        Content::Lock { .. } => {}
    }
    if let Some(left) = item.ttl_ms {
        object.insert("expires_in_ms".into(), json!(left));
    }
    let mut line = serde_json::Value::from(object).to_string().into_bytes();
    line.push(b'\n');
    line
}

fn csv(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(key.len() + value.len() + 6);
    for (field, end) in [(key, b','), (value, b'\n')] {
        // Always quoted, so that an empty value and a line break need no rule of their own.
        line.push(b'"');
        for &byte in field {
            line.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
        }
        line.extend([b'"', end]);
    }
    line
}

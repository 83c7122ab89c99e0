//! `kvctl put`

use crate::cli::{Key, positive_duration};
use crate::context::Context;
use crate::failure::{Done, Failure};
use crate::json_bytes;
use crate::output::Output;
use crate::write_result;
use clap::Args;
use serde_json::json;
use sidewire::{Version, WriteOptions};
use sidewire_common::limits::VALUE_BYTES_MAX;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kvctl put greeting 'hello world'
  kvctl put photo --file photo.jpg
  date | kvctl put now -
  kvctl put session:7 token --ttl 30m
  kvctl put leader node1 --if-absent      exit code 1 when the key exists
  kvctl put config new --if-version 12    exit code 1 when it has changed
  kvctl put -- -key- -value-              what begins with a dash goes behind --

Prints the version of what was stored.";

/// Store a value under a key
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Put {
    #[command(flatten)]
    key: Key,
    /// The value; - reads it from standard input
    #[arg(value_name = "VALUE", conflicts_with = "file", allow_negative_numbers = true)]
    value: Option<OsString>,
    /// Read the value from a file
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The key expires after this long
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    ttl: Option<Duration>,
    /// Only when the key does not exist
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,
    /// Only when the key has this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

impl Put {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let key = self.key.bytes()?;
        let value = self.value()?;
        let mut options = WriteOptions::new();
        if let Some(ttl) = self.ttl {
            options = options.ttl(ttl);
        }
        if self.if_absent {
            options = options.if_absent();
        }
        if let Some(version) = self.if_version {
            options = options.if_version(Version::from_raw(version));
        }
        let write = context.session()?.put_with(&key, &value, &options)?;
        let version = write_result::version(write, &key)?;
        let mut json = json_bytes::object("key", &key);
        json.insert("version".into(), json!(version.to_string()));
        output.reply(format_args!("version {version}"), &json.into())
    }

    fn value(&self) -> Done<Vec<u8>> {
        match (&self.file, &self.value) {
            (Some(path), _) => {
                let file = File::open(path).map_err(|error| Failure::file("open", path.display(), &error))?;
                read_bounded(file, path)
            }
            (None, Some(text)) if text == "-" => read_bounded(io::stdin().lock(), Path::new("standard input")),
            (None, Some(text)) => Ok(text.clone().into_vec()),
            (None, None) => Err(Failure::usage("a value is wanted: VALUE, --file FILE, or - for standard input")),
        }
    }
}

/// Reads all, but not more than one byte past what any server can take: it refuses the rest.
fn read_bounded(source: impl Read, name: &Path) -> Done<Vec<u8>> {
    let limit = VALUE_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    source.take(limit).read_to_end(&mut bytes).map_err(|error| Failure::file("read", name.display(), &error))?;
    Ok(bytes)
}

//! `kvctl del`

use crate::cli::Key;
use crate::context::Context;
use crate::failure::Done;
use crate::json_bytes;
use crate::output::Output;
use crate::write_result::{self, not_found};
use clap::Args;
use serde_json::json;
use sidewire::Version;

const EXAMPLES: &str = "\
Examples:
  kvctl del greeting
  kvctl del config --if-version 12    exit code 1 when it has changed

A key that is not there is exit code 1.";

/// Delete a key
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Del {
    #[command(flatten)]
    key: Key,
    /// Only when the key has this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

impl Del {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let key = self.key.bytes()?;
        let session = context.session()?;
        if let Some(version) = self.if_version {
            let write = session.delete_if_version(&key, Version::from_raw(version))?;
            write_result::version(write, &key)?;
        } else if !session.delete(&key)? {
            return Err(not_found(&key));
        }
        let mut json = json_bytes::object("key", &key);
        json.insert("deleted".into(), json!(true));
        output.reply("deleted", &json.into())
    }
}

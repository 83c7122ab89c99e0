//! `kvctl get`

use crate::cli::Key;
use crate::context::Context;
use crate::escape::escape;
use crate::failure::Done;
use crate::json_bytes;
use crate::output::{Output, Style};
use crate::write_result::not_found;
use clap::Args;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  kvctl get greeting
  kvctl get photo > photo.jpg
  kvctl get greeting --version-only
  kvctl get --key-hex 00ff
  kvctl --json get greeting

Writes the value's bytes as they are. A newline follows only on a terminal or with --newline.
In JSON a value that is not UTF-8 stands in value_base64, and a version is a string: it has more
digits than many readers of JSON keep.";

/// Write a key's value to standard output
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Get {
    #[command(flatten)]
    key: Key,
    /// A newline behind the value, wherever it goes
    #[arg(short, long)]
    newline: bool,
    /// The version instead of the value
    #[arg(long, conflicts_with = "newline")]
    version_only: bool,
}

impl Get {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let key = self.key.bytes()?;
        let Some(value) = context.session()?.get(&key)? else {
            return Err(not_found(&key));
        };
        let version = value.version().raw();
        if output.is_json() || self.version_only {
            let mut json = json_bytes::object("key", &key);
            json.insert("version".into(), json!(version.to_string()));
            if !self.version_only {
                json_bytes::insert(&mut json, "value", &value);
                if let Some(left) = value.expires_in_ms() {
                    json.insert("expires_in_ms".into(), json!(left));
                }
            }
            return output.reply(version, &json.into());
        }
        if output.style() == Style::Line {
            return output.line(escape(&value));
        }
        output.bytes(&value)?;
        if self.newline || output.is_terminal() { output.bytes(b"\n") } else { Ok(()) }
    }
}

//! `kvctl exists`

use crate::cli::Key;
use crate::context::Context;
use crate::failure::{Done, Failure, NOT_DONE};
use crate::json_bytes;
use crate::output::Output;
use clap::Args;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  kvctl exists greeting && echo there
  kvctl --json exists visits

Prints the key's kind (value, counter, sequence or lock) or no, which is exit code 1.";

/// Tell whether a key exists, and of what kind it is
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Exists {
    #[command(flatten)]
    key: Key,
}

impl Exists {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let key = self.key.bytes()?;
        let kind = context.session()?.kind(&key)?;
        let mut json = json_bytes::object("key", &key);
        json.insert("exists".into(), json!(kind.is_some()));
        if let Some(kind) = kind {
            json.insert("kind".into(), json!(kind.name()));
            return output.reply(kind.name(), &json.into());
        }
        output.reply("no", &json.into())?;
        Err(Failure::quiet(NOT_DONE))
    }
}

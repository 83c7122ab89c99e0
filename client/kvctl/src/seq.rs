//! `kvctl seq`

use crate::cli::Key;
use crate::context::Context;
use crate::counter::exists;
use crate::escape::escape;
use crate::failure::{Done, Failure};
use crate::json_bytes;
use crate::output::Output;
use clap::{Args, Subcommand};
use serde_json::json;
use sidewire::Error;

const EXAMPLES: &str = "\
Examples:
  kvctl seq create invoices 1000
  kvctl seq next invoices        prints 1000, then 1001, ...

A sequence never repeats a number; it may skip some.";

/// Sequences: numbers that are handed out once
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Seq {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a sequence; exit code 1 when the key exists
    Create {
        #[command(flatten)]
        key: Key,
        /// The first number it hands out
        #[arg(value_name = "FIRST", default_value_t = 1, allow_negative_numbers = true)]
        first: i64,
    },
    /// Take the next number and print it
    Next {
        #[command(flatten)]
        key: Key,
    },
}

impl Seq {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        match self.command {
            Action::Create { key, first } => {
                let key = key.bytes()?;
                if !context.session()?.create_sequence(&key, first)? {
                    return Err(exists(&key));
                }
                tell(&key, "first", first, output)
            }
            Action::Next { key } => {
                let key = key.bytes()?;
                let number = context.session()?.next(&key).map_err(|error| match error {
                    Error::NotFound => {
                        Failure::not_found(format!("there is no sequence `{}`; make it with `kvctl seq create`", escape(&key)))
                    }
                    other => other.into(),
                })?;
                tell(&key, "number", number, output)
            }
        }
    }
}

fn tell(key: &[u8], name: &str, number: i64, output: &mut Output) -> Done {
    let mut json = json_bytes::object("key", key);
    json.insert(name.into(), json!(number));
    output.reply(number, &json.into())
}

//! `kvctl counter`

use crate::cli::Key;
use crate::context::Context;
use crate::escape::escape;
use crate::failure::{Done, Failure, NOT_DONE};
use crate::json_bytes;
use crate::output::Output;
use crate::write_result::not_found;
use clap::{Args, Subcommand};
use serde_json::json;
use sidewire::{Error, Kind};

const EXAMPLES: &str = "\
Examples:
  kvctl counter create visits
  kvctl counter add visits            adds 1 and prints the new value
  kvctl counter add visits -5
  kvctl counter add visits --create   creates it first when it is not there
  kvctl counter get visits";

/// Counters: 64-bit numbers that clients add to in the server's memory
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Counter {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a counter; exit code 1 when the key exists
    Create {
        #[command(flatten)]
        key: Key,
        /// Its first value
        #[arg(value_name = "INITIAL", default_value_t = 0, allow_negative_numbers = true)]
        initial: i64,
    },
    /// Add to a counter and print its new value
    Add {
        #[command(flatten)]
        key: Key,
        /// What to add; may be negative
        #[arg(value_name = "DELTA", default_value_t = 1, allow_negative_numbers = true)]
        delta: i64,
        /// Create the counter with the value 0 when it is not there
        #[arg(long)]
        create: bool,
        /// Let the server do it, once even if the connection breaks meanwhile
        #[arg(long)]
        exactly_once: bool,
    },
    /// Print a counter's value
    Get {
        #[command(flatten)]
        key: Key,
    },
    /// Delete a counter
    Del {
        #[command(flatten)]
        key: Key,
    },
}

impl Counter {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        match self.command {
            Action::Create { key, initial } => create(&key.bytes()?, initial, context, output),
            Action::Add { key, delta, create, exactly_once } => {
                let key = key.bytes()?;
                let value = add(&key, delta, create, exactly_once, context)?;
                tell(&key, value, output)
            }
            Action::Get { key } => {
                let key = key.bytes()?;
                let value = context.session()?.counter(&key)?.ok_or_else(|| not_found(&key))?;
                tell(&key, value, output)
            }
            Action::Del { key } => delete(&key.bytes()?, context, output),
        }
    }
}

fn tell(key: &[u8], value: i64, output: &mut Output) -> Done {
    let mut json = json_bytes::object("key", key);
    json.insert("counter".into(), json!(value));
    output.reply(value, &json.into())
}

fn create(key: &[u8], initial: i64, context: &Context, output: &mut Output) -> Done {
    if context.session()?.create_counter(key, initial)? {
        return tell(key, initial, output);
    }
    Err(exists(key))
}

/// The key is taken.
pub fn exists(key: &[u8]) -> Failure {
    Failure::new(NOT_DONE, "exists", format!("`{}` exists", escape(key)))
}

fn add(key: &[u8], delta: i64, create: bool, exactly_once: bool, context: &Context) -> Done<i64> {
    let session = context.session()?;
    let attempt = || if exactly_once { session.add_exactly_once(key, delta) } else { session.add(key, delta) };
    match attempt() {
        Err(Error::NotFound) if create => {
            // False: another client was faster, which is as good.
            let _ = session.create_counter(key, 0)?;
            Ok(attempt()?)
        }
        Err(Error::NotFound) => Err(Failure::not_found(format!(
            "there is no counter `{}`; make it with `kvctl counter create`, or add with --create",
            escape(key)
        ))),
        other => Ok(other?),
    }
}

fn delete(key: &[u8], context: &Context, output: &mut Output) -> Done {
    let session = context.session()?;
    match session.kind(key)? {
        None => return Err(not_found(key)),
        Some(Kind::Counter) => {}
        Some(other) => {
            return Err(Failure::new(
                NOT_DONE,
                "wrong_kind",
                format!("`{}` is a {}, not a counter; `kvctl del` deletes any kind", escape(key), other.name()),
            ));
        }
    }
    if !session.delete(key)? {
        return Err(not_found(key));
    }
    let mut json = json_bytes::object("key", key);
    json.insert("deleted".into(), json!(true));
    output.reply("deleted", &json.into())
}

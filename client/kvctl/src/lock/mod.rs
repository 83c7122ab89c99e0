//! `kvctl lock`

mod child;
mod run;
mod show;

use crate::cli::Key;
use crate::context::Context;
use crate::failure::{Done, Failure, NOT_DONE};
use crate::json_bytes;
use crate::output::Output;
use crate::write_result::not_found;
use clap::{Args, Subcommand};
use serde_json::json;
use std::process::ExitCode;

pub use run::Run;

const EXAMPLES: &str = "\
Examples:
  kvctl lock run nightly -- ./backup.sh
  kvctl lock run nightly --wait 0 -- ./backup.sh      not when another has it
  kvctl lock try nightly && echo free
  kvctl lock show nightly
  kvctl lock break nightly

The holder keeps a lock by being alive: when it dies, the server frees its locks after a lease.
Every holder gets a token, larger than any before; give it to what the lock protects.";

/// Locks: held by one client at a time, and given back when it dies
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Lock {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    Run(Run),
    /// Tell whether a lock could be had now: take it and give it back
    Try {
        #[command(flatten)]
        key: Key,
    },
    /// Show who holds a lock
    Show {
        #[command(flatten)]
        key: Key,
    },
    /// Take a lock away from its holder
    Break {
        #[command(flatten)]
        key: Key,
    },
}

impl Lock {
    /// Whether this starts a program.
    pub const fn is_run(&self) -> bool {
        matches!(self.command, Action::Run(_))
    }

    /// The exit code is that of the command, when one was run.
    pub fn run(self, context: &Context, output: &mut Output) -> Done<ExitCode> {
        match self.command {
            Action::Run(run) => return run.run(context),
            Action::Try { key } => attempt(&key.bytes()?, context, output),
            Action::Show { key } => show::show(&key.bytes()?, context, output),
            Action::Break { key } => take_away(&key.bytes()?, context, output),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}

fn attempt(key: &[u8], context: &Context, output: &mut Output) -> Done {
    let session = context.session()?;
    let Some(guard) = session.try_lock(key)? else {
        let holder = show::holder_of(key, context)?;
        return Err(Failure::new(NOT_DONE, "held", holder));
    };
    let token = guard.token();
    guard.unlock()?;
    let mut json = json_bytes::object("key", key);
    json.insert("free".into(), json!(true));
    json.insert("token".into(), json!(token));
    output.reply(format_args!("free (token {token})"), &json.into())
}

fn take_away(key: &[u8], context: &Context, output: &mut Output) -> Done {
    let session = context.session()?;
    let state = session.lock_state(key)?.ok_or_else(|| not_found(key))?;
    if state.holder.is_none() || !session.break_lock(key)? {
        return Err(Failure::new(NOT_DONE, "free", format!("`{}` is held by nobody", crate::escape::escape(key))));
    }
    let mut json = json_bytes::object("key", key);
    json.insert("broken".into(), json!(true));
    output.reply("broken", &json.into())
}

//! `kvctl lock run`: a command that runs only while the lock is held.

use super::child::{Child, Event};
use super::show;
use crate::cli::{Key, positive_duration};
use crate::context::Context;
use crate::escape::escape;
use crate::failure::{Done, Failure, NOT_DONE, TROUBLE};
use crate::output::note;
use clap::Args;
use sidewire::{Error, LockGuard};
use sidewire_common::units;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// How often the lease and the time limit are looked at.
const TICK: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  kvctl lock run nightly -- ./backup.sh
  kvctl lock run nightly --wait 0 -- ./backup.sh      exit code 1 when another has it
  kvctl lock run deploy --ttl 10m -- make deploy
  kvctl lock run 'stock{7}' -- sh -c 'update-stock --fence \"$SIDEWIRE_LOCK_TOKEN\"'

The command finds SIDEWIRE_LOCK_KEY and SIDEWIRE_LOCK_TOKEN in its environment. Signals that ask
kvctl to end are passed to it, and its exit code becomes kvctl's (128 and the signal's number
when a signal ended it; 126 or 127 when it could not be started). If the lease is lost, the
command is asked to end with SIGTERM, killed after --kill-after, and the exit code is 3.";

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    #[command(flatten)]
    key: Key,
    /// Wait for the lock this long; 0 takes it now or not at all
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = units::parse_duration)]
    wait: Duration,
    /// Stop the command when it has held the lock this long
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    ttl: Option<Duration>,
    /// Kill a command that was asked to end and has not after this long
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = units::parse_duration)]
    kill_after: Duration,
    /// The command and its arguments, behind --
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// Why a command was stopped before its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    LeaseLost,
    TimeOver,
}

impl Run {
    pub fn run(self, context: &Context) -> Done<ExitCode> {
        let key = self.key.bytes()?;
        let guard = self.acquire(&key, context)?;
        let mut child = Child::start(self.program(&key, guard.token()))?;
        let (status, stopped) = self.watch(&mut child, &guard)?;
        let token = guard.token();
        // What was lost cannot be given back; a lapse that shows only now is as bad as one seen earlier.
        let unlocked = if stopped == Some(Stopped::LeaseLost) { Ok(()) } else { guard.unlock() };
        let key = escape(&key);
        match (stopped, unlocked) {
            (Some(Stopped::LeaseLost), _) | (None, Err(Error::LeaseLapsed)) => Err(Failure::new(
                TROUBLE,
                "lease_lost",
                format!("the lease on `{key}` (token {token}) was lost while the command ran: another client may hold the lock"),
            )),
            (Some(Stopped::TimeOver), _) => {
                Err(Failure::new(NOT_DONE, "ttl_over", format!("the command held `{key}` for longer than --ttl and was stopped")))
            }
            (None, unlocked) => {
                if let Err(error) = unlocked {
                    note(format_args!("kvctl: `{key}` was not given back ({error}); the server frees it after the lease"));
                }
                Ok(code_of(status))
            }
        }
    }

    fn acquire(&self, key: &[u8], context: &Context) -> Done<LockGuard> {
        let session = context.session()?;
        if self.wait.is_zero() {
            return match session.try_lock(key)? {
                Some(guard) => Ok(guard),
                None => Err(Failure::new(NOT_DONE, "held", show::holder_of(key, context)?)),
            };
        }
        session.lock(key, self.wait).map_err(|error| match error {
            Error::LockTimeout { holder, token } => Failure::new(
                NOT_DONE,
                "held",
                match holder {
                    Some(holder) => {
                        format!("`{}` is still held after {:?}, by client {holder} (token {token})", escape(key), self.wait)
                    }
                    None => format!("`{}` was not to be had within {:?} (token {token})", escape(key), self.wait),
                },
            ),
            other => other.into(),
        })
    }

    fn program(&self, key: &[u8], token: u64) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.env("SIDEWIRE_LOCK_TOKEN", token.to_string());
        // An environment variable cannot hold a NUL byte.
        if !key.contains(&0) {
            command.env("SIDEWIRE_LOCK_KEY", OsStr::from_bytes(key));
        }
        command
    }

    fn watch(&self, child: &mut Child, guard: &LockGuard) -> Done<(ExitStatus, Option<Stopped>)> {
        let started = Instant::now();
        let mut stopped: Option<(Stopped, Instant)> = None;
        let mut killed = false;
        loop {
            match child.event(TICK) {
                Some(Event::Exited) => return Ok((child.status()?, stopped.map(|(why, _)| why))),
                Some(Event::Signal(signal)) => child.pass_on(signal),
                None => {}
            }
            match stopped {
                Some((_, since)) if !killed && since.elapsed() >= self.kill_after => {
                    child.kill();
                    killed = true;
                }
                Some(_) => {}
                None => {
                    let why = if !guard.is_held() {
                        Stopped::LeaseLost
                    } else if self.ttl.is_some_and(|ttl| started.elapsed() >= ttl) {
                        Stopped::TimeOver
                    } else {
                        continue;
                    };
                    child.ask_to_end();
                    stopped = Some((why, Instant::now()));
                }
            }
        }
    }
}

fn code_of(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(TROUBLE.into());
    ExitCode::from(code as u8)
}

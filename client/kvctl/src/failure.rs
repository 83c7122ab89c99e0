//! What went wrong, as a person reads it, as a program reads it, and as the exit code.

use crate::output::note;
use serde_json::json;
use std::fmt::Display;
use std::io;

/// Exit code of a key that is not there, a condition that does not hold, a line that was refused.
pub const NOT_DONE: u8 = 1;
/// Exit code of a wrong command line or of input that can never be right.
pub const USAGE: u8 = 2;
/// Exit code of trouble with the server, the fabric or this machine.
pub const TROUBLE: u8 = 3;

/// A command that did not do what was asked.
#[derive(Debug, Clone)]
pub struct Failure {
    /// A word for programs.
    pub code: &'static str,
    /// The exit code.
    pub exit: u8,
    /// One sentence for people.
    pub message: String,
}

/// What a command ends with.
pub type Done<T = ()> = Result<T, Failure>;

impl Failure {
    /// Nothing is to be said: the answer stands on standard output already, or nobody is left to read it.
    const QUIET: &'static str = "";

    /// A failure of this kind.
    pub fn new(exit: u8, code: &'static str, message: impl Display) -> Self {
        Self { code, exit, message: message.to_string() }
    }

    /// A wrong command line or input.
    pub fn usage(message: impl Display) -> Self {
        Self::new(USAGE, "usage", message)
    }

    /// No such key.
    pub fn not_found(message: impl Display) -> Self {
        Self::new(NOT_DONE, "not_found", message)
    }

    /// A file that cannot be read or written.
    pub fn file(doing: &str, name: impl Display, error: &io::Error) -> Self {
        Self::new(TROUBLE, "file", format!("cannot {doing} {name}: {error}"))
    }

    /// Output that could not be written; a closed pipe is a quiet end.
    pub fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::quiet(0);
        }
        Self::new(TROUBLE, "output", format!("cannot write the output: {error}"))
    }

    /// Ends with this exit code and says nothing more.
    pub const fn quiet(exit: u8) -> Self {
        Self { code: Self::QUIET, exit, message: String::new() }
    }

    /// Whether this is a quiet end.
    pub fn is_quiet(&self) -> bool {
        self.code == Self::QUIET
    }

    /// Tells it on standard error: for people, or as one JSON object.
    pub fn tell(&self, json: bool) {
        if json {
            note(json!({ "code": self.code, "message": self.message }));
        } else {
            note(format_args!("kvctl: {}", self.message));
        }
    }
}

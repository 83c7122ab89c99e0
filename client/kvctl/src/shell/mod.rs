//! `kvctl shell`

mod complete;
mod line;
mod pipe;
mod terminal;
mod words;

pub use line::understand;

use crate::context::Context;
use crate::failure::Done;
use crate::output::Output;
use clap::Args;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kvctl shell
  printf 'put a 1\\nget a\\n' | kvctl shell
  kvctl --json shell < commands

A line is a command as kvctl has it, without `kvctl`. Words stand between blanks; 'single quotes'
keep everything, \"double quotes\" keep blanks; \\t \\n \\r \\xHH stand for bytes, and a backslash makes
any other character plain. # begins a comment; quit or exit leaves.

From a pipe every command gets one line on standard output, its result or `error: ...`, at once, so
that a program can talk to it. A value or error is escaped to fit a line, a scan's keys stand between
tabs, info is JSON. After an error the next line is read all the same; the exit code is that of the
worst failure, 0 when there was none. On a terminal there are history and completion (Tab), also of
keys; a line that begins with a blank is not remembered.";

/// Many commands over one connection: on a terminal, or from a pipe
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Shell {}

impl Shell {
    pub fn run(self, context: &Context, output: &mut Output) -> Done<ExitCode> {
        let code = if io::stdin().is_terminal() && io::stdout().is_terminal() {
            terminal::run(context, output)?
        } else {
            pipe::run(context, output)?
        };
        Ok(ExitCode::from(code))
    }
}

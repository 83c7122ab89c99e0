//! `kvctl`: Sidewire on the command line.
//!
//! `cli` says what can be asked; each command has a file of its own; `context` is the way to the server, `output`
//! the way back to the user, and `failure` what happens when that is a complaint.

mod cli;
mod cluster;
mod commands;
mod completions;
mod context;
mod counter;
mod del;
mod doctor;
mod dump;
mod escape;
mod exists;
mod failure;
mod fault;
mod file_format;
mod get;
mod info;
mod item;
mod json_bytes;
mod load;
mod lock;
mod output;
mod put;
mod scan;
mod seq;
mod shell;
mod signals;
mod usage;
mod write_result;

use clap::Parser;
use cli::{Cli, Globals};
use context::Context;
use failure::{Done, USAGE};
use output::{Output, Style};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Runs the command that this process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return wrong_command_line(&error),
    };
    start_log(&cli.globals);
    let json = cli.globals.json;
    run(cli).unwrap_or_else(|failure| {
        if !failure.is_quiet() {
            failure.tell(json);
        }
        ExitCode::from(failure.exit)
    })
}

/// The words of a line of the shell, if it is one that the shell would carry out. Nothing is carried out here.
///
/// # Errors
/// What the shell would say of it.
pub fn understand(line: &[u8]) -> Result<Vec<OsString>, String> {
    shell::understand(line).map_err(|failure| failure.message)
}

fn run(cli: Cli) -> Done<ExitCode> {
    let mut output = Output::new(if cli.globals.json { Style::Json } else { Style::Text });
    let context = Context::new(cli.globals);
    let code = commands::run(cli.command, &context, &mut output);
    // What was answered before a failure is told before it.
    output.finish()?;
    code
}

fn wrong_command_line(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if json && !usage::is_answer(error) {
        usage::failure(error).tell(true);
    } else {
        // A reader that has gone is no reason to complain.
        let _ = error.print();
    }
    ExitCode::from(if usage::is_answer(error) { 0 } else { USAGE })
}

fn start_log(globals: &Globals) {
    let level = match globals.verbose {
        0 => return,
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::new(format!("warn,kvctl={level},sidewire={level},sidewire_common={level}"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}

//! One line of the shell: understood and carried out.

use super::words;
use crate::cli::Command;
use crate::commands;
use crate::context::Context;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::usage;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use std::cell::RefCell;
use std::ffi::OsString;

/// Commands that talk to a terminal or a program of their own.
const OUTSIDE: [&str; 4] = ["load", "dump", "shell", "completions"];

#[derive(Parser)]
#[command(name = "", multicall = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// What to do after a line.
#[derive(PartialEq, Eq, Debug)]
pub enum Next {
    /// Read the next one.
    Go,
    /// There was nothing on it.
    Blank,
    /// The user wants to leave.
    Leave,
}

/// What a line asks for.
enum Asked {
    Nothing,
    Leave,
    /// Help, as text.
    Help(String),
    Run(Command),
}

/// Carries out a line. `short`: messages of one line.
pub fn run(line: &[u8], short: bool, context: &Context, output: &mut Output) -> Done<Next> {
    let words = words::split(line).map_err(Failure::usage)?;
    match parse(&words, short, &mut parser())? {
        Asked::Nothing => Ok(Next::Blank),
        Asked::Leave => Ok(Next::Leave),
        Asked::Help(text) => output.line(text).map(|()| Next::Go),
        Asked::Run(command) => commands::run(command, context, output).map(|_| Next::Go),
    }
}

/// The words of a line that the shell would carry out.
pub fn understand(line: &[u8]) -> Done<Vec<OsString>> {
    thread_local! {
        static PARSER: RefCell<clap::Command> = RefCell::new(parser());
    }
    let words = words::split(line).map_err(Failure::usage)?;
    PARSER.with_borrow_mut(|parser| parse(&words, true, parser))?;
    Ok(words)
}

fn parse(words: &[OsString], short: bool, parser: &mut clap::Command) -> Done<Asked> {
    let Some(first) = words.first() else { return Ok(Asked::Nothing) };
    if words.len() == 1 && (first == "quit" || first == "exit") {
        return Ok(Asked::Leave);
    }
    if let Some(name) = OUTSIDE.into_iter().find(|name| first == name) {
        return Err(Failure::usage(format!("{name} is no command of the shell; run `kvctl {name}`")));
    }
    let refusal = |error: clap::Error| Failure::usage(usage::sentence(&error, short));
    let matches = match parser.try_get_matches_from_mut(words) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Ok(Asked::Help(error.render().to_string().trim_end().to_owned()));
        }
        Err(error) => return Err(refusal(error)),
    };
    let line = Line::from_arg_matches(&matches).map_err(refusal)?;
    if let Command::Lock(lock) = &line.command
        && lock.is_run()
    {
        return Err(Failure::usage("lock run is no command of the shell; run `kvctl lock run`"));
    }
    Ok(Asked::Run(line.command))
}

/// The commands of the shell as clap knows them.
pub fn parser() -> clap::Command {
    OUTSIDE.into_iter().fold(Line::command(), |parser, name| parser.mut_subcommand(name, |command| command.hide(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(words: &[&str]) -> String {
        usage::sentence(&parser().try_get_matches_from(words).unwrap_err(), true)
    }

    #[test]
    fn the_parser_is_sound() {
        parser().debug_assert();
    }

    #[test]
    fn messages_can_be_one_line() {
        let many = complaint(&["counter", "add", "k", "many"]);
        assert_eq!(many, "invalid value 'many' for '[DELTA]': invalid digit found in string");
        for words in [&["frob"][..], &["counter"], &["get"], &["get", "--frob", "k"]] {
            let text = complaint(words);
            assert!(!text.contains('\n') && text.len() > 10, "{text}");
        }
    }
}

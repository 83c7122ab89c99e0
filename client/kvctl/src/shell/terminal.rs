//! The shell on a terminal: history and completion.

use super::complete::Helper;
use super::line::{self, Next};
use crate::context::Context;
use crate::failure::{Done, Failure, TROUBLE};
use crate::output::{Output, note};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::path::PathBuf;

/// Lines of history that are kept.
const HISTORY_LINES: usize = 5_000;

/// Reads commands until the user leaves; gives the exit code of the last one.
pub fn run(context: &Context, output: &mut Output) -> Done<u8> {
    let mut editor = editor(context).map_err(|error| trouble(&error))?;
    let history = history_file();
    if let Some(path) = &history {
        // None yet, the first time.
        let _ = editor.load_history(path);
    }
    let server = context.globals().server();
    note(format_args!("kvctl {}, server {server}; help lists the commands, Ctrl-D leaves", env!("CARGO_PKG_VERSION")));
    let mut last = 0;
    loop {
        match editor.readline("sidewire> ") {
            Ok(text) => match carry_out(&text, context, output)? {
                None => break,
                Some(code) => last = code,
            },
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(trouble(&error)),
        }
    }
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        note(format_args!("kvctl: the history was not kept in {}: {error}", path.display()));
    }
    Ok(last)
}

fn editor(context: &Context) -> rustyline::Result<Editor<Helper<'_>, DefaultHistory>> {
    let config = Config::builder()
        .auto_add_history(true)
        .history_ignore_space(true)
        .max_history_size(HISTORY_LINES)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Helper::new(context)));
    Ok(editor)
}

/// The line's exit code; nothing when the user leaves.
fn carry_out(text: &str, context: &Context, output: &mut Output) -> Done<Option<u8>> {
    let code = match line::run(text.as_bytes(), false, context, output) {
        Ok(Next::Leave) => return Ok(None),
        Ok(Next::Go | Next::Blank) => 0,
        Err(failure) => {
            if !failure.is_quiet() {
                output.finish()?;
                failure.tell(output.is_json());
            }
            failure.exit
        }
    };
    output.finish()?;
    Ok(Some(code))
}

fn trouble(error: &ReadlineError) -> Failure {
    Failure::new(TROUBLE, "terminal", format!("the terminal cannot be used: {error}"))
}

/// Where the history is kept, with its folder made.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?.join("sidewire");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("kvctl_history"))
}

//! Completion in the shell: commands, flags, and keys that exist.

use super::line::parser;
use super::words;
use crate::context::Context;
use clap::Command;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;

/// Keys offered at once.
const KEYS_MAX: u64 = 50;

/// Completes what stands before the cursor.
pub struct Helper<'a> {
    context: &'a Context,
    parser: Command,
}

impl<'a> Helper<'a> {
    /// Keys are asked from the server of this context.
    pub fn new(context: &'a Context) -> Self {
        let mut parser = parser();
        parser.build();
        Self { context, parser }
    }

    /// Existing keys that begin with this and can be written plainly.
    fn keys(&self, begin: &str) -> Vec<String> {
        let Ok(fleet) = self.context.fleet() else { return Vec::new() };
        let items = fleet.scan(begin.as_bytes(), false, KEYS_MAX);
        let keys = items.filter_map(|item| String::from_utf8(item.ok()?.key).ok());
        let mut keys: Vec<_> = keys.filter(|key| is_plain(key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Whether the shell reads it as the one word it is.
fn is_plain(key: &str) -> bool {
    words::split(key.as_bytes()).is_ok_and(|words| words.len() == 1 && words[0] == *key)
}

/// What may stand at the end of a line.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// One of these words.
    Words(Vec<String>),
    /// A key.
    Key,
}

/// What may stand behind these finished words, if it begins with `begin`.
fn wanted(parser: &Command, finished: &[&str], begin: &str) -> Wanted {
    let mut command = parser;
    let mut arguments = 0;
    for word in finished {
        match command.find_subcommand(word) {
            Some(inner) if arguments == 0 => command = inner,
            _ if word.starts_with('-') => {}
            _ => arguments += 1,
        }
    }
    let words: Vec<String> = if begin.starts_with('-') {
        command.get_arguments().filter_map(|argument| argument.get_long()).map(|long| format!("--{long}")).collect()
    } else if command.has_subcommands() {
        let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        let own = finished.is_empty().then_some("quit");
        visible.map(Command::get_name).chain(own).map(str::to_owned).collect()
    } else if arguments == 0 && command.get_positionals().any(|argument| argument.get_id() == "key") {
        return Wanted::Key;
    } else {
        Vec::new()
    };
    Wanted::Words(words.into_iter().filter(|word| word.starts_with(begin)).collect())
}

impl Completer for Helper<'_> {
    type Candidate = Pair;

    fn complete(&self, line: &str, cursor: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..cursor];
        let start = before.rfind(' ').map_or(0, |at| at + 1);
        let finished: Vec<&str> = before[..start].split_whitespace().collect();
        let begin = &before[start..];
        let words = match wanted(&self.parser, &finished, begin) {
            Wanted::Words(words) => words,
            Wanted::Key => self.keys(begin),
        };
        let pairs = words.into_iter().map(|word| Pair { replacement: format!("{word} "), display: word });
        Ok((start, pairs.collect()))
    }
}

impl Hinter for Helper<'_> {
    type Hint = String;
}
impl Highlighter for Helper<'_> {}
impl Validator for Helper<'_> {}
impl rustyline::Helper for Helper<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(finished: &[&str], begin: &str) -> Wanted {
        let mut parser = parser();
        parser.build();
        wanted(&parser, finished, begin)
    }

    #[test]
    fn commands_flags_and_keys() {
        assert_eq!(words(&[], "ge"), Wanted::Words(vec!["get".into()]));
        assert_eq!(words(&[], "lo"), Wanted::Words(vec!["lock".into()]));
        assert_eq!(words(&["counter"], "a"), Wanted::Words(vec!["add".into()]));
        assert_eq!(words(&["put"], "--if-a"), Wanted::Words(vec!["--if-absent".into()]));
        assert_eq!(words(&["get"], "us"), Wanted::Key);
        assert_eq!(words(&["counter", "add"], ""), Wanted::Key);
        assert_eq!(words(&["get", "counter"], ""), Wanted::Words(vec![]));
    }
}

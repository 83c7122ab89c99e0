//! Results on standard output, in the style that was asked for.

use crate::failure::{Done, Failure};
use serde_json::Value as Json;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// For people and shell scripts.
    Text,
    /// Text, but every result is one line: for programs that talk to the shell through a pipe.
    Line,
    /// JSON, one document a line.
    Json,
}

/// Standard output. Flushed by [`Output::finish`], so that a failed write is seen.
pub struct Output {
    style: Style,
    terminal: bool,
    stream: BufWriter<io::Stdout>,
}

impl Output {
    /// Standard output in this style.
    pub fn new(style: Style) -> Self {
        Self { style, terminal: io::stdout().is_terminal(), stream: BufWriter::new(io::stdout()) }
    }

    /// The style.
    pub const fn style(&self) -> Style {
        self.style
    }

    /// From now on every result is one line.
    pub fn one_line_a_result(&mut self) {
        if self.style == Style::Text {
            self.style = Style::Line;
        }
    }

    /// Whether results are JSON.
    pub fn is_json(&self) -> bool {
        self.style == Style::Json
    }

    /// Whether a person looks at it.
    pub const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// One result: its text, or the same as JSON.
    pub fn reply(&mut self, text: impl Display, json: &Json) -> Done {
        if self.is_json() { self.line(json) } else { self.line(text) }
    }

    /// One line.
    pub fn line(&mut self, text: impl Display) -> Done {
        writeln!(self.stream, "{text}").map_err(|error| Failure::output(&error))
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Done {
        self.stream.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Hands everything to the system.
    pub fn finish(&mut self) -> Done {
        self.stream.flush().map_err(|error| Failure::output(&error))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A line on standard error. That nobody reads it is no reason to stop.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

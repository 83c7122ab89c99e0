//! A progress bar on a terminal, nothing elsewhere.

use super::input::{Input, Position};
use crate::output::note;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often the bar is drawn anew.
const INTERVAL: Duration = Duration::from_millis(100);

/// The bar, if there is one.
pub struct Progress {
    bar: Option<ProgressBar>,
    position: Position,
    started: Instant,
    shown: Instant,
}

impl Progress {
    /// Of a file that is being read.
    pub fn new(input: &Input) -> Self {
        let bar = io::stderr().is_terminal().then(|| bar(input.bytes));
        let now = Instant::now();
        Self { bar, position: Rc::clone(&input.position), started: now, shown: now }
    }

    /// So many records are stored.
    pub fn show(&mut self, stored: u64) {
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < INTERVAL {
            return;
        }
        self.shown = Instant::now();
        let rate = stored as f64 / self.started.elapsed().as_secs_f64();
        bar.set_message(format!("{stored} records, {rate:.0}/s"));
        bar.set_position(self.position.get());
    }

    /// A line above the bar.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        }
    }

    /// The bar goes.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {percent:>3}% {msg}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} read, {msg}"),
    };
    // A template that does not parse leaves the usual look.
    ProgressStyle::with_template(template).map_or(bar.clone(), |style| bar.with_style(style))
}

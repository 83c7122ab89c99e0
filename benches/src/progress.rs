//! Progress on a terminal; nothing where stderr is not one.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::drive::Limits;
use crate::force::{Reply, tell};

/// A line on stderr that tells how far a phase is.
pub struct Progress {
    title: &'static str,
    bar: ProgressBar,
    /// Whether counts go to the process that started this one.
    piped: bool,
}

impl Progress {
    /// A line for a phase, named `title`.
    pub fn new(title: &'static str, limits: &Limits) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { title, bar: ProgressBar::hidden(), piped: false };
        }
        let template = match limits.operations {
            Some(_) => "{msg:9} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
            None => "{msg:9} {spinner} {human_pos} operations, {per_sec}, {elapsed}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = match limits.operations {
            Some(operations) => ProgressBar::new(operations),
            None => ProgressBar::new_spinner(),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        bar.set_style(style);
        bar.set_message(title);
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { title, bar, piped: false }
    }

    /// Counts go to the process that started this one.
    pub fn piped() -> Self {
        Self { title: "part", bar: ProgressBar::hidden(), piped: true }
    }

    /// The phase's name.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// Writes a line to stderr that stays.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// Operations that ended so far.
    pub fn set(&self, operations: u64) {
        self.bar.set_position(operations);
        if self.piped {
            tell(&Reply::Done(operations));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

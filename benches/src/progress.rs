//! Progress on a terminal; nothing where stderr is not one.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::drive::Limits;

/// A line on stderr that tells how far a phase is.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A line for a phase, named `title`.
    pub fn new(title: &'static str, limits: &Limits) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
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
        Self { bar }
    }

    /// Operations that ended so far.
    pub fn set(&self, operations: u64) {
        self.bar.set_position(operations);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

//! The account of a load: what was stored, what was refused, and from where to go on.

use super::pipeline::Settled;
use super::progress::Progress;
use crate::failure::{Done, Failure, NOT_DONE, TROUBLE};
use crate::output::Output;
use serde_json::json;
use sidewire_common::units::format_bytes;
use std::collections::BTreeSet;
use std::time::Instant;

/// Exit code of a load that Ctrl-C ended, as shells know it.
const INTERRUPTED: u8 = 130;

/// The account.
pub struct Ledger {
    name: String,
    errors_max: u64,
    progress: Progress,
    started: Instant,
    stored: u64,
    bytes: u64,
    refused: u64,
    /// Lines that are neither stored nor refused yet.
    open: BTreeSet<u64>,
    last: u64,
    stopped: Option<Failure>,
}

impl Ledger {
    /// Of a file with this name.
    pub fn new(name: String, errors_max: u64, progress: Progress) -> Self {
        let (stored, bytes, refused) = (0, 0, 0);
        Self {
            name,
            errors_max,
            progress,
            started: Instant::now(),
            stored,
            bytes,
            refused,
            open: BTreeSet::new(),
            last: 0,
            stopped: None,
        }
    }

    /// A line is being dealt with.
    pub fn begin(&mut self, line: u64) {
        self.open.insert(line);
        self.last = line;
    }

    /// Takes in what has ended.
    pub fn book(&mut self, settled: &mut Vec<Settled>) {
        for Settled { line, outcome } in settled.drain(..) {
            match outcome {
                Ok(bytes) => {
                    self.open.remove(&line);
                    self.stored += 1;
                    self.bytes += bytes;
                }
                // Stays open: it is where to go on.
                Err(failure) if failure.exit == TROUBLE => self.stop(failure),
                Err(failure) => self.refuse(line, &failure.message),
            }
        }
        self.progress.show(self.stored);
    }

    /// A line that will not be stored.
    pub fn refuse(&mut self, line: u64, reason: &str) {
        if self.refused == self.errors_max {
            // Stays open, so that it can be mended and the load go on from there.
            let limit = self.errors_max;
            let message = format!("more than {} refused, the last at {}:{line}: {reason}", count(limit, "line"), self.name);
            self.stop(Failure::new(NOT_DONE, "too_many_errors", message));
            return;
        }
        self.open.remove(&line);
        self.refused += 1;
        self.progress.note(&format!("{}:{line}: {reason}", self.name));
    }

    /// Nothing more is to be sent. The first reason counts.
    pub fn stop(&mut self, failure: Failure) {
        self.stopped.get_or_insert(failure);
    }

    /// The user asked to end.
    pub fn interrupt(&mut self) {
        self.stop(Failure::new(INTERRUPTED, "interrupted", "interrupted"));
    }

    /// Whether nothing more is to be sent.
    pub const fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Where to go on: the first line that is neither stored nor refused, or the one after the last that was dealt with.
    fn resume_line(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.last + 1)
    }

    /// Tells the result.
    pub fn close(self, output: &mut Output) -> Done {
        self.progress.finish();
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.stored as f64 / seconds.max(1e-9);
        let resume_from = self.stopped.as_ref().map(|_| self.resume_line());
        let json = json!({
            "stored": self.stored, "refused": self.refused, "bytes": self.bytes, "seconds": seconds, "resume_from": resume_from,
        });
        let refused = if self.refused > 0 { format!(", {} refused", count(self.refused, "line")) } else { String::new() };
        let stored = count(self.stored, "record");
        let size = format_bytes(self.bytes);
        output.reply(format_args!("{stored} stored ({size}) in {seconds:.2} s, {rate:.0}/s{refused}"), &json)?;
        match (self.stopped, resume_from) {
            (Some(mut failure), Some(line)) => {
                failure.message = format!(
                    "{}; every line before {line} is stored or told above, go on with --resume-from {line}",
                    failure.message
                );
                Err(failure)
            }
            _ if self.refused > 0 => {
                Err(Failure::new(NOT_DONE, "lines_refused", format!("{} refused, told above", count(self.refused, "line"))))
            }
            _ => Ok(()),
        }
    }
}

/// `1 line`, `2 lines`.
fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

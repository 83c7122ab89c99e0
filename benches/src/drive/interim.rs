//! Lines that tell how a phase is doing while it runs, for logs.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::measured::note;
use crate::progress::Progress;
use crate::table::time;

/// How often the main thread looks at the others.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks that a line waits for latencies that threads have not sent yet, since they wait for an answer.
const LOOKS_MAX: u32 = 2;

/// An empty histogram of an interval: two digits, which make it small enough to be sent around.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 120_000_000_000, 2).expect("the bounds are constants that fit")
}

/// What is told of each interval.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// Time between two lines.
    pub every: Duration,
}

/// The course of a phase over time, and its lines.
pub struct Interim<'a> {
    progress: &'a Progress,
    line: Option<Line>,
    began: Instant,
    next: Instant,
    last: (f64, u64),
    open: Option<Open>,
    /// Operations that had ended after so many seconds.
    pub course: Vec<(f64, u64)>,
}

/// A line that waits for latencies.
struct Open {
    seconds: f64,
    operations: u64,
    latencies: Histogram<u64>,
    missing: usize,
    looks: u32,
}

impl<'a> Interim<'a> {
    /// Of a phase that begins now.
    pub fn new(progress: &'a Progress, line: Option<Line>) -> Self {
        let began = Instant::now();
        let next = began + line.map_or(Duration::ZERO, |line| line.every);
        Self { progress, line, began, next, last: (0.0, 0), open: None, course: vec![(0.0, 0)] }
    }

    /// Looks at the count of operations; true when an interval has ended and `threads` threads are to send its latencies.
    pub fn look(&mut self, operations: u64, threads: usize) -> bool {
        let now = Instant::now();
        let seconds = (now - self.began).as_secs_f64();
        self.progress.set(operations);
        note(&mut self.course, seconds, operations);
        if let Some(open) = &mut self.open {
            open.looks += 1;
            if open.missing == 0 || open.looks > LOOKS_MAX {
                self.tell();
            }
        }
        let Some(line) = self.line.filter(|_| now >= self.next) else { return false };
        self.tell();
        self.next += line.every;
        self.open = Some(Open { seconds, operations, latencies: histogram(), missing: threads, looks: 0 });
        true
    }

    /// A thread's latencies of the interval that ended.
    pub fn add(&mut self, latencies: &Histogram<u64>) {
        let Some(open) = &mut self.open else { return };
        open.latencies.add(latencies).expect("all intervals have the same bounds");
        open.missing = open.missing.saturating_sub(1);
        if open.missing == 0 {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let Some(open) = self.open.take() else { return };
        let rate = (open.operations - self.last.1) as f64 / (open.seconds - self.last.0).max(f64::MIN_POSITIVE);
        self.last = (open.seconds, open.operations);
        let mut text = format!("{} {:.1} s: {} operations, {rate:.0}/s", self.progress.title(), open.seconds, open.operations);
        if !open.latencies.is_empty() {
            let at = |quantile| time(open.latencies.value_at_quantile(quantile));
            text += &format!(", p50 {}, p99 {}, max {}", at(0.5), at(0.99), time(open.latencies.max()));
        }
        self.progress.line(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Limits;

    #[test]
    fn an_interval_asks_for_latencies_once() {
        let progress = Progress::new("test", &Limits::default());
        let mut interim = Interim::new(&progress, Some(Line { every: Duration::from_millis(1) }));
        std::thread::sleep(Duration::from_millis(2));
        assert!(interim.look(10, 2));
        let mut latencies = histogram();
        latencies.record(5).expect("it fits");
        interim.add(&latencies);
        assert!(interim.open.is_some());
        interim.add(&latencies);
        assert!(interim.open.is_none() && interim.last.1 == 10);
        assert!(!Interim::new(&progress, None).look(10, 2));
    }
}

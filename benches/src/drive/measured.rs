//! What a phase brought, all threads together.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidewire::ClientStats;

use super::phase::Part;
use super::stats_delta;
use crate::recorder::{Recorded, Recorder};

/// Points of a course over time at most; beyond, every second one is dropped.
const POINTS_MAX: usize = 1_200;

/// What a phase brought, all threads together.
#[derive(Debug, Default)]
pub struct Measured {
    /// Latencies and failures.
    pub recorder: Recorder,
    /// The client's own counts.
    pub stats: ClientStats,
    /// When the first operation began and the last one ended, nanoseconds of the monotonic clock.
    pub span_ns: Option<(u64, u64)>,
    /// CPU time of the threads.
    pub cpu_ns: u64,
    /// Why some thread gave up, if one did.
    pub gave_up: Option<String>,
    /// Operations that had ended after so many seconds.
    pub course: Vec<(f64, u64)>,
}

/// The same in a form that can be sent to another process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sent {
    recorded: Recorded,
    stats: [u64; stats_delta::COUNTS],
    span_ns: Option<(u64, u64)>,
    cpu_ns: u64,
    gave_up: Option<String>,
}

impl Measured {
    /// The parts of all threads together.
    pub fn of(parts: &[Part]) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.recorder.merge(&part.recorder);
            all.stats = stats_delta::sum(all.stats, part.stats);
            all.cpu_ns += part.cpu_ns;
            all.gave_up = all.gave_up.or_else(|| part.gave_up.clone());
        }
        let began = parts.iter().map(|part| part.began_ns).min();
        all.span_ns = began.zip(parts.iter().map(|part| part.ended_ns).max());
        all
    }

    /// Adds what another process brought.
    pub fn merge(&mut self, other: Self) {
        self.recorder.merge(&other.recorder);
        self.stats = stats_delta::sum(self.stats, other.stats);
        self.cpu_ns += other.cpu_ns;
        self.gave_up = self.gave_up.take().or(other.gave_up);
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (mine, theirs) => mine.or(theirs),
        };
    }

    /// From the first operation's begin to the last one's end.
    pub fn elapsed(&self) -> Duration {
        self.span_ns.map_or(Duration::ZERO, |(began, ended)| Duration::from_nanos(ended.saturating_sub(began)))
    }

    /// All of it, to be sent.
    pub fn sent(&self) -> Sent {
        Sent {
            recorded: self.recorder.recorded(),
            stats: stats_delta::to_array(&self.stats),
            span_ns: self.span_ns,
            cpu_ns: self.cpu_ns,
            gave_up: self.gave_up.clone(),
        }
    }

    /// Operations per second over the phase.
    pub fn rate(&self) -> f64 {
        let elapsed = self.elapsed();
        if elapsed.is_zero() { 0.0 } else { self.recorder.operations() as f64 / elapsed.as_secs_f64() }
    }
}

impl From<Sent> for Measured {
    fn from(sent: Sent) -> Self {
        Self {
            recorder: sent.recorded.into(),
            stats: stats_delta::from_array(sent.stats),
            span_ns: sent.span_ns,
            cpu_ns: sent.cpu_ns,
            gave_up: sent.gave_up,
            course: Vec::new(),
        }
    }
}

/// Adds a point to a course over time, which stays bounded.
pub fn note(course: &mut Vec<(f64, u64)>, seconds: f64, operations: u64) {
    course.push((seconds, operations));
    if course.len() > POINTS_MAX {
        let mut keep = false;
        course.retain(|_| {
            keep = !keep;
            keep
        });
    }
}

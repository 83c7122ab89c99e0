//! A stretch of work that all threads begin together, and what each brings back from it.

use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidewire::ClientStats;

use crate::mix::Mix;
use crate::pacer::Pacing;
use crate::recorder::Recorder;

/// Operations that a thread takes from the common budget at a time, at most.
const BATCH_MAX: u64 = 256;
/// Batches per thread that a small budget is cut into at least, so that threads end together.
const BATCHES_MIN: u64 = 64;

/// What a thread does in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A mix of operations, out of the phase's budget.
    Mix(Mix),
    /// A mix of operations until the phase is stopped.
    Endless(Mix),
    /// Every record is read once, by one of the threads: they share the caches of their client.
    Sweep,
    /// The requests of a trace.
    Replay,
}

/// When a phase ends: at the first of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Operations of all threads together.
    pub operations: Option<u64>,
    /// Time.
    pub duration: Option<Duration>,
}

/// What is to be done in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// When it ends.
    pub limits: Limits,
    /// What each thread does.
    pub work: Vec<Work>,
    /// At which rate operations are meant to begin; `None` is a closed loop.
    pub pacing: Option<Pacing>,
}

impl Order {
    /// A closed loop of so many threads that do the same.
    pub fn closed(limits: Limits, work: Work, threads: usize) -> Self {
        Self { limits, work: vec![work; threads], pacing: None }
    }

    /// The same at a rate.
    pub fn paced(self, pacing: Option<Pacing>) -> Self {
        Self { pacing, ..self }
    }
}

/// What the threads of a phase share.
#[derive(Debug)]
pub struct Phase {
    total: u64,
    left: AtomicU64,
    batch: u64,
    stop: AtomicBool,
    gate: Barrier,
    pacing: Option<Pacing>,
    /// Interim intervals that ended so far.
    ticks: AtomicU64,
}

impl Phase {
    /// A phase of `operations` in all, or until it is stopped, for this many threads.
    pub fn new(operations: Option<u64>, threads: usize, pacing: Option<Pacing>) -> Self {
        let batch = operations.map_or(BATCH_MAX, |all| all / (threads as u64 * BATCHES_MIN));
        Self {
            total: operations.unwrap_or(u64::MAX),
            left: AtomicU64::new(operations.unwrap_or(u64::MAX)),
            batch: batch.clamp(1, BATCH_MAX),
            stop: AtomicBool::new(false),
            gate: Barrier::new(threads),
            pacing,
            ticks: AtomicU64::new(0),
        }
    }

    /// The rate, if there is one.
    pub fn pacing(&self) -> Option<Pacing> {
        self.pacing
    }

    /// Waits until every thread is here.
    pub fn begin(&self) {
        self.gate.wait();
    }

    /// Takes a batch of operations, counted from 0 over all threads; an empty one when none are left.
    pub fn take_batch(&self) -> Range<u64> {
        let take = |left: u64| Some(left - left.min(self.batch));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        let first = self.total - left;
        first..first + left.min(self.batch)
    }

    /// Ends the phase early.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was ended early.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// An interim interval has ended.
    pub fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// Interim intervals that ended so far.
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }
}

/// Operations in a batch.
pub fn count(batch: Range<u64>) -> u64 {
    batch.end - batch.start
}

/// One thread's part of a phase. Its times are nanoseconds of the monotonic clock, which processes share.
#[derive(Debug)]
pub struct Part {
    /// Latencies and failures.
    pub recorder: Recorder,
    /// The store's own counts, of this phase.
    pub stats: ClientStats,
    /// When its first operation began.
    pub began_ns: u64,
    /// When its last operation ended.
    pub ended_ns: u64,
    /// CPU time of the thread.
    pub cpu_ns: u64,
    /// Why the thread did not go on to the end.
    pub gave_up: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_handed_out_exactly() {
        for (operations, threads) in [(1, 4), (1_000, 3), (1_000_000, 2)] {
            let phase = Phase::new(Some(operations), threads, None);
            let batches = std::iter::repeat_with(|| phase.take_batch()).take_while(|batch| !batch.is_empty());
            assert!(batches.flatten().eq(0..operations));
        }
        assert_eq!(Phase::new(None, 1, None).take_batch(), 0..BATCH_MAX);
    }
}

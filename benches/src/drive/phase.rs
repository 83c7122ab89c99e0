//! A stretch of work that all threads begin together, and what each brings back from it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use sidewire::ClientStats;

use crate::recorder::Recorder;
use crate::workload::Mix;

/// Operations that a thread takes from the common budget at a time, at most.
const BATCH_MAX: u64 = 256;
/// Batches per thread that a small budget is cut into at least, so that threads end together.
const BATCHES_MIN: u64 = 64;

/// What a thread does in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A mix of operations, out of the phase's budget.
    Mix(Mix),
    /// A mix of operations until the phase is stopped.
    Endless(Mix),
    /// Every record is read once, by each thread: each has caches of its own.
    Sweep,
}

/// What the threads of a phase share.
#[derive(Debug)]
pub struct Phase {
    budget: AtomicU64,
    batch: u64,
    stop: AtomicBool,
    gate: Barrier,
}

impl Phase {
    /// A phase of `operations` in all, or until it is stopped, for this many threads.
    pub fn new(operations: Option<u64>, threads: usize) -> Self {
        let batch = operations.map_or(BATCH_MAX, |all| all / (threads as u64 * BATCHES_MIN));
        Self {
            budget: AtomicU64::new(operations.unwrap_or(u64::MAX)),
            batch: batch.clamp(1, BATCH_MAX),
            stop: AtomicBool::new(false),
            gate: Barrier::new(threads),
        }
    }

    /// Waits until every thread is here.
    pub fn begin(&self) {
        self.gate.wait();
    }

    /// Takes a batch of operations; 0 when none are left.
    pub fn take_batch(&self) -> u64 {
        let take = |left: u64| (left > 0).then(|| left - left.min(self.batch));
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_or(0, |left| left.min(self.batch))
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
}

/// One thread's part of a phase.
#[derive(Debug)]
pub struct Part {
    /// Latencies and failures.
    pub recorder: Recorder,
    /// The store's own counts, of this phase.
    pub stats: ClientStats,
    /// When its first operation began.
    pub began: Instant,
    /// When its last operation ended.
    pub ended: Instant,
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
            let phase = Phase::new(Some(operations), threads);
            let taken: u64 = std::iter::repeat_with(|| phase.take_batch()).take_while(|batch| *batch > 0).sum();
            assert_eq!(taken, operations);
        }
        assert_eq!(Phase::new(None, 1).take_batch(), BATCH_MAX);
    }
}

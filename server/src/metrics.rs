//! What workers count. Metrics are ours; counters are the user's.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// One worker's figures; it alone writes them.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Thread id of the worker, 0 before it runs.
    pub thread: AtomicU64,
    /// Requests accepted.
    pub requests: AtomicU64,
    /// Times it woke from sleep.
    pub wakeups: AtomicU64,
    /// Write endpoints it serves.
    pub connections: AtomicI64,
    /// Keys in its shards.
    pub keys: AtomicI64,
    /// Bytes of their records, without padding.
    pub record_bytes: AtomicI64,
    /// Requests refused as malformed.
    pub refused: AtomicU64,
    /// Keys that expired.
    pub expired: AtomicU64,
    /// Segments split.
    pub splits: AtomicU64,
    /// Segments in use.
    pub segments: AtomicI64,
}

/// One more in a metric that the calling thread alone writes: no locked instruction, which would wait for its stores.
#[inline]
pub(crate) fn count(metric: &AtomicU64) {
    metric.store(metric.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// The same for what rises and falls.
#[inline]
pub(crate) fn change(metric: &AtomicI64, by: i64) {
    metric.store(metric.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl WorkerMetrics {
    /// CPU time of the worker's thread so far; zero when the kernel does not tell.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let thread = self.thread.load(Ordering::Relaxed);
        std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .map_or(Duration::ZERO, Duration::from_nanos)
    }
}

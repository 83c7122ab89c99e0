//! Latencies by kind of operation, and failures, of one thread or of all.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::failure::{Failure, Failures};
use crate::workload::Kind;

/// Longer latencies are recorded as this.
const LATENCY_MAX: Duration = Duration::from_secs(120);
/// Significant decimal digits of a recorded latency.
const DIGITS: u8 = 3;

/// An empty histogram of nanoseconds. Its size is fixed: recording allocates nothing, however long a run is.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, DIGITS).expect("the bounds are constants that fit")
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Recorder {
    latencies: [Histogram<u64>; Kind::ALL.len()],
    /// Failed operations; they are in no histogram.
    pub failures: Failures,
}

/// Percentiles of one kind of operation, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Half took no longer.
    pub p50: u64,
    /// 99 % took no longer.
    pub p99: u64,
    /// 99.9 % took no longer.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    /// The figures of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self { latencies: std::array::from_fn(|_| histogram()), failures: Failures::default() }
    }
}

impl Recorder {
    /// One operation that came through.
    #[inline]
    pub fn record(&mut self, kind: Kind, took: Duration) {
        self.latencies[kind as usize].saturating_record(took.as_nanos() as u64);
    }

    /// One operation that failed.
    #[cold]
    pub fn fail(&mut self, failure: Failure) {
        self.failures.add(failure);
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(theirs).expect("all histograms have the same bounds");
        }
        self.failures.merge(&other.failures);
    }

    /// Operations that came through.
    pub fn operations(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }

    /// Operations of one kind that came through.
    pub fn count(&self, kind: Kind) -> u64 {
        self.latencies[kind as usize].len()
    }

    /// The figures of the kinds that happened.
    pub fn latencies(&self) -> BTreeMap<&'static str, Latency> {
        let happened = Kind::ALL.iter().zip(&self.latencies).filter(|(_, latency)| !latency.is_empty());
        happened.map(|(kind, latency)| (kind.name(), Latency::of(latency))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_recorded_apart_and_merged() {
        let mut one = Recorder::default();
        let mut two = Recorder::default();
        for ns in 1..=1_000 {
            one.record(Kind::Read, Duration::from_nanos(ns));
        }
        two.record(Kind::Rmw, Duration::from_secs(500));
        two.fail(Failure::absent(1));
        one.merge(&two);
        assert_eq!((one.operations(), one.count(Kind::Read), one.failures.total()), (1_001, 1_000, 1));
        let latencies = one.latencies();
        assert_eq!(latencies.keys().copied().collect::<Vec<_>>(), ["read", "rmw"]);
        let read = latencies["read"];
        assert_eq!((read.p50, read.p99, read.p999, read.max), (500, 990, 999, 1_000));
        assert!(latencies["rmw"].max >= 120_000_000_000);
    }
}

//! Latencies by kind of operation, and failures, of one thread or of all.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Failures};
use crate::mix::{KINDS, Kind};

/// Longer latencies are recorded as this.
const LATENCY_MAX: Duration = Duration::from_secs(120);
/// Significant decimal digits of a recorded latency.
const DIGITS: u8 = 3;

/// Points of a percentile curve for each halving of what is left, and in all.
const CURVE_TICKS: u32 = 5;
const CURVE_POINTS_MAX: usize = 400;

/// An empty histogram of nanoseconds. Its size is fixed: recording allocates nothing, however long a run is.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, DIGITS).expect("the bounds are constants that fit")
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Recorder {
    latencies: [Histogram<u64>; KINDS],
    /// Failed operations; they are in no histogram.
    pub failures: Failures,
    /// Records that were not there, where that is no failure.
    pub misses: u64,
}

/// A recorder in a form that can be sent to another process: of each kind values and their counts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    latencies: [Vec<(u64, u64)>; KINDS],
    failures: Failures,
    misses: u64,
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
    /// 90 % took no longer.
    pub p90: u64,
    /// 99 % took no longer.
    pub p99: u64,
    /// 99.9 % took no longer.
    pub p999: u64,
    /// 99.99 % took no longer.
    pub p9999: u64,
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
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            p9999: histogram.value_at_quantile(0.9999),
            max: histogram.max(),
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self { latencies: std::array::from_fn(|_| histogram()), failures: Failures::default(), misses: 0 }
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
        self.misses += other.misses;
    }

    /// All of it, to be sent.
    pub fn recorded(&self) -> Recorded {
        let pairs = |latency: &Histogram<u64>| {
            latency.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
        };
        Recorded { latencies: self.latencies.each_ref().map(pairs), failures: self.failures.clone(), misses: self.misses }
    }

    /// The histogram of one kind.
    #[cfg(test)]
    pub fn histogram(&self, kind: Kind) -> &Histogram<u64> {
        &self.latencies[kind as usize]
    }

    /// The latencies of all kinds together.
    pub fn all(&self) -> Histogram<u64> {
        let mut all = histogram();
        for latency in self.latencies.iter().filter(|latency| !latency.is_empty()) {
            all.add(latency).expect("all histograms have the same bounds");
        }
        all
    }

    /// Operations that came through.
    pub fn operations(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }

    /// Operations of one kind that came through.
    pub fn count(&self, kind: Kind) -> u64 {
        self.latencies[kind as usize].len()
    }

    /// Percentile curves of the kinds that happened: finer towards the longest.
    pub fn curves(&self) -> BTreeMap<&'static str, Vec<(f64, u64)>> {
        let happened = Kind::ALL.iter().zip(&self.latencies).filter(|(_, latency)| !latency.is_empty());
        let curve = |latency: &Histogram<u64>| {
            let steps = latency.iter_quantiles(CURVE_TICKS);
            steps.map(|step| (step.quantile_iterated_to(), step.value_iterated_to())).take(CURVE_POINTS_MAX).collect()
        };
        happened.map(|(kind, latency)| (kind.name(), curve(latency))).collect()
    }

    /// The figures of the kinds that happened.
    pub fn latencies(&self) -> BTreeMap<&'static str, Latency> {
        let happened = Kind::ALL.iter().zip(&self.latencies).filter(|(_, latency)| !latency.is_empty());
        happened.map(|(kind, latency)| (kind.name(), Latency::of(latency))).collect()
    }
}

impl From<Recorded> for Recorder {
    fn from(recorded: Recorded) -> Self {
        let mut recorder = Self { failures: recorded.failures, misses: recorded.misses, ..Self::default() };
        for (latency, pairs) in recorder.latencies.iter_mut().zip(recorded.latencies) {
            for (value, count) in pairs {
                latency.saturating_record_n(value, count);
            }
        }
        recorder
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

    #[test]
    fn what_was_sent_to_another_process_is_what_was_recorded() {
        let mut one = Recorder { misses: 7, ..Recorder::default() };
        for step in 1..2_000u64 {
            one.record(Kind::Add, Duration::from_nanos(step * step * 37));
        }
        one.fail(Failure::absent(1));
        let text = serde_json::to_string(&one.recorded()).expect("it can be written");
        let two = Recorder::from(serde_json::from_str::<Recorded>(&text).expect("it can be read"));
        assert_eq!((two.misses, two.failures.total(), two.count(Kind::Add)), (7, 1, 1_999));
        for quantile in [0.1, 0.5, 0.99, 1.0] {
            let at = |recorder: &Recorder| recorder.histogram(Kind::Add).value_at_quantile(quantile);
            assert_eq!(at(&one), at(&two), "quantile {quantile}");
        }
    }
}

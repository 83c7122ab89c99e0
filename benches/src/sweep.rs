//! A sweep over rates, which finds the knee: the highest rate that is kept without answers getting slow.

use serde::Serialize;

use crate::bench::Bench;
use crate::cli::SweepRates;
use crate::connect::Stop;
use crate::drive::Limits;
use crate::pacer::Pacing;
use crate::recorder::Latency;
use crate::settings::Settings;

/// What `auto` takes of the rate that the run reached.
const SHARES: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2];
/// A rate is kept when at least this share of it came through.
const KEPT_MIN: f64 = 0.98;
/// Answers are slow when their 99th percentile is more than this many times that at the lowest rate.
const SLOWER_MAX: u64 = 10;

/// One rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepStep {
    /// Operations per second that were meant to begin.
    pub offered_ops: f64,
    /// Operations per second that came through.
    pub achieved_ops: f64,
    /// Latency from the intended start, nanoseconds.
    #[serde(flatten)]
    pub latency_ns: Latency,
    /// Failed operations.
    pub failed: u64,
}

/// All rates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// In ascending order.
    pub steps: Vec<SweepStep>,
    /// The highest rate up to which all are kept without answers getting slow; `null` when the lowest is not.
    pub knee_ops: Option<f64>,
}

/// Measures rates one after the other; `reached` is what the run came to.
pub fn measure(bench: &Bench<'_>, settings: &Settings<'_>, rates: &SweepRates, reached: f64) -> Result<Sweep, Stop> {
    let rates = match rates {
        SweepRates::Auto => SHARES.iter().map(|share| (share * reached).max(1.0)).collect(),
        SweepRates::These(rates) => rates.clone(),
    };
    let limits = Limits { operations: None, duration: Some(settings.args.sweep_time) };
    let mut steps = Vec::with_capacity(rates.len());
    for rate in rates {
        let pacing = Pacing { rate, arrival: settings.args.arrival };
        let order = settings.order(limits, settings.workload.mix).paced(Some(pacing));
        let (measured, _) = bench.phase("sweep", &order, None)?;
        steps.push(SweepStep {
            offered_ops: rate,
            achieved_ops: measured.rate(),
            latency_ns: Latency::of(&measured.recorder.all()),
            failed: measured.recorder.failures.total(),
        });
    }
    let knee_ops = knee(&steps);
    Ok(Sweep { steps, knee_ops })
}

fn knee(steps: &[SweepStep]) -> Option<f64> {
    let slow = steps.first()?.latency_ns.p99.max(1) * SLOWER_MAX;
    let is_kept =
        |step: &&SweepStep| step.achieved_ops >= step.offered_ops * KEPT_MIN && step.latency_ns.p99 <= slow && step.failed == 0;
    steps.iter().take_while(is_kept).last().map(|step| step.offered_ops)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(offered_ops: f64, achieved_ops: f64, p99: u64) -> SweepStep {
        let latency_ns = Latency { count: 1, mean: 0.0, p50: 0, p90: 0, p99, p999: p99, p9999: p99, max: p99 };
        SweepStep { offered_ops, achieved_ops, latency_ns, failed: 0 }
    }

    #[test]
    fn the_knee_is_the_last_rate_that_is_kept_and_quick() {
        let quick = [step(10.0, 10.0, 5), step(20.0, 19.9, 9)];
        assert_eq!(knee(&quick), Some(20.0));
        let behind = [&quick[..], &[step(30.0, 25.0, 9), step(35.0, 35.0, 9)]].concat();
        assert_eq!(knee(&behind), Some(20.0));
        let slow = [&quick[..], &[step(30.0, 30.0, 51)]].concat();
        assert_eq!(knee(&slow), Some(20.0));
        assert_eq!(knee(&[step(10.0, 5.0, 5)]), None);
        assert_eq!(knee(&[]), None);
        let failing = [quick[0].clone(), SweepStep { failed: 1, ..quick[1].clone() }];
        assert_eq!(knee(&failing), Some(10.0));
    }
}

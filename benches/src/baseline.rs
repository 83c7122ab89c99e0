//! Raw verbs and the operations built on them, measured in turn in interleaved rounds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use sidewire::Error;

use crate::recorder::histogram;

/// A round spends no more than this on one probe, however slow it is.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);
/// Calls before the first round.
const WARM_UP: u32 = 200;

/// Something to be measured.
pub struct Probe<'a> {
    name: String,
    /// Operations per call.
    depth: u64,
    call: Box<dyn FnMut() -> Result<(), Error> + 'a>,
    all: Histogram<u64>,
    /// Of each round.
    medians: Vec<u64>,
    rates: Vec<f64>,
}

/// One probe's figures, nanoseconds, the clock's cost included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RawFigure {
    /// Calls measured.
    pub count: u64,
    /// Operations per call; the latencies are those of a call.
    pub depth: u64,
    /// The median round's median.
    pub p50: u64,
    /// Over all rounds.
    pub p99: u64,
    /// Over all rounds.
    pub p999: u64,
    /// Over all rounds.
    pub max: u64,
    /// Operations per second in the median round.
    pub rate_ops: f64,
    /// Bytes per second in the median round, where messages have a length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

impl<'a> Probe<'a> {
    /// One operation per call.
    pub fn new(name: impl Into<String>, call: impl FnMut() -> Result<(), Error> + 'a) -> Self {
        Self::chain(name, 1, call)
    }

    /// `depth` operations per call.
    pub fn chain(name: impl Into<String>, depth: u64, call: impl FnMut() -> Result<(), Error> + 'a) -> Self {
        Self { name: name.into(), depth, call: Box::new(call), all: histogram(), medians: Vec::new(), rates: Vec::new() }
    }

    fn warm_up(&mut self) -> Result<(), Error> {
        (0..WARM_UP).try_for_each(|_| (self.call)())
    }

    fn round(&mut self, iterations: u64) -> Result<(), Error> {
        let mut round = histogram();
        let calls = iterations.div_ceil(self.depth);
        let start = Instant::now();
        let mut began = start;
        for _ in 0..calls {
            (self.call)()?;
            let now = Instant::now();
            round.saturating_record((now - began).as_nanos() as u64);
            began = now;
            if began - start > PROBE_TIME_MAX {
                break;
            }
        }
        self.medians.push(round.value_at_quantile(0.5));
        self.rates.push((round.len() * self.depth) as f64 / (began - start).as_secs_f64());
        self.all.add(&round).expect("all histograms have the same bounds");
        Ok(())
    }

    fn figure(&self) -> RawFigure {
        RawFigure {
            count: self.all.len(),
            depth: self.depth,
            p50: median(self.medians.clone()),
            p99: self.all.value_at_quantile(0.99),
            p999: self.all.value_at_quantile(0.999),
            max: self.all.max(),
            rate_ops: median(self.rates.clone()),
            bytes_per_s: None,
        }
    }
}

/// Probes that were measured.
pub struct Baseline<'a> {
    probes: Vec<Probe<'a>>,
    timer: Probe<'a>,
}

impl<'a> Baseline<'a> {
    /// Measures all probes once in each round, in their order.
    pub fn measure(probes: Vec<Probe<'a>>, rounds: u16, iterations: u64) -> Result<Self, Error> {
        let mut baseline = Self { probes, timer: Probe::new("timer", || Ok(())) };
        for probe in &mut baseline.probes {
            probe.warm_up()?;
        }
        for _ in 0..rounds {
            baseline.timer.round(iterations)?;
            for probe in &mut baseline.probes {
                probe.round(iterations)?;
            }
        }
        Ok(baseline)
    }

    /// What looking at the clock and recording cost: it is in every figure, and taken off both sides of a ratio.
    pub fn timer_ns(&self) -> u64 {
        median(self.timer.medians.clone())
    }

    /// The figures by name.
    pub fn figures(&self) -> BTreeMap<String, RawFigure> {
        self.probes.iter().map(|probe| (probe.name.clone(), probe.figure())).collect()
    }

    /// The median over rounds of one probe's median over another's.
    pub fn ratio(&self, name: &str, over: &str) -> Option<f64> {
        let rounds = |name| self.probes.iter().find(|probe| probe.name == name).map(|probe| &probe.medians);
        let ratios = rounds(name)?.iter().zip(rounds(over)?).zip(&self.timer.medians);
        Some(median(ratios.map(|((a, b), timer)| net_ratio(*a, *b, *timer)).collect()))
    }

    /// A median that was measured elsewhere, with one look at the clock in it, over a probe's.
    pub fn ratio_of(&self, p50: u64, over: &str) -> Option<f64> {
        let probe = self.probes.iter().find(|probe| probe.name == over)?;
        Some(net_ratio(p50, median(probe.medians.clone()), self.timer_ns()))
    }
}

fn net_ratio(a: u64, b: u64, timer: u64) -> f64 {
    a.saturating_sub(timer).max(1) as f64 / b.saturating_sub(timer).max(1) as f64
}

/// The middle one of some values.
pub fn median<T: Copy + PartialOrd + Default>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(time: Duration) -> impl FnMut() -> Result<(), Error> {
        move || {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
            Ok(())
        }
    }

    #[test]
    fn ratios_are_those_of_medians_without_the_clock() {
        assert_eq!(net_ratio(130, 80, 30), 2.0);
        assert_eq!(net_ratio(10, 10, 30), 1.0);
        let probes =
            vec![Probe::new("short", wait(Duration::from_micros(20))), Probe::chain("long", 4, wait(Duration::from_micros(60)))];
        let baseline = Baseline::measure(probes, 3, 200).expect("they never fail");
        let ratio = baseline.ratio("long", "short").expect("both were measured");
        assert!((1.5..6.0).contains(&ratio), "{ratio}");
        let figures = baseline.figures();
        assert_eq!((figures["short"].count, figures["long"].count, figures["long"].depth), (600, 150, 4));
        assert!(baseline.timer_ns() < 20_000 && baseline.ratio("long", "other").is_none());
    }

    #[test]
    fn the_first_error_ends_the_measurement() {
        let probes = vec![Probe::new("broken", || Err(Error::Busy))];
        assert!(matches!(Baseline::measure(probes, 3, 10), Err(Error::Busy)));
    }
}

//! `kv-bench compare`: the same workload on several stores in turn, in interleaved rounds, so that what the machine
//! does besides hits all of them alike.

use std::collections::BTreeMap;

use crate::baseline::median;
use crate::bench::Bench;
use crate::cli::CompareArgs;
use crate::connect::Stop;
use crate::drive::Measured;
use crate::report::{Contender, Report, Window};
use crate::server_cost::ServerCost;
use crate::settings::Settings;
use crate::target::TargetUrl;

/// Runs the command.
pub fn command(args: &CompareArgs) -> Result<Report, Stop> {
    let targets = &args.run.records.targets;
    if targets.len() < 2 {
        return Err(Stop::Usage("--target: compare takes at least two of them".into()));
    }
    let settings = Settings::new(&args.run)?;
    let mut benches = Vec::new();
    for target in targets {
        benches.push((Entry::new(target, targets), Bench::open(&settings, target.clone())?));
    }
    let environment = benches[0].1.store.environment()?;
    let mut report = Report::new("compare", environment, settings.parameters());
    for (_, bench) in &mut benches {
        bench.warm_up()?;
    }
    for _ in 0..args.rounds {
        for (entry, bench) in &mut benches {
            let (measured, cost) = bench.phase("compare", &settings.window(), settings.line())?;
            entry.add(measured, cost);
        }
    }
    for (entry, bench) in &benches {
        let place = bench.store.environment()?;
        report.complete &= entry.whole.gave_up.is_none() && entry.whole.recorder.failures.total() == 0;
        report.compare.push(entry.contender(place.server_version));
    }
    report.compare_ratio = ratios(&report.compare);
    Ok(report)
}

/// What one store brought so far.
struct Entry {
    name: String,
    url: String,
    whole: Measured,
    cost: Option<ServerCost>,
    rounds: Vec<Window>,
}

impl Entry {
    /// Stores of one kind are numbered.
    fn new(target: &TargetUrl, all: &[TargetUrl]) -> Self {
        let alike: Vec<_> = all.iter().filter(|other| other.name() == target.name()).collect();
        let place = alike.iter().position(|other| *other == target).unwrap_or_default();
        let name = if alike.len() > 1 { format!("{}-{}", target.name(), place + 1) } else { target.name().into() };
        Self { name, url: target.to_string(), whole: Measured::default(), cost: None, rounds: Vec::new() }
    }

    fn add(&mut self, measured: Measured, cost: Option<ServerCost>) {
        self.rounds.push(Window::of(&measured, measured.recorder.operations(), cost));
        self.cost = match (self.cost, cost) {
            (Some(sum), Some(cost)) => Some(sum.plus(cost)),
            (sum, cost) => sum.or(cost),
        };
        self.whole.merge(measured);
    }

    fn contender(&self, version: String) -> Contender {
        let rates: Vec<f64> = self.rounds.iter().map(|round| round.throughput_ops).collect();
        let kinds = self.whole.recorder.latencies();
        let p50 = |kind: &str| {
            let medians = self.rounds.iter().filter_map(|round| round.latency_ns.get(kind).map(|latency| latency.p50)).collect();
            median::<u64>(medians)
        };
        let operations = self.whole.recorder.operations();
        let p50_ns = kinds.keys().map(|kind| (*kind, p50(kind))).collect();
        Contender {
            name: self.name.clone(),
            url: self.url.clone(),
            version,
            throughput_ops: median(rates.clone()),
            rounds_ops: rates,
            p50_ns,
            latency_ns: kinds,
            operations,
            failed: self.whole.recorder.failures.total(),
            misses: self.whole.recorder.misses,
            server_cpu_ns_per_op: self.cost.map(|cost| cost.per_operation(operations)),
            client_cpu_ns_per_op: self.whole.cpu_ns as f64 / operations.max(1) as f64,
            reads_per_get: (self.whole.stats.gets > 0).then(|| self.whole.stats.reads as f64 / self.whole.stats.gets as f64),
        }
    }
}

/// The first store's figures over those of each other: throughput and CPU as they are, times per kind.
fn ratios(all: &[Contender]) -> BTreeMap<String, BTreeMap<String, f64>> {
    let Some((first, others)) = all.split_first() else { return BTreeMap::new() };
    let over = |other: &Contender| {
        let mut ratios = BTreeMap::new();
        let mut add = |name: String, mine: f64, theirs: f64| {
            if theirs > 0.0 {
                ratios.insert(name, mine / theirs);
            }
        };
        add("throughput_ops".into(), first.throughput_ops, other.throughput_ops);
        if let (Some(mine), Some(theirs)) = (first.server_cpu_ns_per_op, other.server_cpu_ns_per_op) {
            add("server_cpu_ns_per_op".into(), mine, theirs);
        }
        for (kind, mine) in &first.p50_ns {
            if let Some(theirs) = other.p50_ns.get(kind) {
                add(format!("{kind}_p50"), *mine as f64, *theirs as f64);
            }
        }
        for (kind, mine) in &first.latency_ns {
            if let Some(theirs) = other.latency_ns.get(kind) {
                add(format!("{kind}_p99"), mine.p99 as f64, theirs.p99 as f64);
            }
        }
        (other.name.clone(), ratios)
    };
    others.iter().map(over).collect()
}

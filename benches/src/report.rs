//! The report: every figure of a run under a fixed name.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use sidewire::ClientStats;
use sidewire_proto::v1::InfoReply;

use crate::baseline::{Baseline, RawFigure};
use crate::connections::ConnectionStep;
use crate::distribution::Distribution;
use crate::drive::Measured;
use crate::environment::Environment;
use crate::failure::FailureReport;
use crate::pacer::Arrival;
use crate::recorder::Latency;
use crate::server_cost::{GetVersusPut, ServerCost};
use crate::sweep::Sweep;

/// Everything there is to say about a run; what a command did not measure is left out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `fabric`, `load`, `run` or `compare`.
    pub command: &'static str,
    /// Whether everything that was asked for was done.
    pub complete: bool,
    /// Where.
    pub environment: Environment,
    /// What.
    pub workload: Parameters,
    /// The measured window.
    #[serde(flatten)]
    pub window: Option<Window>,
    /// What a Get cost the server, beside a Put.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get_vs_put: Option<GetVersusPut>,
    /// Rates beyond the run's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Stores that were compared, in the order they were named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compare: Vec<Contender>,
    /// The first store's figures over those of each other.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub compare_ratio: BTreeMap<String, BTreeMap<String, f64>>,
    /// What of a trace was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceReport>,
    /// What sessions cost, as there are more and more of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionStep>,
    /// What the records take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// What looking at the clock cost; it is in all latencies and taken off both sides of a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_ns: Option<u64>,
    /// The raw verbs.
    pub raw: BTreeMap<String, RawFigure>,
    /// Operations over the raw verbs that carry them.
    pub ratio: BTreeMap<String, f64>,
}

/// What was run.
#[derive(Debug, Default, Serialize)]
pub struct Parameters {
    /// The workload's letter or file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Records at the begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// How records were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Exponent of zipfian and latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of values, or of messages.
    pub value_bytes: Vec<u64>,
    /// Of the longest value, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_bytes_max: Option<u64>,
    /// Threads that work, of each process.
    pub threads: u16,
    /// Processes, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u16>,
    /// Threads that read while others load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<u16>,
    /// Operations in flight per thread.
    pub pipeline: u16,
    /// Queue pairs, where the verbs alone are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_pairs: Option<u16>,
    /// Operations per second that were meant to begin, in an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How they were spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
    /// Whether values were checked.
    pub verify: bool,
    /// What ran before the measured window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<String>,
    /// Entries of the location cache, if set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location_cache: Option<u64>,
}

/// The measured window of a load or run.
#[derive(Debug, Serialize)]
pub struct Window {
    /// Operations that came through, per second; of a load only the inserts count.
    pub throughput_ops: f64,
    /// Operations that came through; of a load only the inserts.
    pub operations: u64,
    /// Its length.
    pub elapsed_s: f64,
    /// By kind.
    pub latency_ns: BTreeMap<&'static str, Latency>,
    /// From the client's own counts; `null` when there was no Get.
    pub reads_per_get: Option<f64>,
    /// Gets that one Read answered, of all.
    pub location_hit_rate: Option<f64>,
    /// CPU time of the server's workers per operation; `null` when the server did not answer any more.
    pub server_cpu_ns_per_op: Option<f64>,
    /// What the workers did.
    pub server: Option<ServerCost>,
    /// CPU time of the generator's threads per operation, the library's part included.
    pub client_cpu_ns_per_op: f64,
    /// The client's retries by cause.
    pub retries: Retries,
    /// Failed operations; they are in no latency.
    pub failed: u64,
    /// By kind.
    pub failures: BTreeMap<&'static str, FailureReport>,
    /// Records that were not there, where that is no failure.
    pub misses: u64,
    /// Operations that had ended after so many seconds.
    pub course: Vec<(f64, u64)>,
    /// For curves: by kind, percentiles and the latencies that they end at.
    pub percentiles_ns: BTreeMap<&'static str, Vec<(f64, u64)>>,
    /// Why a thread ended before its work was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}

/// What of a trace was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// Lines that are none of a trace.
    pub malformed: u64,
    /// Requests whose key or value is longer than the store takes.
    pub too_long: u64,
}

/// One store of a comparison.
#[derive(Debug, Serialize)]
pub struct Contender {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Its version.
    pub version: String,
    /// The median round's throughput.
    pub throughput_ops: f64,
    /// That of each round.
    pub rounds_ops: Vec<f64>,
    /// The median round's median, by kind.
    pub p50_ns: BTreeMap<&'static str, u64>,
    /// Of all rounds together, by kind.
    pub latency_ns: BTreeMap<&'static str, Latency>,
    /// Of all rounds together.
    pub operations: u64,
    /// Failed operations.
    pub failed: u64,
    /// Records that were not there, where that is no failure.
    pub misses: u64,
    /// CPU time of the server per operation, where it has one.
    pub server_cpu_ns_per_op: Option<f64>,
    /// CPU time of the generator's threads per operation, the client library's part included.
    pub client_cpu_ns_per_op: f64,
    /// From the client's own counts, where it has any.
    pub reads_per_get: Option<f64>,
}

/// What the client did again, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Retries {
    /// Torn, or of another life.
    pub torn: u64,
    /// Superseded or deleted.
    pub stale: u64,
    /// The segment had moved.
    pub moved: u64,
    /// The record was pending.
    pub pending: u64,
    /// Thrown away past the lease.
    pub lease_discards: u64,
    /// Attached anew.
    pub reattaches: u64,
}

/// What the server's records take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// Keys before.
    pub keys_before: u64,
    /// Keys now.
    pub keys: u64,
    /// Bytes of index per key.
    pub index_bytes_per_key: f64,
    /// Bytes of heap in use beyond those of the records (header, key, value), as a share of the latter.
    pub heap_overhead: f64,
    /// Bytes of heap per record.
    pub heap_bytes_per_key: f64,
    /// Segments of the index.
    pub segments: u64,
    /// Splits so far.
    pub splits: u64,
}

impl Window {
    /// The figures of a phase in which `operations` count.
    pub fn of(measured: &Measured, operations: u64, server: Option<ServerCost>) -> Self {
        let per_operation = |total: u64| if operations == 0 { 0.0 } else { total as f64 / operations as f64 };
        let per_get = |count: u64| (measured.stats.gets > 0).then(|| count as f64 / measured.stats.gets as f64);
        Self {
            throughput_ops: rate(operations, measured.elapsed()),
            operations,
            elapsed_s: measured.elapsed().as_secs_f64(),
            latency_ns: measured.recorder.latencies(),
            reads_per_get: per_get(measured.stats.reads),
            location_hit_rate: per_get(measured.stats.location_hits),
            server_cpu_ns_per_op: server.map(|server| server.per_operation(operations)),
            server,
            client_cpu_ns_per_op: per_operation(measured.cpu_ns),
            retries: Retries::of(&measured.stats),
            failed: measured.recorder.failures.total(),
            failures: measured.recorder.failures.report(),
            misses: measured.recorder.misses,
            course: measured.course.clone(),
            percentiles_ns: measured.recorder.curves(),
            gave_up: measured.gave_up.clone(),
        }
    }
}

impl Retries {
    fn of(stats: &ClientStats) -> Self {
        Self {
            torn: stats.retries_torn,
            stale: stats.retries_stale,
            moved: stats.retries_moved,
            pending: stats.retries_pending,
            lease_discards: stats.lease_discards,
            reattaches: stats.reattaches,
        }
    }
}

impl Growth {
    /// From what the server says of itself.
    pub fn of(keys_before: u64, info: &InfoReply) -> Self {
        let used = |pool: &Option<sidewire_proto::v1::PoolReport>| pool.as_ref().map_or(0, |pool| pool.used_bytes) as f64;
        let keys = info.keys.max(1) as f64;
        Self {
            keys_before,
            keys: info.keys,
            index_bytes_per_key: used(&info.index) / keys,
            heap_overhead: used(&info.heap) / (info.record_bytes.max(1) as f64) - 1.0,
            heap_bytes_per_key: used(&info.heap) / keys,
            segments: info.segments,
            splits: info.splits,
        }
    }
}

impl Report {
    /// A report of a command that has measured nothing yet.
    pub fn new(command: &'static str, environment: Environment, workload: Parameters) -> Self {
        Self {
            command,
            complete: true,
            environment,
            workload,
            window: None,
            get_vs_put: None,
            sweep: None,
            trace: None,
            compare: Vec::new(),
            compare_ratio: BTreeMap::new(),
            connections: Vec::new(),
            growth: None,
            timer_ns: None,
            raw: BTreeMap::new(),
            ratio: BTreeMap::new(),
        }
    }

    /// Puts the raw verbs beside the other figures.
    pub fn add_baseline(&mut self, baseline: &Baseline<'_>) {
        self.timer_ns = Some(baseline.timer_ns());
        self.raw = baseline.figures();
    }
}

fn rate(operations: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { operations as f64 / elapsed.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sidewire_proto::v1::PoolReport;

    use super::*;
    use crate::baseline::Probe;
    use crate::failure::Failure;
    use crate::mix::Kind;
    use crate::recorder::Recorder;

    fn environment() -> Environment {
        Environment {
            cpu: "a processor".into(),
            cpus: 2,
            kernel: "Linux 6".into(),
            fabric: "shm".into(),
            device: String::new(),
            gid: String::new(),
            mtu: 0,
            atomics: "cpu".into(),
            pages: "normal".into(),
            server: "127.0.0.1:1".into(),
            workers: 1,
            server_version: "0".into(),
            kv_bench_version: "0",
            debug_build: false,
        }
    }

    fn measured() -> Measured {
        let mut recorder = Recorder::default();
        for _ in 0..1_000 {
            recorder.record(Kind::Read, Duration::from_nanos(500));
            recorder.record(Kind::Update, Duration::from_nanos(5_000));
        }
        recorder.fail(Failure::absent(3));
        let stats = ClientStats { gets: 1_000, reads: 1_040, location_hits: 960, retries_torn: 2, ..ClientStats::default() };
        Measured { recorder, stats, span_ns: Some((1_000, 500_001_000)), cpu_ns: 400_000, ..Measured::default() }
    }

    #[test]
    fn every_figure_has_its_name() {
        let mut report = Report::new("run", environment(), Parameters::default());
        let cost = ServerCost { cpu_ns: 20_000, requests: 1_000, wakeups: 10 };
        report.window = Some(Window::of(&measured(), 2_000, Some(cost)));
        let probes = vec![Probe::new("read", || Ok(())), Probe::new("write", || Ok(()))];
        report.add_baseline(&Baseline::measure(probes, 1, 100).expect("they never fail"));
        report.ratio.insert("read_p50_over_raw_read".into(), 1.5);
        let json = serde_json::to_value(&report).expect("it can be written");
        let figure = |path: &str| json.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {json:#}"));
        assert_eq!(figure("/throughput_ops"), 4_000.0);
        for percentile in ["p50", "p99", "p999", "max"] {
            assert_eq!(figure(&format!("/latency_ns/read/{percentile}")), 500.0);
            assert!(figure(&format!("/latency_ns/update/{percentile}")) >= 5_000.0);
            assert!(figure(&format!("/raw/read/{percentile}")) >= 0.0);
        }
        assert_eq!((figure("/reads_per_get"), figure("/server_cpu_ns_per_op")), (1.04, 10.0));
        assert_eq!((figure("/client_cpu_ns_per_op"), figure("/retries/torn")), (200.0, 2.0));
        assert_eq!((figure("/failed"), figure("/failures/absent/count")), (1.0, 1.0));
        assert_eq!(figure("/ratio/read_p50_over_raw_read"), 1.5);
        for name in ["cpu", "kernel", "fabric", "device", "mtu", "kv_bench_version", "server_version"] {
            assert!(json["environment"].get(name).is_some(), "{name}");
        }
        let table = report.to_string();
        assert!(table.contains("Reads per Get 1.0400") && table.contains("FAILED absent: 1"), "{table}");
    }

    #[test]
    fn a_command_leaves_out_what_it_did_not_measure() {
        let json = serde_json::to_value(Report::new("fabric", environment(), Parameters::default())).expect("it can be written");
        assert!(json.get("throughput_ops").is_none() && json.get("growth").is_none());
    }

    #[test]
    fn growth_is_per_key_and_over_the_records() {
        let pool = |used_bytes| Some(PoolReport { used_bytes, ..PoolReport::default() });
        let info = InfoReply { keys: 100, record_bytes: 12_000, index: pool(1_800), heap: pool(15_000), ..InfoReply::default() };
        let growth = Growth::of(0, &info);
        assert_eq!((growth.index_bytes_per_key, growth.heap_overhead, growth.heap_bytes_per_key), (18.0, 0.25, 150.0));
    }
}

//! `kv-bench run`: a workload of YCSB on records that are there.

use std::sync::Arc;
use std::time::Duration;

use sidewire::{Admin, Client};
use sidewire_common::layout::record::{UNIT_BYTES, record_bytes};
use sidewire_common::layout::request;

use crate::acked::Acked;
use crate::baseline::{Baseline, Probe};
use crate::cli::{RunArgs, Warmup};
use crate::connect::{Stop, attach_for};
use crate::drive::{Crew, Limits, Measured, Plan, Work};
use crate::environment::Environment;
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::load::{self, RECORDS_DEFAULT, VALUE_BYTES_DEFAULT};
use crate::progress::Progress;
use crate::report::{Parameters, Report, Window};
use crate::server_cost::{GetVersusPut, ServerCost, ServerLook};
use crate::workload::{Kind, Mix, Workload};

const THETA_DEFAULT: f64 = 0.99;
const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// Puts whose cost is measured beside that of Gets, at most.
const PUT_SAMPLE: u64 = 200_000;
/// And for how long at most.
const PUT_SAMPLE_TIME: Duration = Duration::from_secs(5);
/// Inserts that `--load` keeps in flight.
const LOAD_PIPELINE: u16 = 16;
/// Rounds and calls per round of the raw verbs after a run.
const RAW_ROUNDS: u16 = 5;
const RAW_ITERATIONS: u64 = 10_000;
/// Kinds of operations over the raw verb that carries them. `read` stays in one place, which is then in every cache;
/// `read_spread` goes over as many bytes as the records have.
const RATIOS: [(&str, &str); 4] =
    [("read", "read"), ("read", "read_spread"), ("update", "write_imm_ack"), ("insert", "write_imm_ack")];

/// The flags over the workload file over the defaults.
struct Settings<'a> {
    args: &'a RunArgs,
    workload: Workload,
    records: u64,
    value_bytes: u64,
    theta: f64,
    limits: Limits,
}

/// Runs the command.
pub fn command(args: &RunArgs) -> Result<Report, Stop> {
    let settings = Settings::new(args)?;
    let plan = settings.plan()?;
    let client = attach_for(&args.common, &args.records, settings.value_bytes)?;
    let admin = client.admin();
    if args.load {
        settings.load(&client)?;
    }
    settings.require_records(&client)?;
    let mut report = Report::new("run", Environment::of(&client, &admin.info()?), settings.parameters());

    let crew = Crew::with_sessions(&client, &plan, usize::from(args.records.threads))?;
    settings.warm_up(&crew)?;
    let (measured, cost) = settings.phase(&crew, &admin, "run", settings.limits, settings.workload.mix)?;
    let operations = measured.recorder.operations();
    if settings.workload.mix == Mix::only(Kind::Read) && measured.gave_up.is_none() {
        report.get_vs_put = settings.puts_beside(&crew, &admin, operations, cost)?;
    }
    drop(crew);
    report.complete = measured.gave_up.is_none() && measured.recorder.failures.total() == 0;
    let window = Window::of(&measured, operations, cost);
    if !args.no_raw && measured.gave_up.is_none() {
        // The run's own figures are told even so.
        if let Err(error) = settings.raw_beside(&client, &window, &mut report) {
            tracing::error!("the raw verbs could not be measured: {error}");
            report.complete = false;
        }
    }
    report.window = Some(window);
    Ok(report)
}

impl<'a> Settings<'a> {
    fn new(args: &'a RunArgs) -> Result<Self, Stop> {
        let mut workload = Workload::open(&args.workload).map_err(|error| Stop::Usage(error.to_string()))?;
        for name in &workload.ignored {
            tracing::warn!("workload {}: property {name} means nothing here", workload.name);
        }
        if let Some(distribution) = args.distribution {
            workload.distribution = distribution;
        }
        let operations = args.operations.or(if args.duration.is_some() { None } else { workload.operations });
        let duration = args.duration.or(operations.is_none().then_some(DURATION_DEFAULT));
        Ok(Self {
            records: args.records.records.or(workload.records).unwrap_or(RECORDS_DEFAULT),
            value_bytes: args.records.value_size.or(workload.value_bytes).unwrap_or(VALUE_BYTES_DEFAULT),
            theta: args.theta.or(workload.theta).unwrap_or(THETA_DEFAULT),
            limits: Limits { operations, duration },
            workload,
            args,
        })
    }

    fn plan(&self) -> Result<Plan, Stop> {
        let keys = KeyFormat::new(self.args.records.key_size, self.records);
        let keys = keys.map_err(|error| Stop::Usage(format!("--key-size: {error}")))?;
        let end = if self.workload.mix.inserts() { keys.records_max() } else { self.records };
        Ok(Plan {
            chooser: KeyChooser::new(self.workload.distribution, self.records, self.theta),
            keys,
            value_bytes: self.value_bytes as usize,
            verify: self.args.records.verify,
            pipeline: usize::from(self.args.pipeline),
            acked: Arc::new(Acked::new(self.records, end)),
        })
    }

    fn load(&self, client: &Client) -> Result<(), Stop> {
        let args = &self.args.records;
        let plan = load::plan(args, self.records, self.value_bytes, LOAD_PIPELINE)?;
        let loaded = load::store(client, &plan, args.threads, 0, self.records)?;
        if loaded.stored == self.records {
            return Ok(());
        }
        let why = loaded.measured.gave_up.unwrap_or_default();
        Err(Stop::Failed(format!("{} of {} records could be stored: {why}", loaded.stored, self.records)))
    }

    /// A run on records that are not there would only count absences.
    fn require_records(&self, client: &Client) -> Result<(), Stop> {
        let session = client.session()?;
        let mut keys = self.plan()?.keys;
        for record in [0, self.records - 1] {
            if session.get(keys.write(record))?.is_none() {
                let text = format!(
                    "record {record} of {} is not on the server; run `kv-bench load --records {}` first, or `run --load`",
                    self.records, self.records
                );
                return Err(Stop::Failed(text));
            }
        }
        Ok(())
    }

    fn everyone(&self, work: Work) -> Vec<Work> {
        vec![work; usize::from(self.args.records.threads)]
    }

    fn warm_up(&self, crew: &Crew) -> Result<(), Stop> {
        let mix = Work::Mix(self.workload.mix);
        let (limits, work) = match self.args.warmup {
            Warmup::Time(Duration::ZERO) => return Ok(()),
            Warmup::Time(duration) => (Limits { operations: None, duration: Some(duration) }, mix),
            Warmup::Operations(operations) => (Limits { operations: Some(operations), duration: None }, mix),
            Warmup::Sweep => (Limits { operations: Some(self.records), duration: None }, Work::Sweep),
        };
        let measured = crew.run(limits, &self.everyone(work), &Progress::new("warm-up", &limits))?;
        measured.gave_up.map_or(Ok(()), |why| Err(Stop::Failed(format!("warm-up: {why}"))))
    }

    fn phase(
        &self,
        crew: &Crew,
        admin: &Admin,
        title: &'static str,
        limits: Limits,
        mix: Mix,
    ) -> Result<(Measured, Option<ServerCost>), Stop> {
        let before = ServerLook::take(admin)?;
        let measured = crew.run(limits, &self.everyone(Work::Mix(mix)), &Progress::new(title, &limits))?;
        // A server that is gone has no more to say; the figures up to there are still told.
        let after = ServerLook::take(admin).ok();
        Ok((measured, after.map(|after| before.until(after))))
    }

    fn puts_beside(&self, crew: &Crew, admin: &Admin, gets: u64, cost: Option<ServerCost>) -> Result<Option<GetVersusPut>, Stop> {
        let limits = Limits { operations: Some(gets.clamp(1, PUT_SAMPLE)), duration: Some(PUT_SAMPLE_TIME) };
        let (puts, put_cost) = self.phase(crew, admin, "puts", limits, Mix::only(Kind::Update))?;
        let puts = puts.recorder.operations();
        let both = cost.zip(put_cost).filter(|_| puts > 0);
        Ok(both.map(|(get_cost, put_cost)| GetVersusPut::of((gets, get_cost), (puts, put_cost))))
    }

    /// The raw verbs that carry a Get and a Put, of the record's size, and this run's medians over theirs.
    fn raw_beside(&self, client: &Client, window: &Window, report: &mut Report) -> Result<(), Stop> {
        let session = client.session()?;
        let (key_bytes, value_bytes) = (self.args.records.key_size as usize, self.value_bytes as usize);
        let record = record_bytes(key_bytes, value_bytes);
        let request = request::HEADER_BYTES + key_bytes + value_bytes;
        let (raw, spread) = (session.raw(), session.raw());
        spread.spread(self.records * record.next_multiple_of(UNIT_BYTES) as u64);
        let probes = vec![
            Probe::new("read", || raw.read(record)),
            Probe::new("read_spread", || spread.read(record)),
            Probe::new("write_imm_ack", || raw.write_imm_ack(request)),
        ];
        let baseline = Baseline::measure(probes, RAW_ROUNDS, RAW_ITERATIONS)?;
        report.add_baseline(&baseline);
        // With several in flight a latency is mostly waiting in line: no ratio to one alone.
        if self.args.pipeline == 1 {
            for (kind, raw) in RATIOS {
                let ratio = window.latency_ns.get(kind).and_then(|latency| baseline.ratio_of(latency.p50, raw));
                if let Some(ratio) = ratio {
                    report.ratio.insert(format!("{kind}_p50_over_raw_{raw}"), ratio);
                }
            }
        }
        Ok(())
    }

    fn parameters(&self) -> Parameters {
        let args = &self.args.records;
        Parameters {
            name: Some(self.workload.name.clone()),
            records: Some(self.records),
            distribution: Some(self.workload.distribution),
            theta: (self.workload.distribution != crate::workload::Distribution::Uniform).then_some(self.theta),
            key_bytes: args.key_size,
            value_bytes: vec![self.value_bytes],
            threads: args.threads,
            readers: None,
            pipeline: self.args.pipeline,
            verify: args.verify,
            warmup: Some(match self.args.warmup {
                Warmup::Time(time) => format!("{time:?}"),
                Warmup::Operations(operations) => format!("{operations} operations"),
                Warmup::Sweep => "sweep".into(),
            }),
            location_cache: args.location_cache,
        }
    }
}

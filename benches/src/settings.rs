//! What a run is to do: the flags over the workload file over the defaults.

use std::sync::Arc;
use std::time::Duration;

use crate::acked::Acked;
use crate::cli::{RunArgs, Warmup};
use crate::connect::Stop;
use crate::drive::{Limits, Line, Order, Plan, Work};
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::load::{KEY_BYTES_DEFAULT, RECORDS_DEFAULT, VALUE_BYTES_DEFAULT};
use crate::mix::{Kind, Mix};
use crate::numbering::Numbering;
use crate::pacer::Pacing;
use crate::preset::Preset;
use crate::report::Parameters;
use crate::target::{Needs, TargetUrl};
use crate::ttl::Ttls;
use crate::value_size::ValueSize;
use crate::workload::Workload;

const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// Counters and locks unless told otherwise.
const CELLS_DEFAULT: u64 = 256;

/// The flags over the workload file over the defaults.
pub struct Settings<'a> {
    /// The flags.
    pub args: &'a RunArgs,
    /// What is done.
    pub workload: Workload,
    /// Records at the begin.
    pub records: u64,
    /// Bytes of keys.
    pub key_size: u64,
    /// Lengths of values.
    pub values: ValueSize,
    /// How long values stay.
    pub ttls: Ttls,
    /// Threads of each process.
    pub threads: usize,
    /// When the measured window ends.
    pub limits: Limits,
    /// The rate, if there is one.
    pub pacing: Option<Pacing>,
}

impl<'a> Settings<'a> {
    /// Puts them together.
    pub fn new(args: &'a RunArgs) -> Result<Self, Stop> {
        let (mut workload, key_size, ttls) = shape(args)?;
        if args.part.is_none() {
            for name in &workload.ignored {
                tracing::warn!("workload {}: property {name} means nothing here", workload.name);
            }
        }
        workload.distribution = args.distribution.unwrap_or(workload.distribution);
        workload.shape.theta = args.theta.unwrap_or(workload.shape.theta);
        let operations = args.operations.or(if args.duration.is_some() { None } else { workload.operations });
        let duration = args.duration.or(workload.seconds.filter(|_| args.operations.is_none()).map(Duration::from_secs));
        let rate = args.rate.or(workload.rate.map(|rate| rate as f64));
        let threads = args.records.threads.or(workload.threads.map(|threads| threads.min(256) as u16)).unwrap_or(1);
        let values = args.records.value_size.map(ValueSize::constant).or(workload.values.clone());
        let settings = Self {
            records: args.records.records.or(workload.records).unwrap_or(RECORDS_DEFAULT),
            values: values.unwrap_or_else(|| ValueSize::constant(VALUE_BYTES_DEFAULT)),
            ttls: args.ttl.map_or(ttls, Ttls::all),
            key_size,
            threads: usize::from(threads),
            limits: Limits { operations, duration: duration.or(operations.is_none().then_some(DURATION_DEFAULT)) },
            pacing: rate.map(|rate| Pacing { rate, arrival: args.arrival }),
            workload,
            args,
        };
        settings.fit_together()?;
        Ok(settings)
    }

    fn fit_together(&self) -> Result<(), Stop> {
        let waits = [Kind::Lock, Kind::MultiGet].into_iter().find(|kind| self.workload.mix.has(*kind));
        match waits {
            Some(kind) if self.args.pipeline > 1 => {
                let text =
                    format!("--pipeline {}: the operation {} waits for its answer; use 1", self.args.pipeline, kind.name());
                Err(Stop::Usage(text))
            }
            _ => Ok(()),
        }
    }

    /// The one store of `load` and `run`.
    pub fn target(&self) -> Result<TargetUrl, Stop> {
        one_target(&self.args.records.targets, &self.args.common.server)
    }

    /// What it asks of a store.
    pub fn needs(&self) -> Needs {
        Needs {
            mix: self.workload.mix,
            key_bytes: self.key_size,
            value_bytes: self.values.max(),
            ttl: !self.ttls.is_none(),
            records: self.records,
        }
    }

    /// What all threads of this process have in common.
    pub fn plan(&self, target: &TargetUrl) -> Result<Plan, Stop> {
        let keys = KeyFormat::new(self.key_size, self.records);
        let keys = keys.map_err(|error| Stop::Usage(format!("--key-size: {error}")))?;
        let (mix, workload) = (self.workload.mix, &self.workload);
        let (index, processes) = self.args.part.unwrap_or((0, 1));
        let numbering = Numbering::shared(self.records, index, processes);
        let end = if mix.has(Kind::Insert) { numbering.own_end(keys.records_max()) } else { self.records };
        let cells = |kind, wanted: Option<u64>, file: Option<u64>| {
            if mix.has(kind) { wanted.or(file).unwrap_or(CELLS_DEFAULT) } else { 0 }
        };
        Ok(Plan {
            chooser: KeyChooser::new(workload.distribution, self.records, &workload.shape),
            keys,
            numbering,
            values: self.values.clone(),
            ttls: self.ttls.clone(),
            // What costs nothing also keeps nothing.
            verify: self.args.records.verify && *target != TargetUrl::Null,
            may_miss: self.may_miss(),
            pipeline: usize::from(self.args.pipeline),
            multi_get: workload.multi_get as usize,
            counters: cells(Kind::Add, self.args.counters, workload.cells[0]),
            locks: cells(Kind::Lock, self.args.locks, workload.cells[1]),
            process: (usize::from(index), usize::from(processes)),
            acked: Arc::new(Acked::new(self.records, end)),
            feed: None,
        })
    }

    /// Whether records may be absent without that being a failure.
    pub fn may_miss(&self) -> bool {
        self.workload.mix.has(Kind::Delete) || !self.ttls.is_none()
    }

    /// What runs before the measured window, if anything does.
    pub fn warm_up(&self) -> Option<Order> {
        let mix = Work::Mix(self.workload.mix);
        let (limits, work) = match self.args.warmup {
            Warmup::Time(Duration::ZERO) => return None,
            Warmup::Time(duration) => (Limits { operations: None, duration: Some(duration) }, mix),
            Warmup::Operations(operations) => (Limits { operations: Some(operations), duration: None }, mix),
            Warmup::Sweep => (Limits { operations: Some(self.records), duration: None }, Work::Sweep),
        };
        Some(Order::closed(limits, work, self.threads))
    }

    /// The measured window.
    pub fn window(&self) -> Order {
        Order::closed(self.limits, Work::Mix(self.workload.mix), self.threads).paced(self.pacing)
    }

    /// Another window of a mix.
    pub fn order(&self, limits: Limits, mix: Mix) -> Order {
        Order::closed(limits, Work::Mix(mix), self.threads)
    }

    /// What is told while it runs.
    pub fn line(&self) -> Option<Line> {
        self.args.interim.filter(|every| !every.is_zero()).map(|every| Line { every })
    }

    /// All of it, for the report.
    pub fn parameters(&self) -> Parameters {
        let args = &self.args.records;
        let workload = &self.workload;
        Parameters {
            name: Some(workload.name.clone()),
            records: Some(self.records),
            distribution: Some(workload.distribution),
            theta: workload.distribution.has_theta().then_some(workload.shape.theta),
            key_bytes: self.key_size,
            value_bytes: vec![self.values.typical()],
            value_bytes_max: (self.values.max() != self.values.typical()).then_some(self.values.max()),
            threads: self.threads as u16,
            clients: (self.args.clients > 1).then_some(self.args.clients),
            readers: None,
            pipeline: self.args.pipeline,
            queue_pairs: None,
            rate: self.pacing.map(|pacing| pacing.rate),
            arrival: self.pacing.map(|pacing| pacing.arrival),
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

/// The workload or preset, and what only a preset says: the length of keys and how long values stay.
fn shape(args: &RunArgs) -> Result<(Workload, u64, Ttls), Stop> {
    let wrong = |error: &dyn std::fmt::Display| Stop::Usage(error.to_string());
    if let Some(name) = &args.preset {
        if !args.properties.is_empty() {
            return Err(Stop::Usage("-p: a preset has no properties; use --workload".into()));
        }
        let preset = Preset::open(name).map_err(|error| wrong(&error))?;
        return Ok((preset.workload, args.records.key_size.unwrap_or(preset.key_bytes), preset.ttls));
    }
    let name = args.workload.as_deref().unwrap_or_default();
    let workload = Workload::open(name, &args.properties).map_err(|error| wrong(&error))?;
    Ok((workload, args.records.key_size.unwrap_or(KEY_BYTES_DEFAULT), Ttls::none()))
}

/// The store of a command that takes one.
pub fn one_target(targets: &[TargetUrl], server: &str) -> Result<TargetUrl, Stop> {
    match targets {
        [] => Ok(TargetUrl::Kv(server.into())),
        [target] => Ok(target.clone()),
        _ => Err(Stop::Usage("--target: this command takes one; `kv-bench compare` takes several".into())),
    }
}

//! `kv-bench load`: stores records, and asks for them meanwhile if told to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidewire::Admin;
use sidewire_proto::v1::InfoReply;

use crate::acked::Acked;
use crate::cli::{LoadArgs, Records};
use crate::connect::Stop;
use crate::distribution::{Distribution, Shape};
use crate::drive::{Limits, Measured, Order, Plan, Work};
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::mix::{Kind, Mix};
use crate::numbering::Numbering;
use crate::progress::Progress;
use crate::report::{Growth, Parameters, Report, Window};
use crate::settings::{Settings, one_target};
use crate::target::{Needs, Store, open};
use crate::ttl::Ttls;
use crate::value_size::ValueSize;

/// Records unless said otherwise.
pub const RECORDS_DEFAULT: u64 = 100_000;
/// Bytes of a key unless said otherwise.
pub const KEY_BYTES_DEFAULT: u64 = 16;
/// Bytes of a value unless said otherwise.
pub const VALUE_BYTES_DEFAULT: u64 = 64;
/// Inserts that `run --load` keeps in flight.
const PIPELINE: u16 = 16;
/// Longest wait until the server's own count of keys follows the last ack.
const COUNT_SETTLES: Duration = Duration::from_secs(2);

/// What was stored.
pub struct Loaded {
    /// The figures.
    pub measured: Measured,
    /// Inserts that failed and were made again.
    pub retried: u64,
    /// Records stored.
    pub stored: u64,
}

/// Stores records with `writers` threads while `readers` threads ask for them.
pub fn store(store: &dyn Store, plan: &Plan, writers: usize, readers: usize, records: u64) -> Result<Loaded, Stop> {
    let crew = store.crew(plan, writers + readers)?;
    let mut work = vec![Work::Mix(Mix::only(Kind::Insert)); writers];
    work.resize(writers + readers, Work::Endless(Mix::only(Kind::Read)));
    let progress = Progress::new("load", &Limits { operations: Some(records), duration: None });
    // The records themselves are the budget: a failed insert is made again.
    let order = Order { limits: Limits::default(), work, pacing: None };
    let measured = crew.run(&order, None, &progress)?;
    Ok(Loaded { measured, retried: plan.acked.returned_total(), stored: plan.acked.mark() })
}

/// Stores the records of a run.
pub fn store_all(to: &dyn Store, settings: &Settings<'_>) -> Result<(), Stop> {
    let (records, values) = (settings.records, (settings.values.clone(), settings.ttls.clone()));
    let plan = plan(&settings.args.records, settings.key_size, records, values, PIPELINE)?;
    let loaded = store(to, &plan, settings.threads, 0, records)?;
    if loaded.stored == records {
        return Ok(());
    }
    let why = loaded.measured.gave_up.unwrap_or_default();
    Err(Stop::Failed(format!("{} of {records} records could be stored: {why}", loaded.stored)))
}

/// The plan of a load.
fn plan(args: &Records, key_size: u64, records: u64, (values, ttls): (ValueSize, Ttls), pipeline: u16) -> Result<Plan, Stop> {
    let keys = KeyFormat::new(key_size, records).map_err(|error| Stop::Usage(format!("--key-size: {error}")))?;
    Ok(Plan {
        chooser: KeyChooser::new(Distribution::Uniform, records, &Shape::default()),
        keys,
        numbering: Numbering::alone(),
        values,
        may_miss: !ttls.is_none(),
        ttls,
        verify: args.verify,
        pipeline: usize::from(pipeline),
        multi_get: 1,
        counters: 0,
        locks: 0,
        process: (0, 1),
        acked: Arc::new(Acked::new(0, records)),
        feed: None,
    })
}

/// Runs the command.
pub fn command(args: &LoadArgs) -> Result<Report, Stop> {
    let records = args.records.records.unwrap_or(RECORDS_DEFAULT);
    let value_bytes = args.records.value_size.unwrap_or(VALUE_BYTES_DEFAULT);
    let key_size = args.records.key_size.unwrap_or(KEY_BYTES_DEFAULT);
    let plan = plan(&args.records, key_size, records, (ValueSize::constant(value_bytes), Ttls::none()), args.pipeline)?;
    let target = one_target(&args.records.targets, &args.common.server)?;
    let mix = Mix::only(Kind::Insert);
    let needs = Needs { mix, key_bytes: key_size, value_bytes, ttl: false, records };
    let to = open(&target, &args.common, &args.records, &needs)?;
    let admin = to.client().map(sidewire::Client::admin);
    let before = admin.as_ref().map(Admin::info).transpose()?;
    let look = to.look()?;
    let mut report = Report::new("load", to.environment()?, parameters(args, key_size, records, value_bytes));

    let threads = usize::from(args.records.threads.unwrap_or(1));
    let loaded = store(&*to, &plan, threads, usize::from(args.readers), records)?;
    let failed = loaded.measured.recorder.failures.total().saturating_sub(loaded.retried);
    report.complete = loaded.stored == records && failed == 0 && loaded.measured.gave_up.is_none();
    if let (Some(admin), Some(before)) = (&admin, before) {
        // One of several servers has some of the keys, and copies of others.
        let counts_all = before.keys == 0 && !is_one_of_several(admin);
        let after = settled(admin, counts_all, loaded.stored)?;
        report.complete &= !counts_all || after.keys == loaded.stored;
        report.growth = Some(Growth::of(before.keys, &after));
    }
    let cost = look.until(to.look()?);
    report.window = Some(Window::of(&loaded.measured, loaded.measured.recorder.count(Kind::Insert), Some(cost)));
    Ok(report)
}

fn is_one_of_several(admin: &Admin) -> bool {
    admin.cluster_status().is_ok_and(|status| status.map.is_some_and(|map| map.members.len() > 1))
}

/// What the server says when its count of keys, if that is to be all that was stored, has followed.
fn settled(admin: &Admin, counts_all: bool, stored: u64) -> Result<InfoReply, Stop> {
    let until = Instant::now() + COUNT_SETTLES;
    loop {
        let info = admin.info()?;
        if !counts_all || info.keys == stored || Instant::now() > until {
            return Ok(info);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn parameters(args: &LoadArgs, key_size: u64, records: u64, value_bytes: u64) -> Parameters {
    Parameters {
        records: Some(records),
        key_bytes: key_size,
        value_bytes: vec![value_bytes],
        threads: args.records.threads.unwrap_or(1),
        readers: Some(args.readers),
        pipeline: args.pipeline,
        verify: args.records.verify,
        location_cache: args.records.location_cache,
        ..Parameters::default()
    }
}

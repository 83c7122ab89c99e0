//! `kv-bench load`: stores records, and asks for them meanwhile if told to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidewire::{Admin, Client};
use sidewire_proto::v1::InfoReply;

use crate::acked::Acked;
use crate::cli::{LoadArgs, Records};
use crate::connect::{Stop, attach_for};
use crate::drive::{Crew, Limits, Measured, Plan, Work};
use crate::environment::Environment;
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::progress::Progress;
use crate::report::{Growth, Parameters, Report, Window};
use crate::server_cost::ServerLook;
use crate::workload::{Distribution, Kind, Mix};

/// Records unless said otherwise.
pub const RECORDS_DEFAULT: u64 = 100_000;
/// Bytes of a value unless said otherwise.
pub const VALUE_BYTES_DEFAULT: u64 = 64;
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
pub fn store(client: &Client, plan: &Plan, writers: u16, readers: u16, records: u64) -> Result<Loaded, Stop> {
    let crew = Crew::with_sessions(client, plan, usize::from(writers) + usize::from(readers))?;
    let mut work = vec![Work::Mix(Mix::only(Kind::Insert)); usize::from(writers)];
    work.resize(work.len() + usize::from(readers), Work::Endless(Mix::only(Kind::Read)));
    let progress = Progress::new("load", &Limits { operations: Some(records), duration: None });
    // The records themselves are the budget: a failed insert is made again.
    let measured = crew.run(Limits::default(), &work, &progress)?;
    Ok(Loaded { measured, retried: plan.acked.returned_total(), stored: plan.acked.mark() })
}

/// The plan of a load.
pub fn plan(args: &Records, records: u64, value_bytes: u64, pipeline: u16) -> Result<Plan, Stop> {
    let keys = KeyFormat::new(args.key_size, records).map_err(|error| Stop::Usage(format!("--key-size: {error}")))?;
    Ok(Plan {
        chooser: KeyChooser::new(Distribution::Uniform, records, 1.0),
        keys,
        value_bytes: value_bytes as usize,
        verify: args.verify,
        pipeline: usize::from(pipeline),
        acked: Arc::new(Acked::new(0, records)),
    })
}

/// Runs the command.
pub fn command(args: &LoadArgs) -> Result<Report, Stop> {
    let records = args.records.records.unwrap_or(RECORDS_DEFAULT);
    let value_bytes = args.records.value_size.unwrap_or(VALUE_BYTES_DEFAULT);
    let plan = plan(&args.records, records, value_bytes, args.pipeline)?;
    let client = attach_for(&args.common, &args.records, value_bytes)?;
    let admin = client.admin();
    let before = admin.info()?;
    let mut report = Report::new("load", Environment::of(&client, &before), parameters(args, records, value_bytes));

    let loaded = store(&client, &plan, args.records.threads, args.readers, records)?;
    let after = settled(&admin, before.keys == 0, loaded.stored)?;
    let cost = ServerLook::of(&before).until(ServerLook::of(&after));
    let failed = loaded.measured.recorder.failures.total().saturating_sub(loaded.retried);
    let miscounted = before.keys == 0 && after.keys != loaded.stored;
    report.complete = loaded.stored == records && failed == 0 && !miscounted && loaded.measured.gave_up.is_none();
    report.window = Some(Window::of(&loaded.measured, loaded.measured.recorder.count(Kind::Insert), Some(cost)));
    report.growth = Some(Growth::of(before.keys, &after));
    Ok(report)
}

/// What the server says when its count of keys, if it began empty, has followed.
fn settled(admin: &Admin, was_empty: bool, stored: u64) -> Result<InfoReply, Stop> {
    let until = Instant::now() + COUNT_SETTLES;
    loop {
        let info = admin.info()?;
        if !was_empty || info.keys == stored || Instant::now() > until {
            return Ok(info);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn parameters(args: &LoadArgs, records: u64, value_bytes: u64) -> Parameters {
    Parameters {
        records: Some(records),
        key_bytes: args.records.key_size,
        value_bytes: vec![value_bytes],
        threads: args.records.threads,
        readers: Some(args.readers),
        pipeline: args.pipeline,
        verify: args.records.verify,
        location_cache: args.records.location_cache,
        ..Parameters::default()
    }
}

//! `kv-bench run`: a workload of YCSB on records that are there.

use std::time::Duration;

use sidewire::Client;
use sidewire_common::layout::record::{UNIT_BYTES, record_bytes};
use sidewire_common::layout::request;

use crate::baseline::{Baseline, Probe};
use crate::bench::Bench;
use crate::cli::RunArgs;
use crate::connect::Stop;
use crate::drive::Limits;
use crate::force;
use crate::mix::{Kind, Mix};
use crate::report::{Report, Window};
use crate::server_cost::{GetVersusPut, ServerCost};
use crate::settings::Settings;
use crate::sweep;

/// Puts whose cost is measured beside that of Gets, at most.
const PUT_SAMPLE: u64 = 200_000;
/// And for how long at most.
const PUT_SAMPLE_TIME: Duration = Duration::from_secs(5);
/// Rounds and calls per round of the raw verbs after a run.
const RAW_ROUNDS: u16 = 5;
const RAW_ITERATIONS: u64 = 10_000;
/// Raw Reads of one doorbell at most, beside a pipeline.
const CHAIN_MAX: usize = 64;
/// Kinds of operations over the raw verb that carries them. `read` stays in one place, which is then in every cache;
/// `read_spread` goes over as many bytes as the records have.
const RATIOS: [(&str, &str); 4] =
    [("read", "read"), ("read", "read_spread"), ("update", "write_imm_ack"), ("insert", "write_imm_ack")];

/// Runs the command.
pub fn command(args: &RunArgs) -> Result<Report, Stop> {
    let settings = Settings::new(args)?;
    let mut bench = Bench::open(&settings, settings.target()?)?;
    let mut report = Report::new("run", bench.store.environment()?, settings.parameters());

    bench.warm_up()?;
    let (measured, cost) = bench.phase("run", &settings.window(), settings.line())?;
    let operations = measured.recorder.operations();
    let went_on = measured.gave_up.is_none();
    if settings.workload.mix == Mix::only(Kind::Read) && went_on && bench.store.client().is_some() {
        report.get_vs_put = puts_beside(&bench, &settings, operations, cost)?;
    }
    if let Some(rates) = args.rate_sweep.as_ref().filter(|_| went_on) {
        report.sweep = Some(sweep::measure(&bench, &settings, rates, measured.rate())?);
    }
    bench.dismiss();
    report.complete = went_on && measured.recorder.failures.total() == 0;
    let window = Window::of(&measured, operations, cost);
    if let Some(client) = bench.store.client().filter(|_| !args.no_raw && went_on) {
        // The run's own figures are told even so.
        if let Err(error) = raw_beside(client, &settings, &window, &mut report) {
            tracing::error!("the raw verbs could not be measured: {error}");
            report.complete = false;
        }
    }
    report.window = Some(window);
    Ok(report)
}

/// Does the part of another process's run, to which it reports.
pub fn part(args: &RunArgs) -> Result<(), Stop> {
    force::serve(&Settings::new(args)?)
}

fn puts_beside(
    bench: &Bench<'_>,
    settings: &Settings<'_>,
    gets: u64,
    cost: Option<ServerCost>,
) -> Result<Option<GetVersusPut>, Stop> {
    let limits = Limits { operations: Some(gets.clamp(1, PUT_SAMPLE)), duration: Some(PUT_SAMPLE_TIME) };
    let (puts, put_cost) = bench.phase("puts", &settings.order(limits, Mix::only(Kind::Update)), None)?;
    let puts = puts.recorder.operations();
    let both = cost.zip(put_cost).filter(|_| puts > 0);
    Ok(both.map(|(get_cost, put_cost)| GetVersusPut::of((gets, get_cost), (puts, put_cost))))
}

/// The raw verbs that carry a Get and a Put, of the record's size, and this run's medians over theirs.
fn raw_beside(client: &Client, settings: &Settings<'_>, window: &Window, report: &mut Report) -> Result<(), Stop> {
    let session = client.session()?;
    let (key_bytes, value_bytes) = (settings.key_size as usize, settings.values.typical() as usize);
    let record = record_bytes(key_bytes, value_bytes);
    let request = request::HEADER_BYTES + key_bytes + value_bytes;
    let (raw, spread) = (session.raw(), session.raw());
    spread.spread(settings.records * record.next_multiple_of(UNIT_BYTES) as u64);
    let depth = usize::from(settings.args.pipeline).min(CHAIN_MAX);
    let mut probes = vec![
        Probe::new("read", || raw.read(record)),
        Probe::new("read_spread", || spread.read(record)),
        Probe::new("write_imm_ack", || raw.write_imm_ack(request)),
    ];
    if depth > 1 {
        probes.push(Probe::chain("read_chain", depth as u64, || raw.read_chain(record, depth)));
    }
    let baseline = Baseline::measure(probes, RAW_ROUNDS, RAW_ITERATIONS)?;
    report.add_baseline(&baseline);
    // With several in flight, or from an intended start, a latency is mostly waiting in line: no ratio to one alone.
    if settings.args.pipeline == 1 && settings.pacing.is_none() {
        for (kind, raw) in RATIOS {
            let ratio = window.latency_ns.get(kind).and_then(|latency| baseline.ratio_of(latency.p50, raw));
            if let Some(ratio) = ratio {
                report.ratio.insert(format!("{kind}_p50_over_raw_{raw}"), ratio);
            }
        }
    }
    Ok(())
}

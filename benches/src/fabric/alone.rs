//! The verbs between two ends of this program, one at a time and with many in flight, as perftest measures them.

use std::cell::RefCell;

use sidewire::Error;
use sidewire_common::limits::MESSAGE_BYTES;

use super::ends::{Ends, Kind};
use super::responder::STREAM_ACK;
use crate::baseline::{Baseline, Probe};
use crate::cli::FabricArgs;
use crate::connect::Stop;
use crate::environment::Environment;
use crate::report::{Parameters, Report};

/// Verbs of one call of a bandwidth probe, for each in flight: filling and draining the queues is then small beside it.
const REFILLS: usize = 32;
/// Longest message of a one-sided verb here.
const BYTES_MAX: u64 = 8 << 20;

/// Runs the command.
pub fn command(args: &FabricArgs) -> Result<Report, Stop> {
    if let Some(size) = args.sizes.iter().find(|size| **size > BYTES_MAX || **size == 0) {
        return Err(Stop::Usage(format!("--size {size}: messages of 1 to {BYTES_MAX} bytes are measured")));
    }
    let longest = args.sizes.iter().copied().max().unwrap_or(64) as usize;
    let ends = RefCell::new(Ends::open(args, longest)?);
    let mut report = Report::new("fabric", environment(&ends.borrow(), args), parameters(args));
    let baseline = Baseline::measure(probes(&ends, args), args.rounds, args.iterations)?;
    report.add_baseline(&baseline);
    for (name, figure) in &mut report.raw {
        let bytes = name.rsplit('_').find_map(|word| word.strip_suffix('B')?.parse::<u64>().ok());
        figure.bytes_per_s = bytes.map(|bytes| bytes as f64 * figure.rate_ops);
    }
    Ok(report)
}

/// Each verb alone, directly followed by the same with many in flight.
fn probes<'a>(ends: &'a RefCell<Ends>, args: &FabricArgs) -> Vec<Probe<'a>> {
    let (qps, depth) = (usize::from(args.qps), usize::from(args.depth));
    let count = qps * depth * REFILLS;
    let one = |kind, bytes| move || ends.borrow_mut().run(kind, bytes, (1, 1), 1).map_err(Error::from);
    let many = |kind, bytes| move || ends.borrow_mut().run(kind, bytes, (qps, depth), count).map_err(Error::from);
    let mut probes = Vec::new();
    for size in args.sizes.iter().map(|size| *size as usize) {
        for (kind, name) in [(Kind::Read, "read"), (Kind::Write, "write")] {
            probes.push(Probe::new(format!("{name}_lat_{size}B"), one(kind, size)));
            probes.push(Probe::chain(format!("{name}_bw_q{qps}_d{depth}_{size}B"), count as u64, many(kind, size)));
        }
        if size <= MESSAGE_BYTES {
            let trip = move || {
                let mut ends = ends.borrow_mut();
                ends.answer(1)?;
                ends.round_trip(size).map_err(Error::from)
            };
            probes.push(Probe::new(format!("send_round_trip_{size}B"), trip));
            let messages = (depth * REFILLS).next_multiple_of(STREAM_ACK);
            let stream = move || {
                let mut ends = ends.borrow_mut();
                ends.answer(STREAM_ACK)?;
                ends.stream(size, messages).map_err(Error::from)
            };
            probes.push(Probe::chain(format!("send_bw_q1_d{depth}_{size}B"), messages as u64, stream));
        }
    }
    for (kind, name) in [(Kind::FetchAdd, "fetch_add"), (Kind::CompareSwap, "compare_swap")] {
        probes.push(Probe::new(format!("{name}_lat"), one(kind, 8)));
        probes.push(Probe::chain(format!("{name}_bw_q{qps}_d{depth}"), count as u64, many(kind, 8)));
    }
    probes
}

fn environment(ends: &Ends, args: &FabricArgs) -> Environment {
    let info = ends.info();
    let mut environment = Environment::of_peer("none", &info.kind.to_string(), env!("CARGO_PKG_VERSION"));
    environment.device.clone_from(&info.device);
    environment.gid.clone_from(&info.gid);
    environment.mtu = info.mtu_bytes;
    environment.atomics = format!("{} waiting", if args.wait == crate::cli::WaitMode::Poll { "busy" } else { "event" });
    environment
}

fn parameters(args: &FabricArgs) -> Parameters {
    Parameters {
        name: Some("verbs alone".into()),
        value_bytes: args.sizes.clone(),
        threads: 1,
        pipeline: args.depth,
        queue_pairs: Some(args.qps),
        ..Parameters::default()
    }
}

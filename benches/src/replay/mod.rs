//! `kv-bench replay`: the requests of a published trace, in order, as fast as they go or on the trace's own clock.

pub mod feed;
pub mod trace;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::acked::Acked;
use crate::cli::ReplayArgs;
use crate::connect::Stop;
use crate::distribution::{Distribution, Shape};
use crate::drive::{Limits, Line, Order, Plan, Work};
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::mix::{Kind, Mix};
use crate::numbering::Numbering;
use crate::progress::Progress;
use crate::report::{Parameters, Report, Window};
use crate::settings::one_target;
use crate::target::{Needs, TargetUrl, open};
use crate::ttl::Ttls;
use crate::value_size::ValueSize;
use feed::{Feed, Feeder, pair};
use trace::Trace;

/// What the reader of the trace tells at its end.
struct Read {
    malformed: u64,
    too_long: u64,
    broken: Option<std::io::Error>,
}

/// Runs the command.
pub fn command(args: &ReplayArgs) -> Result<Report, Stop> {
    let trace = Trace::open(&args.trace);
    let trace = trace.map_err(|error| Stop::Usage(format!("{}: {error}", args.trace.display())))?;
    let target = one_target(&args.records.targets, &args.common.server)?;
    let needs = Needs { mix: Mix::only(Kind::Read), key_bytes: 1, value_bytes: 1, ttl: false, records: 0 };
    let store = open(&target, &args.common, &args.records, &needs)?;
    let mut report = Report::new("replay", store.environment()?, parameters(args));

    let threads = usize::from(args.records.threads.unwrap_or(1));
    let (feeder, feed) = pair(threads);
    let plan = plan(args, &target, feed, store.longest());
    let crew = store.crew(&plan, threads)?;
    let reader = read(trace, feeder, args, store.longest())?;
    let before = store.look()?;
    let order = Order::closed(Limits { operations: None, duration: args.duration }, Work::Replay, threads);
    let line = args.interim.map(|every| Line { every });
    let measured = crew.run(&order, line, &Progress::new("replay", &order.limits))?;
    // Without receivers the reader ends.
    drop((crew, plan));
    let cost = store.look().ok().map(|after| before.until(after));
    let read = reader.join().map_err(|_| Stop::Failed("the thread that reads the trace ended unexpectedly".into()))?;
    if let Some(error) = read.broken {
        return Err(Stop::Failed(format!("{}: {error}", args.trace.display())));
    }
    report.complete = measured.gave_up.is_none() && measured.recorder.failures.total() == 0 && read.malformed == 0;
    report.trace = Some(crate::report::TraceReport { malformed: read.malformed, too_long: read.too_long });
    report.window = Some(Window::of(&measured, measured.recorder.operations(), cost));
    Ok(report)
}

fn read(mut trace: Trace, mut to: Feeder, args: &ReplayArgs, longest: (u64, u64)) -> Result<JoinHandle<Read>, Stop> {
    let (speed, limit) = (args.speed, args.operations.unwrap_or(u64::MAX));
    let body = move || {
        let mut read = Read { malformed: 0, too_long: 0, broken: None };
        let mut second = Second::default();
        let mut taken = 0;
        while taken < limit {
            let entry = match trace.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    read.broken = Some(error);
                    break;
                }
            };
            taken += 1;
            if entry.key.len() as u64 > longest.0 || entry.value_bytes as u64 > longest.1 {
                read.too_long += 1;
                continue;
            }
            let sent = match speed {
                None => to.send(entry, None),
                Some(speed) => second.take(entry, speed, &mut to),
            };
            if !sent {
                break;
            }
        }
        if let Some(speed) = speed {
            second.send(speed, &mut to);
        }
        to.finish();
        read.malformed = trace.malformed;
        read
    };
    let thread = std::thread::Builder::new().name("trace".into()).spawn(body);
    thread.map_err(|error| Stop::Failed(format!("no thread to be had: {error}")))
}

/// The requests of one second of the trace: its clock knows no shorter time, so they are spread evenly over it.
#[derive(Default)]
struct Second {
    first: Option<u64>,
    now: u64,
    entries: Vec<trace::Entry>,
}

impl Second {
    fn take(&mut self, entry: trace::Entry, speed: f64, to: &mut Feeder) -> bool {
        self.first.get_or_insert(entry.second);
        let sent = self.entries.is_empty() || entry.second == self.now || self.send(speed, to);
        self.now = entry.second;
        self.entries.push(entry);
        sent
    }

    fn send(&mut self, speed: f64, to: &mut Feeder) -> bool {
        let count = self.entries.len() as f64;
        let start = self.now.saturating_sub(self.first.unwrap_or_default()) as f64;
        let at = |index: usize| Duration::from_secs_f64((start + index as f64 / count) / speed);
        let sent = self.entries.drain(..).enumerate().all(|(index, entry)| to.send(entry, Some(at(index))));
        sent && to.flush_all()
    }
}

fn plan(args: &ReplayArgs, target: &TargetUrl, feed: Feed, longest: (u64, u64)) -> Plan {
    Plan {
        chooser: KeyChooser::new(Distribution::Uniform, 1, &Shape::default()),
        keys: KeyFormat::named(*b"user"),
        numbering: Numbering::alone(),
        // Grows to the longest value of the trace.
        values: ValueSize::constant(longest.1.min(1 << 20)),
        ttls: Ttls::none(),
        verify: args.records.verify && *target != TargetUrl::Null,
        may_miss: true,
        pipeline: 1,
        multi_get: 1,
        counters: 0,
        locks: 0,
        process: (0, 1),
        acked: Arc::new(Acked::new(0, 0)),
        feed: Some(Arc::new(feed)),
    }
}

fn parameters(args: &ReplayArgs) -> Parameters {
    Parameters {
        name: Some(args.trace.file_name().map_or_else(|| "trace".into(), |name| name.to_string_lossy().into_owned())),
        threads: args.records.threads.unwrap_or(1),
        pipeline: 1,
        verify: args.records.verify,
        location_cache: args.records.location_cache,
        ..Parameters::default()
    }
}

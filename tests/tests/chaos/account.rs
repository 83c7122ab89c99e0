//! What all clients did and saw, and whether it may be.

use crate::deadline;
use crate::faults::{Kind, Past};
use sidewire_tests::history::lives::{Life, Lived, check_all, split};
use sidewire_tests::history::{Call, Event, Limits, Outcome, file};
use sidewire_tests::stalls::overlap;
use sidewire_tests::{scale, setting};
use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

/// By how much the shard's clock may be wrong, as a reader sees it.
const EXPIRY_BAND: Duration = Duration::from_millis(25);
/// What a call may take beyond its deadline on a machine that others use.
const SLACK: Duration = Duration::from_millis(400);

pub struct Account {
    calls: usize,
    lives: Vec<Life>,
    faults: BTreeMap<Kind, usize>,
    outcomes: BTreeMap<&'static str, usize>,
    clients: usize,
    /// The longest call, its client's own stops and those of the machine left out.
    longest: (Duration, String),
    /// For each kind of fault the longest time from its end to the next call that ended well.
    recovery: BTreeMap<Kind, Duration>,
    /// The longest time without any call that ended well.
    quiet: Duration,
    stats: Vec<String>,
    /// How often, and for how long in all, the machine itself stood.
    stalls: (usize, Duration),
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

impl Account {
    /// Reads every client's file.
    pub fn of(folder: &Path, past: &Past) -> Self {
        let mut calls = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let from = BufReader::new(std::fs::File::open(entry.path()).unwrap());
            calls.extend(file::read(from).unwrap_or_else(|e| panic!("{}: {e}", entry.path().display())));
        }
        calls.extend(lost_with_their_client(&calls, past));
        calls.sort_by_key(|call| call.event.invoked);
        let mut good: Vec<u64> = calls.iter().filter(|c| c.event.ended_well()).filter_map(|c| c.event.returned).collect();
        good.sort_unstable();
        let recovery = past.faults.iter().map(|(kind, ends)| {
            let next = |end: &u64| good.get(good.partition_point(|at| at < end)).map_or(0, |at| at - end);
            (*kind, Duration::from_nanos(ends.iter().map(next).max().unwrap_or(0)))
        });
        let mut outcomes = BTreeMap::new();
        for call in &calls {
            *outcomes.entry(call.event.ending()).or_default() += 1;
        }
        Self {
            clients: std::fs::read_dir(folder).unwrap().count(),
            lives: split(&calls, &past.ended),
            faults: past.faults.iter().map(|(kind, ends)| (*kind, ends.len())).collect(),
            outcomes,
            longest: longest(&calls, past),
            recovery: recovery.collect(),
            quiet: Duration::from_nanos(good.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)),
            stats: past.stats.clone(),
            stalls: (past.stalls.len(), overlap(&past.stalls, 0, u64::MAX)),
            calls: calls.len(),
        }
    }

    /// Judges it.
    pub fn check(&self) {
        let started = Instant::now();
        let limits = Limits { expiry_band: nanos(setting::patience(EXPIRY_BAND)), ..Limits::default() };
        let figures = check_all(&self.lives, &limits).unwrap_or_else(|wrong| panic!("{wrong}"));
        let explored: usize = figures.iter().map(|life| life.explored).sum();
        println!("{} lives are linearizable; {explored} configurations, {:?}", figures.len(), started.elapsed());
        let most = deadline() + deadline() / 10 + setting::patience(SLACK);
        assert!(self.longest.0 <= most, "a call took {:?}: {}", self.longest.0, self.longest.1);
        assert!(self.calls as u64 > scale(1000), "{} calls only", self.calls);
    }
}

/// The locks that clients held when they were killed may be lost from then on.
fn lost_with_their_client(calls: &[Lived], past: &Past) -> Vec<Lived> {
    let mut held: BTreeMap<(u32, &str, u64), u64> = BTreeMap::new();
    for call in calls.iter().filter(|call| past.killed.contains(&call.event.client)) {
        match (&call.event.call, &call.event.outcome) {
            (Call::TryLock { key }, Outcome::Locked { token }) => {
                held.insert((call.event.client, key, *token), call.life);
            }
            (Call::Unlock { key, token }, Outcome::Unlocked) => {
                held.remove(&(call.event.client, &**key, *token));
            }
            _ => {}
        }
    }
    held.into_iter()
        .map(|((client, key, token), life)| {
            let call = Call::Lost { key: key.into(), token };
            let at = past.ended[&client];
            let event = Event { client, invoked: at, returned: Some(at), call, outcome: Outcome::Noted };
            Lived { event, life, until: Some(life) }
        })
        .collect()
}

fn longest(calls: &[Lived], past: &Past) -> (Duration, String) {
    let took = |event: &Event| {
        let to = event.returned.filter(|_| event.outcome != Outcome::Noted).unwrap_or(event.invoked);
        let stops = past.stopped.iter().filter(|(client, ..)| *client == event.client).map(|(_, from, until)| (*from, *until));
        let stood = overlap(&past.stalls, event.invoked, to) + overlap(&stops.collect::<Vec<_>>(), event.invoked, to);
        Duration::from_nanos(to - event.invoked).saturating_sub(stood)
    };
    let longest = calls.iter().map(|call| (took(&call.event), call)).max_by_key(|(took, _)| *took);
    longest.map_or_else(Default::default, |(took, call)| (took, format!("{:?}", call.event)))
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} calls of {} client processes in {} lives of the server", self.calls, self.clients, self.lives.len())?;
        for (class, count) in &self.outcomes {
            writeln!(f, "  {count:>9} {class}")?;
        }
        for (kind, count) in &self.faults {
            writeln!(f, "  {count:>9} x {kind}; the next good call at most {:?} after it", self.recovery[kind])?;
        }
        writeln!(f, "  longest call {:?}, longest time without a good one {:?}", self.longest.0, self.quiet)?;
        writeln!(f, "  the machine itself stood {} times, {:?} in all", self.stalls.0, self.stalls.1)?;
        for stats in &self.stats {
            writeln!(f, "  {stats}")?;
        }
        Ok(())
    }
}

//! From events to what is searched: which keys are checked together, and what each call tells beyond its own key.

use super::event::{Call, Event, Outcome};
use super::model::NEVER;
use super::report::{Reason, Violation};
use std::collections::HashMap;

/// A call about one key.
#[derive(Debug)]
pub(super) struct Op<'a> {
    /// Its event's place in the history.
    pub event: usize,
    pub call: &'a Call,
    pub outcome: &'a Outcome,
    pub invoked: u64,
    /// `NEVER` when nobody knows whether it took effect.
    pub returned: u64,
    /// When it took effect at the latest, if it did.
    pub until: u64,
    /// Its key's place among those that are checked together.
    pub slot: usize,
    /// The lock's place and the token that it carries.
    pub fence: Option<(usize, u64)>,
    /// Of a put: its version, as far as the history tells.
    pub version: u64,
    /// Of a put: whether any read saw its value.
    pub is_seen: bool,
    /// Of a put: between which times its value goes away by itself.
    pub goes_from: u64,
    pub goes_by: u64,
    /// Calls of which nobody knows that have the same effect are one class.
    pub class: u32,
}

impl Op<'_> {
    pub fn is_known(&self) -> bool {
        *self.outcome != Outcome::Unknown
    }
}

/// Keys that are checked together, with the calls about them by time of invocation.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub keys: Vec<&'a str>,
    pub ops: Vec<Op<'a>>,
}

/// What is known of a stamp.
#[derive(Clone, Copy)]
struct Stamp<'a> {
    key: &'a str,
    event: usize,
    executed: bool,
    version: u64,
    is_seen: bool,
}

static UNKNOWN: Outcome = Outcome::Unknown;

/// What came of `event`; a call that never returned is one of which nobody knows.
fn outcome(event: &Event) -> &Outcome {
    if event.returned.is_none() { &UNKNOWN } else { &event.outcome }
}

/// Each key of an event, with what came of it.
fn parts(event: &Event) -> impl Iterator<Item = (&str, &Outcome)> {
    let outcome = outcome(event);
    event.call.keys().iter().enumerate().map(move |(at, key)| match outcome {
        Outcome::Each(each) => (&**key, each.get(at).unwrap_or(&UNKNOWN)),
        one => (&**key, one),
    })
}

/// The groups of a history; or what is wrong with it at first sight.
pub(super) fn groups(events: &[Event], band: u64) -> Result<Vec<Group<'_>>, Box<Violation>> {
    for (at, event) in events.iter().enumerate() {
        let reason = match outcome(event) {
            outcome if !outcome.fits(&event.call) => Reason::Unfitting,
            _ if event.returned.is_some_and(|returned| returned < event.invoked) => Reason::Backwards,
            _ => continue,
        };
        return Err(Violation::of(events, reason, &[at]));
    }
    let stamps = stamps(events)?;
    let (places, keys) = places(events);
    let breaks: Vec<&Event> = events.iter().filter(|event| matches!(event.call, Call::BreakLock { .. })).collect();
    let mut groups: Vec<Group<'_>> = keys.into_iter().map(|keys| Group { keys, ops: Vec::new() }).collect();
    for (at, event) in events.iter().enumerate() {
        for (key, outcome) in parts(event) {
            if *outcome == Outcome::NotExecuted || (*outcome == Outcome::Unknown && event.call.only_looks()) {
                continue;
            }
            let (group, slot) = places[key];
            let fence = event.call.fence().map(|fence| (places[&*fence.lock].1, fence.token));
            groups[group].ops.push(op(at, event, outcome, slot, fence, &stamps, band));
            for _ in 0..taken_and_lost(event, &breaks) {
                let until = event.returned.unwrap_or(NEVER);
                groups[group].ops.push(Op { until, ..op(at, event, &UNKNOWN, slot, None, &stamps, band) });
            }
        }
    }
    for group in &mut groups {
        group.ops.sort_by_key(|op| op.invoked);
        classify(&mut group.ops);
    }
    Ok(groups)
}

/// How often a call may have taken the lock before it came to its outcome: what it took was broken before its swap was
/// answered, so that the word told it nothing and it tried again.
fn taken_and_lost(event: &Event, breaks: &[&Event]) -> usize {
    let (Call::TryLock { key }, Some(returned)) = (&event.call, event.returned) else { return 0 };
    let meanwhile = |broken: &&&Event| {
        matches!(&broken.call, Call::BreakLock { key: other } if other == key)
            && broken.invoked <= returned
            && broken.returned.is_none_or(|at| at >= event.invoked)
    };
    breaks.iter().filter(meanwhile).count()
}

fn op<'a>(
    at: usize,
    event: &'a Event,
    outcome: &'a Outcome,
    slot: usize,
    fence: Option<(usize, u64)>,
    stamps: &HashMap<u64, Stamp<'_>>,
    band: u64,
) -> Op<'a> {
    let is_known = *outcome != Outcome::Unknown;
    let returned = event.returned.filter(|_| is_known).unwrap_or(NEVER);
    let stamp = event.call.stamp().and_then(|stamp| stamps.get(&stamp));
    let (goes_from, goes_by) = match event.call {
        Call::Put { ttl: Some(ttl), .. } => {
            let from = event.invoked.saturating_add(ttl).saturating_sub(band);
            (from, returned.saturating_add(ttl).saturating_add(band))
        }
        _ => (NEVER, NEVER),
    };
    Op {
        event: at,
        call: &event.call,
        outcome,
        invoked: event.invoked,
        returned,
        until: NEVER,
        slot,
        fence,
        version: stamp.map_or(0, |stamp| stamp.version),
        is_seen: stamp.is_some_and(|stamp| stamp.is_seen),
        goes_from,
        goes_by,
        class: 0,
    }
}

/// Every stamp written, the versions told for it, and reads of what nobody wrote.
fn stamps(events: &[Event]) -> Result<HashMap<u64, Stamp<'_>>, Box<Violation>> {
    let mut stamps: HashMap<u64, Stamp<'_>> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        let Some(stamp) = event.call.stamp() else { continue };
        let outcome = outcome(event);
        let executed = matches!(outcome, Outcome::Written { .. } | Outcome::Unknown);
        let version = if let Outcome::Written { version } = outcome { *version } else { 0 };
        let new = Stamp { key: &event.call.keys()[0], event: at, executed, version, is_seen: false };
        if let Some(old) = stamps.insert(stamp, new) {
            return Err(Violation::of(events, Reason::StampTwice, &[old.event, at]));
        }
    }
    for (at, event) in events.iter().enumerate() {
        for (key, outcome) in parts(event) {
            let (stamp, version) = match outcome {
                Outcome::Torn(_) => return Err(Violation::of(events, Reason::Torn, &[at])),
                Outcome::Value { stamp, version } => (*stamp, *version),
                _ => continue,
            };
            let Some(known) = stamps.get_mut(&stamp) else {
                return Err(Violation::of(events, Reason::FromNowhere, &[at]));
            };
            let reason = if known.key != key {
                Reason::OtherKey
            } else if !known.executed {
                Reason::RefusedButSeen
            } else if known.version != 0 && known.version != version {
                Reason::TwoVersions
            } else {
                known.version = version;
                known.is_seen = true;
                continue;
            };
            return Err(Violation::of(events, reason, &[known.event, at]));
        }
    }
    Ok(stamps)
}

type Places<'a> = HashMap<&'a str, (usize, usize)>;

/// For each key its group and its place there; for each group its keys. A fence ties a key to its lock.
fn places(events: &[Event]) -> (Places<'_>, Vec<Vec<&str>>) {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut keys: Vec<&str> = Vec::new();
    let mut parents: Vec<usize> = Vec::new();
    for event in events {
        let lock = event.call.fence().map(|fence| &*fence.lock);
        for key in event.call.keys().iter().map(|key| &**key).chain(lock) {
            numbers.entry(key).or_insert_with(|| {
                keys.push(key);
                parents.push(parents.len());
                parents.len() - 1
            });
        }
        if let Some(lock) = lock {
            let (a, b) = (root(&parents, numbers[lock]), root(&parents, numbers[&*event.call.keys()[0]]));
            parents[a] = b;
        }
    }
    let mut groups: HashMap<usize, usize> = HashMap::new();
    let (mut places, mut members) = (HashMap::new(), Vec::<Vec<&str>>::new());
    for (number, key) in keys.iter().enumerate() {
        let group = *groups.entry(root(&parents, number)).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        places.insert(*key, (group, members[group].len()));
        members[group].push(*key);
    }
    (places, members)
}

fn root(parents: &[usize], mut at: usize) -> usize {
    while parents[at] != at {
        at = parents[at];
    }
    at
}

/// Gives calls of which nobody knows, and which would do the same, the same class.
fn classify(ops: &mut [Op<'_>]) {
    let mut classes = HashMap::new();
    for op in ops.iter_mut().filter(|op| !op.is_known()) {
        let mut like = op.call.clone();
        if let Call::Put { stamp, ttl: None, .. } = &mut like
            && !op.is_seen
        {
            *stamp = 0;
        }
        let next = u32::try_from(classes.len()).unwrap_or(u32::MAX);
        // A call's text names all that decides its effect, besides the time left for it.
        op.class = *classes.entry(format!("{like:?} {}", op.until)).or_insert(next);
    }
}

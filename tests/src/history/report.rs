//! What is wrong with a history, for people.

use super::event::{Call, Condition, Event, Outcome};
use super::model::{Held, Hold, State, UNSEEN};
use super::prepare::Group;
use std::fmt::{self, Write};

/// Lines of a window at most.
const LINES_MAX: usize = 40;

/// In which way a history is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum Reason {
    Unfitting,
    Backwards,
    StampTwice,
    Torn,
    FromNowhere,
    OtherKey,
    RefusedButSeen,
    TwoVersions,
    TokenTwice,
    NumberTwice,
    SumTwice,
    WrongSum,
    OutOfOrder,
    CreatedTwice,
    NotCreated,
    NoOrder,
}

impl Reason {
    const fn text(self) -> &'static str {
        match self {
            Self::Unfitting => "an outcome that the call never has",
            Self::Backwards => "a call that returned before it was made",
            Self::StampTwice => "a stamp that was written twice: the history is of no use",
            Self::Torn => "bytes that no single write wrote",
            Self::FromNowhere => "a value that nobody wrote",
            Self::OtherKey => "a value of another key",
            Self::RefusedButSeen => "the value of a write that was said not to be carried out",
            Self::TwoVersions => "one value under two versions",
            Self::TokenTwice => "one token granted twice",
            Self::NumberTwice => "a number of a sequence handed out twice",
            Self::SumTwice => "two adds that came to the same sum: one of them was lost",
            Self::WrongSum => "a value that the adds before it do not come to",
            Self::OutOfOrder => "a call that saw less than what had returned before it was made",
            Self::CreatedTwice => "created twice",
            Self::NotCreated => "found before anybody created it, or missed after that",
            Self::NoOrder => "no order of the calls explains the outcome of the one marked",
        }
    }
}

/// What is wrong, with the calls that show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// In which way.
    pub reason: Reason,
    /// The keys concerned.
    pub keys: Vec<String>,
    /// The calls that show it, by time.
    pub events: Vec<Event>,
    /// The last of them in question, among `events`.
    pub culprit: usize,
    /// What the keys could hold before the culprit returned.
    pub states: Vec<String>,
}

impl Violation {
    /// Of calls that contradict each other; the last one shown is the culprit.
    pub(super) fn of(events: &[Event], reason: Reason, shown: &[usize]) -> Box<Self> {
        let culprit = shown.last().copied().unwrap_or(0);
        Box::new(Self::with(events, reason, shown.to_vec(), culprit, Vec::new()))
    }

    /// Of a search in which nothing explained `op`.
    pub(super) fn of_search(events: &[Event], group: &Group<'_>, op: usize, states: &[State]) -> Box<Self> {
        let culprit = &group.ops[op];
        let mut told: Vec<String> = states.iter().map(|state| text_of(group, state)).collect();
        told.sort();
        told.dedup();
        let mut shown: Vec<usize> = group
            .ops
            .iter()
            .filter(|other| other.invoked <= culprit.returned && other.returned >= culprit.invoked && other.is_known())
            .map(|other| other.event)
            .collect();
        // What made the states, and what the culprit saw: the calls that tell these stamps.
        let mut stamps: Vec<u64> = states.iter().flat_map(|state| state.0.iter().filter_map(stamp_of)).collect();
        stamps.extend(seen_by(culprit.outcome));
        for stamp in stamps {
            let tells = |at: usize| {
                let other = &group.ops[at];
                other.invoked <= culprit.returned && (other.call.stamp() == Some(stamp) || seen_by(other.outcome) == Some(stamp))
            };
            shown.extend((0..group.ops.len()).find(|at| tells(*at)).map(|at| group.ops[at].event));
            shown.extend((0..group.ops.len()).rev().find(|at| tells(*at)).map(|at| group.ops[at].event));
        }
        // What returned last before it, of each key concerned.
        let mut before: Vec<&super::prepare::Op<'_>> =
            group.ops.iter().filter(|other| other.returned < culprit.invoked).collect();
        before.sort_by_key(|other| other.returned);
        shown.extend(before.iter().rev().take(4).map(|other| other.event));
        Box::new(Self::with(events, Reason::NoOrder, shown, culprit.event, told))
    }

    fn with(events: &[Event], reason: Reason, mut shown: Vec<usize>, culprit: usize, states: Vec<String>) -> Self {
        shown.push(culprit);
        shown.sort_by_key(|at| (events[*at].invoked, *at));
        shown.dedup();
        if shown.len() > LINES_MAX {
            let at = shown.iter().position(|at| *at == culprit).unwrap_or(0);
            let from = at.saturating_sub(LINES_MAX * 3 / 4).min(shown.len() - LINES_MAX);
            shown = shown[from..from + LINES_MAX].to_vec();
        }
        let mut keys: Vec<String> = shown.iter().flat_map(|at| events[*at].call.keys().to_vec()).collect();
        keys.sort();
        keys.dedup();
        let place = shown.iter().position(|at| *at == culprit).unwrap_or(0);
        Self { reason, keys, events: shown.iter().map(|at| events[*at].clone()).collect(), culprit: place, states }
    }
}

fn stamp_of(slot: &super::model::Slot) -> Option<u64> {
    match slot.held {
        Held::Value { stamp, .. } if stamp != UNSEEN => Some(stamp),
        _ => None,
    }
}

const fn seen_by(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Value { stamp, .. } => Some(*stamp),
        _ => None,
    }
}

fn text_of(group: &Group<'_>, state: &State) -> String {
    let mut text = String::new();
    for (key, slot) in group.keys.iter().zip(&state.0) {
        let held = match slot.held {
            Held::Absent => "nothing".into(),
            Held::Value { stamp: UNSEEN, .. } => "a value that nobody read".into(),
            Held::Value { stamp, version: 0, .. } => format!("#{stamp}"),
            Held::Value { stamp, version, .. } => format!("#{stamp} (version {version})"),
            Held::Counter(value) => format!("the counter {value}"),
            Held::Sequence(next) => format!("a sequence from {next} on"),
            Held::Lock(Hold::Free | Hold::Unmade | Hold::Broken) => "a free lock".into(),
            Held::Lock(Hold::Held) => "a lock that is held".into(),
            Held::Lock(Hold::Perhaps | Hold::Made) => "a lock that may be held".into(),
        };
        let _ = write!(text, "{}{key}: {held}", if text.is_empty() { "" } else { ", " });
    }
    text
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable ({}): {}", self.keys.join(", "), self.reason.text())?;
        let start = self.events.iter().map(|event| event.invoked).min().unwrap_or(0);
        for (at, event) in self.events.iter().enumerate() {
            let mark = if at == self.culprit { ">" } else { " " };
            let from = event.invoked - start;
            let to = event.returned.map_or("never".into(), |to| format!("{}", to.saturating_sub(start)));
            let outcome = if event.returned.is_none() { "?".into() } else { outcome_text(&event.outcome) };
            writeln!(f, "{mark} [{from:>12} .. {to:>12}] client {:<5} {:<44} {outcome}", event.client, call_text(&event.call))?;
        }
        for state in &self.states {
            writeln!(f, "  before it returned, possibly: {state}")?;
        }
        Ok(())
    }
}

fn call_text(call: &Call) -> String {
    let fence = call.fence().map(|fence| format!(" fenced by {} token {}", fence.lock, fence.token)).unwrap_or_default();
    let condition = |condition: &Condition| match condition {
        Condition::None => String::new(),
        Condition::Absent => " if absent".into(),
        Condition::Version(version) => format!(" if version {version}"),
    };
    match call {
        Call::Get { key } => format!("get {key}"),
        Call::MultiGet { keys } => format!("get {}", keys.join(" ")),
        Call::Exists { key } => format!("exists {key}"),
        Call::Put { key, stamp, ttl, condition: when, .. } => {
            let ttl = ttl.map(|ttl| format!(" for {ttl}")).unwrap_or_default();
            format!("put {key} #{stamp}{ttl}{}{fence}", condition(when))
        }
        Call::Delete { key, condition: when, .. } => format!("delete {key}{}{fence}", condition(when)),
        Call::Create { key, cell, initial } => format!("create {cell:?} {key} at {initial}"),
        Call::Add { key, delta } => format!("add {delta} to {key}"),
        Call::Read { key } => format!("read {key}"),
        Call::Next { key } => format!("next of {key}"),
        Call::TryLock { key } => format!("try to lock {key}"),
        Call::LockState { key } => format!("state of lock {key}"),
        Call::Unlock { key, token } => format!("unlock {key} token {token}"),
        Call::Lost { key, token } => format!("(may have lost {key} token {token})"),
        Call::BreakLock { key } => format!("break lock {key}"),
    }
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Unknown => "?".into(),
        Outcome::NotExecuted => "refused or failed, not carried out".into(),
        Outcome::Value { stamp, version } => format!("#{stamp} (version {version})"),
        Outcome::Torn(why) => format!("torn: {why}"),
        Outcome::Absent => "nothing there".into(),
        Outcome::Each(each) => each.iter().map(outcome_text).collect::<Vec<_>>().join(" | "),
        Outcome::Found(found) => format!("{found}"),
        Outcome::Written { version } => format!("done (version {version})"),
        Outcome::Deleted => "done".into(),
        Outcome::Exists { version } => format!("exists (version {version})"),
        Outcome::Mismatch { version } => format!("no: it is version {version}"),
        Outcome::Created(created) => format!("{created}"),
        Outcome::Number(number) => format!("{number}"),
        Outcome::Locked { token } => format!("locked, token {token}"),
        Outcome::Busy => "another holds it".into(),
        Outcome::State { held, token } => format!("{}, token {token}", if *held { "held" } else { "free" }),
        Outcome::Unlocked => "unlocked".into(),
        Outcome::Fenced => "fenced off".into(),
        Outcome::Noted => String::new(),
    }
}

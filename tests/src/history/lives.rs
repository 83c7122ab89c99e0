//! The lives of a server that starts empty: each is a history of its own.

use super::event::{Call, Event, Outcome};
use super::{Limits, Verdict, check};
use std::collections::{BTreeMap, HashMap};

/// A call, with the server's life when it was made and when it returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lived {
    /// The call.
    pub event: Event,
    /// The life when it was made.
    pub life: u64,
    /// The life when it returned.
    pub until: Option<u64>,
}

/// One life's history.
#[derive(Clone, Debug)]
pub struct Life {
    /// Its number, as the server tells it.
    pub number: u64,
    /// What happened in it, or may have.
    pub events: Vec<Event>,
}

/// Splits the calls of all clients by the server's lives, oldest first.
///
/// A call that saw two lives may have taken effect in any from the first to the last, or not at all: it is one of which
/// nobody knows there, whatever came of it. One that never returned may have been carried over to any life that was
/// seen before its client's end (`ended`, by client), and to the next.
#[must_use]
pub fn split(calls: &[Lived], ended: &HashMap<u32, u64>) -> Vec<Life> {
    let order = in_order(calls);
    let place = |life: u64| order.iter().position(|(_, other)| *other == life).expect("every life was collected");
    let mut lives: Vec<Life> = order.iter().map(|(_, number)| Life { number: *number, events: Vec::new() }).collect();
    for call in calls {
        let from = place(call.life);
        let to = match (call.until, ended.get(&call.event.client)) {
            (Some(until), _) => place(until),
            (None, Some(end)) => order.partition_point(|(first, _)| first <= end).min(order.len() - 1),
            (None, None) => order.len() - 1,
        };
        for (at, life) in lives.iter_mut().enumerate().take(to.max(from) + 1).skip(from) {
            life.events.extend(part(call, at == from, from >= to));
        }
    }
    lives
}

/// When each life was first seen, and its number, oldest first.
fn in_order(calls: &[Lived]) -> Vec<(u64, u64)> {
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    for call in calls {
        let at_end = call.until.zip(call.event.returned);
        for (life, at) in std::iter::once((call.life, call.event.invoked)).chain(at_end) {
            let first = seen.entry(life).or_insert(at);
            *first = at.min(*first);
        }
    }
    // A client that has not noticed may be the first to call in a life that is over: the one it moves on to came later.
    for _ in 0..seen.len() {
        for call in calls {
            let Some(until) = call.until.filter(|until| *until != call.life) else { continue };
            let latest = seen.get(&until).map_or(u64::MAX, |first| first.saturating_sub(1));
            seen.entry(call.life).and_modify(|first| *first = latest.min(*first));
        }
    }
    let mut order: Vec<(u64, u64)> = seen.into_iter().map(|(life, first)| (first, life)).collect();
    order.sort_unstable();
    order
}

/// What of a call belongs to a life.
fn part(call: &Lived, is_first: bool, is_only: bool) -> Option<Event> {
    let event = &call.event;
    let is_refused = event.outcome == Outcome::NotExecuted && event.returned.is_some();
    if is_only || (is_refused && is_first) {
        return Some(event.clone());
    }
    let is_idle = event.call.only_looks() || is_refused || (matches!(event.call, Call::Lost { .. }) && !is_first);
    (!is_idle).then(|| match event.call {
        Call::Lost { .. } => event.clone(),
        _ => Event { returned: None, outcome: Outcome::Unknown, ..event.clone() },
    })
}

/// Checks every life, and that a lock's tokens rise over all of them.
///
/// # Errors
/// The first verdict that is not good, or the tokens that did not rise, as text.
pub fn check_all(lives: &[Life], limits: &Limits) -> Result<Vec<super::Figures>, String> {
    let mut figures = Vec::new();
    for life in lives {
        match check(&life.events, limits) {
            Verdict::Good(good) => figures.push(good),
            other => return Err(format!("life {}: {other}", life.number)),
        }
    }
    tokens_rise(lives)?;
    Ok(figures)
}

fn tokens_rise(lives: &[Life]) -> Result<(), String> {
    let mut highest: HashMap<&str, (u64, u64)> = HashMap::new();
    for life in lives {
        let mut granted: Vec<(&str, u64)> = Vec::new();
        for event in &life.events {
            if let (Call::TryLock { key }, Outcome::Locked { token }, Some(_)) = (&event.call, &event.outcome, event.returned) {
                granted.push((key, *token));
            }
        }
        for (key, token) in &granted {
            if let Some((before, high)) = highest.get(key)
                && token <= high
            {
                return Err(format!("lock {key}: token {token} in life {} after {high} in life {before}", life.number));
            }
        }
        for (key, token) in granted {
            let high = highest.get(key).map_or(0, |(_, high)| *high);
            highest.insert(key, (life.number, token.max(high)));
        }
    }
    Ok(())
}

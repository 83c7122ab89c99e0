//! The requests of a trace, each waited for before the next begins.

use std::time::Instant;

use super::member::{Member, judge};
use super::phase::Phase;
use crate::failure::{Failure, FailureKind};
use crate::mix::Kind;
use crate::pacer::rest;
use crate::replay::feed::Due;
use crate::target::Target;
use crate::value;

/// Runs this thread's requests until the trace ends or the phase is stopped.
pub fn run<T: Target>(member: &mut Member<T>, phase: &Phase) {
    let Some(feed) = member.plan.feed.clone() else { return };
    let thread = member.thread();
    let started = Instant::now();
    let mut began = started;
    while let Some(batch) = feed.next(thread) {
        if batch.first().is_some_and(|due| due.at.is_none()) {
            // Waiting for the trace to be read is no latency.
            began = Instant::now();
        }
        for due in batch {
            if phase.is_stopped() || member.gave_up() {
                return;
            }
            if let Some(at) = due.at {
                began = started + at;
                loop {
                    let left = began.saturating_duration_since(Instant::now());
                    if left.is_zero() || phase.is_stopped() {
                        break;
                    }
                    rest(left);
                }
            }
            match operate(member, &due) {
                Ok(()) => {
                    let now = Instant::now();
                    member.record(due.entry.kind, now.saturating_duration_since(began), phase);
                    began = now;
                }
                Err(failure) => {
                    member.failed(failure);
                    began = Instant::now();
                }
            }
        }
    }
}

fn operate<T: Target>(member: &mut Member<T>, due: &Due) -> Result<(), Failure> {
    let entry = &due.entry;
    match entry.kind {
        Kind::Read => read(member, due),
        Kind::Rmw => read(member, due).and_then(|()| write(member, due)),
        Kind::Add => add(member, due),
        Kind::Delete => member.target.delete(&entry.key),
        _ => write(member, due),
    }
}

fn read<T: Target>(member: &mut Member<T>, due: &Due) -> Result<(), Failure> {
    let verify = member.plan.verify;
    let judged = member.target.read(&due.entry.key, |seen| judge(seen, due.record, verify))?;
    member.verdict(judged)
}

fn write<T: Target>(member: &mut Member<T>, due: &Due) -> Result<(), Failure> {
    let (target, bytes, version) = member.value_of(due.entry.value_bytes);
    value::fill(bytes, due.record, version);
    target.write(&due.entry.key, bytes, due.entry.ttl)
}

/// A trace counts in values; here counters are a kind of their own, under names of their own.
fn add<T: Target>(member: &mut Member<T>, due: &Due) -> Result<(), Failure> {
    let key = [b"#", due.entry.key.as_slice()].concat();
    match member.target.add(&key) {
        Err(Failure { kind: FailureKind::Refused, .. }) => {
            member.target.create_counter(&key)?;
            member.target.add(&key)
        }
        done => done,
    }
}

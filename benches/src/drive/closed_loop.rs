//! Each operation is waited for before the next begins.
//!
//! One look at the clock per operation: an operation begins where the one before it ended, so its latency
//! holds the generator's own cost (choosing a record, writing its key, checking the value). With a rate it begins
//! when it was meant to, however late it is.

use std::time::Instant;

use super::member::{Member, judge};
use super::phase::{Phase, count};
use crate::acked::Next;
use crate::failure::Failure;
use crate::mix::{Kind, Mix};
use crate::target::Target;

/// How an operation went.
enum Step {
    Done(Kind),
    Failed(Failure),
    /// There is nothing to do yet.
    Wait,
    /// There is nothing to do any more.
    End,
}

/// Runs operations until the budget is spent or the phase is stopped.
pub fn run<T: Target>(member: &mut Member<T>, phase: &Phase, mix: &Mix, endless: bool) {
    let mut began = Instant::now();
    loop {
        let mut left = if endless { 1 } else { count(phase.take_batch()) };
        if left == 0 {
            return;
        }
        while left > 0 {
            if phase.is_stopped() || member.gave_up() {
                return;
            }
            if let Some(pacer) = &mut member.pacer {
                match pacer.wait(phase, &mut member.rng) {
                    Some(due) => began = due,
                    None => return,
                }
            }
            match step(member, mix) {
                Step::Done(kind) => {
                    let now = Instant::now();
                    member.record(kind, now.saturating_duration_since(began), phase);
                    began = now;
                    left -= 1;
                }
                Step::Failed(failure) => {
                    member.failed(failure);
                    began = Instant::now();
                    left -= 1;
                }
                Step::Wait => {
                    std::thread::yield_now();
                    began = Instant::now();
                }
                Step::End => return,
            }
        }
    }
}

/// Reads every record of the budget once: operation n is record n.
pub fn sweep<T: Target>(member: &mut Member<T>, phase: &Phase) {
    let mut began = Instant::now();
    for record in std::iter::repeat_with(|| phase.take_batch()).take_while(|batch| !batch.is_empty()).flatten() {
        if phase.is_stopped() || member.gave_up() {
            return;
        }
        match read(member, record) {
            Ok(()) => {
                let now = Instant::now();
                member.record(Kind::Read, now - began, phase);
                began = now;
            }
            Err(failure) => member.failed(failure),
        }
    }
}

#[inline]
fn step<T: Target>(member: &mut Member<T>, mix: &Mix) -> Step {
    let kind = mix.next(&mut member.rng);
    if kind == Kind::Insert {
        return insert(member);
    }
    let Some(record) = member.choose() else { return Step::Wait };
    match operate(member, kind, record) {
        Ok(()) => Step::Done(kind),
        Err(failure) => Step::Failed(failure),
    }
}

#[inline]
fn operate<T: Target>(member: &mut Member<T>, kind: Kind, record: u64) -> Result<(), Failure> {
    match kind {
        Kind::Read => read(member, record),
        Kind::Update | Kind::Insert => write(member, record),
        Kind::Rmw => read(member, record).and_then(|()| write(member, record)),
        Kind::MultiGet => member.multi_get(record),
        Kind::Add => {
            let (target, key) = member.counter(record);
            target.add(key)
        }
        Kind::Lock => {
            let (target, key) = member.lock(record);
            target.lock_and_unlock(key)
        }
        Kind::Delete => {
            let (target, key) = member.key(record);
            target.delete(key)
        }
    }
}

#[inline]
fn read<T: Target>(member: &mut Member<T>, own: u64) -> Result<(), Failure> {
    let (verify, record) = (member.plan.verify, member.plan.numbering.record(own));
    let (target, key) = member.key(own);
    let judged = target.read(key, |seen| judge(seen, record, verify))?;
    member.verdict(judged)
}

fn write<T: Target>(member: &mut Member<T>, record: u64) -> Result<(), Failure> {
    let (target, key, value, ttl) = member.make_value(record);
    target.write(key, value, ttl)
}

fn insert<T: Target>(member: &mut Member<T>) -> Step {
    match member.plan.acked.take() {
        Next::Wait => Step::Wait,
        Next::End => Step::End,
        Next::Record(record) => match write(member, record) {
            Ok(()) => {
                member.plan.acked.acknowledge(record);
                Step::Done(Kind::Insert)
            }
            Err(failure) => {
                member.plan.acked.give_back(record);
                Step::Failed(failure)
            }
        },
    }
}

//! Each operation is waited for before the next begins.
//!
//! One look at the clock per operation: an operation begins where the one before it ended, so its latency
//! holds the generator's own cost (choosing a record, writing its key, checking the value).

use std::time::Instant;

use super::member::{Member, judge};
use super::phase::{Phase, count};
use crate::acked::Next;
use crate::failure::Failure;
use crate::target::Target;
use crate::workload::{Kind, Mix};

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
        let batch = if endless { 1 } else { count(phase.take_batch()) };
        let mut left = batch;
        while left > 0 {
            if phase.is_stopped() || member.gave_up() {
                return;
            }
            match step(member, mix) {
                Step::Done(kind) => {
                    let now = Instant::now();
                    member.recorder.record(kind, now - began);
                    began = now;
                    member.came_through();
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
        if batch == 0 {
            return;
        }
        member.done.add(batch);
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
                member.recorder.record(Kind::Read, now - began);
                began = now;
                member.came_through();
            }
            Err(failure) => member.failed(failure),
        }
        member.done.add(1);
    }
}

#[inline]
fn step<T: Target>(member: &mut Member<T>, mix: &Mix) -> Step {
    let kind = mix.next(&mut member.rng);
    if kind == Kind::Insert {
        return insert(member);
    }
    let Some(record) = member.choose() else { return Step::Wait };
    let result = match kind {
        Kind::Read => read(member, record),
        Kind::Update => write(member, record),
        Kind::Insert | Kind::Rmw => read(member, record).and_then(|()| write(member, record)),
    };
    match result {
        Ok(()) => Step::Done(kind),
        Err(failure) => Step::Failed(failure),
    }
}

#[inline]
fn read<T: Target>(member: &mut Member<T>, record: u64) -> Result<(), Failure> {
    let verify = member.plan.verify;
    let key = member.plan.keys.write(record);
    member.target.read(key, |seen| judge(seen, record, verify))?
}

fn write<T: Target>(member: &mut Member<T>, record: u64) -> Result<(), Failure> {
    member.make_value(record);
    let key = member.plan.keys.write(record);
    member.target.write(key, &member.value)
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

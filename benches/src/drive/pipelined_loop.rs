//! A number of operations is kept in flight.
//!
//! One look at the clock per round: operations that a round begins start then, those that it reaps end then.

use std::time::Instant;

use super::member::{Member, judge};
use super::phase::{Phase, count};
use crate::acked::Next;
use crate::failure::Failure;
use crate::target::{Target, Ticket};
use crate::workload::{Kind, Mix};

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
struct Open {
    ticket: Ticket,
    kind: Kind,
    record: u64,
    /// Whether a read is in flight; of a read-modify-write the write follows it.
    reads: bool,
    began: Instant,
}

/// How beginning an operation went.
enum Begun {
    Yes,
    Failed(Failure),
    /// Not now: some must end first.
    Wait,
    /// There is nothing to do any more.
    End,
}

/// The operations in flight of one thread.
struct Pipeline<'a, T> {
    member: &'a mut Member<T>,
    open: Vec<Open>,
    /// Operations that ended in this round.
    ended: Vec<(Open, Result<(), Failure>)>,
    /// Read-modify-writes whose write could not be begun yet.
    waiting: Vec<Open>,
    /// One that could not be begun yet: dropping it would favour those that can.
    next: Option<Open>,
}

/// Runs operations until the budget is spent or the phase is stopped, and waits for those in flight.
pub fn run<T: Target>(member: &mut Member<T>, phase: &Phase, mix: &Mix, endless: bool) {
    let depth = member.plan.pipeline;
    let mut pipeline = Pipeline {
        member,
        open: Vec::with_capacity(depth),
        ended: Vec::with_capacity(depth),
        waiting: Vec::with_capacity(depth),
        next: None,
    };
    let mut left = 0;
    let mut over = false;
    let mut now = Instant::now();
    loop {
        over |= phase.is_stopped() || pipeline.member.gave_up();
        while !over && pipeline.in_flight() < depth {
            if left == 0 {
                left = if endless { 1 } else { count(phase.take_batch()) };
                over = left == 0;
                continue;
            }
            match pipeline.begin(mix, now) {
                Begun::Yes => left -= 1,
                Begun::Failed(failure) => {
                    pipeline.member.failed(failure);
                    left -= 1;
                    over |= pipeline.member.gave_up();
                }
                Begun::Wait => break,
                // An insert that fails in flight is taken again.
                Begun::End if pipeline.in_flight() > 0 => break,
                Begun::End => over = true,
            }
        }
        if pipeline.in_flight() > 0 {
            now = pipeline.reap();
        } else if over {
            break;
        } else {
            std::thread::yield_now();
            now = Instant::now();
        }
    }
    if let Some(Open { kind: Kind::Insert, record, .. }) = pipeline.next {
        pipeline.member.plan.acked.untake(record);
    }
}

impl<T: Target> Pipeline<'_, T> {
    fn in_flight(&self) -> usize {
        self.open.len() + self.waiting.len()
    }

    fn begin(&mut self, mix: &Mix, began: Instant) -> Begun {
        let open = match self.next.take().map_or_else(|| self.choose(mix, began), Ok) {
            Ok(open) => Open { began, ..open },
            Err(nothing) => return nothing,
        };
        match self.submit(open) {
            Ok(true) => Begun::Yes,
            Ok(false) => {
                self.next = Some(open);
                Begun::Wait
            }
            Err(failure) => {
                if open.kind == Kind::Insert {
                    self.member.plan.acked.give_back(open.record);
                }
                Begun::Failed(failure)
            }
        }
    }

    fn choose(&mut self, mix: &Mix, began: Instant) -> Result<Open, Begun> {
        let kind = mix.next(&mut self.member.rng);
        let record = match kind {
            Kind::Insert => match self.member.plan.acked.take() {
                Next::Record(record) => record,
                Next::Wait => return Err(Begun::Wait),
                Next::End => return Err(Begun::End),
            },
            _ => self.member.choose().ok_or(Begun::Wait)?,
        };
        let reads = matches!(kind, Kind::Read | Kind::Rmw);
        Ok(Open { ticket: 0, kind, record, reads, began })
    }

    /// Begins an operation; false when too much is in flight.
    fn submit(&mut self, mut open: Open) -> Result<bool, Failure> {
        let member = &mut *self.member;
        let ticket = if open.reads {
            member.target.submit_read(member.plan.keys.write(open.record))?
        } else {
            member.make_value(open.record);
            member.target.submit_write(member.plan.keys.write(open.record), &member.value)?
        };
        let Some(ticket) = ticket else {
            return if self.open.is_empty() { Err(Failure::stuck()) } else { Ok(false) };
        };
        open.ticket = ticket;
        self.open.push(open);
        Ok(true)
    }

    /// Waits for at least one operation and records those that ended.
    fn reap(&mut self) -> Instant {
        let (open, ended, verify) = (&mut self.open, &mut self.ended, self.member.plan.verify);
        let waited = self.member.target.wait(|ticket, result| {
            // The oldest come first, mostly: the search is short.
            let Some(position) = open.iter().position(|open| open.ticket == ticket) else { return };
            let open = open.remove(position);
            let verdict = match result {
                Ok(seen) if open.reads => judge(seen, open.record, verify),
                Ok(_) => Ok(()),
                Err(failure) => Err(failure),
            };
            ended.push((open, verdict));
        });
        let now = Instant::now();
        if let Err(failure) = waited {
            self.member.failed(failure);
            if self.member.gave_up() {
                self.abandon();
            }
        }
        self.settle(now);
        now
    }

    fn settle(&mut self, now: Instant) {
        while let Some((open, verdict)) = self.ended.pop() {
            match verdict {
                Ok(()) if open.reads && open.kind == Kind::Rmw => self.waiting.push(Open { reads: false, ..open }),
                Ok(()) => self.finish(open, now),
                Err(failure) => {
                    if open.kind == Kind::Insert {
                        self.member.plan.acked.give_back(open.record);
                    }
                    self.member.failed(failure);
                }
            }
        }
        while let Some(open) = self.waiting.pop() {
            match self.submit(open) {
                Ok(true) => {}
                Ok(false) => {
                    self.waiting.push(open);
                    break;
                }
                Err(failure) => self.member.failed(failure),
            }
        }
    }

    fn finish(&mut self, open: Open, now: Instant) {
        if open.kind == Kind::Insert {
            self.member.plan.acked.acknowledge(open.record);
        }
        self.member.recorder.record(open.kind, now - open.began);
        self.member.came_through();
        self.member.done.add(1);
    }

    /// Nothing in flight will come back: forgets it all.
    fn abandon(&mut self) {
        for open in self.open.drain(..).chain(self.waiting.drain(..)) {
            if open.kind == Kind::Insert {
                self.member.plan.acked.give_back(open.record);
            }
            self.member.recorder.fail(Failure::given_up());
        }
    }
}

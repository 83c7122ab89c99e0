//! A number of operations is kept in flight.
//!
//! One look at the clock per round: operations that a round begins start then, those that it reaps end then. With a
//! rate an operation starts when it was meant to, though it may have to wait for a place among those in flight.

use std::time::{Duration, Instant};

use super::member::{Member, judge};
use super::phase::{Phase, count};
use crate::acked::Next;
use crate::failure::Failure;
use crate::mix::{Kind, Mix};
use crate::pacer::rest;
use crate::target::{Request, Target, Ticket};

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
    phase: &'a Phase,
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
        phase,
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
        // Time until the next start, when it has not come yet.
        let mut early = None;
        while !over && pipeline.in_flight() < depth {
            if left == 0 {
                left = if endless { 1 } else { count(phase.take_batch()) };
                over = left == 0;
                continue;
            }
            let began = match pipeline.start(now) {
                Ok(began) => began,
                Err(wait) => {
                    early = Some(wait);
                    break;
                }
            };
            match pipeline.begin(mix, began) {
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
        now = match (pipeline.in_flight() > 0, early) {
            (true, None) => pipeline.reap(true),
            (true, Some(_)) => pipeline.reap(false),
            (false, _) if over => break,
            (false, Some(wait)) => {
                rest(wait);
                Instant::now()
            }
            (false, None) => {
                std::thread::yield_now();
                Instant::now()
            }
        };
    }
    if let Some(Open { kind: Kind::Insert, record, .. }) = pipeline.next {
        pipeline.member.plan.acked.untake(record);
    }
}

impl<T: Target> Pipeline<'_, T> {
    fn in_flight(&self) -> usize {
        self.open.len() + self.waiting.len()
    }

    /// When the next operation begins: now, or when it was meant to; else how long that is to come.
    fn start(&mut self, now: Instant) -> Result<Instant, Duration> {
        let Some(pacer) = &mut self.member.pacer else { return Ok(now) };
        if let Some(kept) = &self.next {
            return Ok(kept.began);
        }
        let due = pacer.due();
        if due > now {
            return Err(due - now);
        }
        pacer.step(&mut self.member.rng);
        Ok(due)
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
        let ticket = match open.kind {
            _ if open.reads => {
                let (target, key) = member.key(open.record);
                target.submit(Request::Read { key })?
            }
            Kind::Add => {
                let (target, key) = member.counter(open.record);
                target.submit(Request::Add { key })?
            }
            Kind::Delete => {
                let (target, key) = member.key(open.record);
                target.submit(Request::Delete { key })?
            }
            _ => {
                let (target, key, value, ttl) = member.make_value(open.record);
                target.submit(Request::Write { key, value, ttl })?
            }
        };
        let Some(ticket) = ticket else {
            return if self.open.is_empty() { Err(Failure::stuck()) } else { Ok(false) };
        };
        open.ticket = ticket;
        self.open.push(open);
        Ok(true)
    }

    /// Takes in operations that ended, waiting for one if told to.
    fn reap(&mut self, wait: bool) -> Instant {
        let Self { member, open, ended, .. } = self;
        let (verify, numbering) = (member.plan.verify, member.plan.numbering);
        let take = |ticket, result: Result<Option<&[u8]>, Failure>| {
            // The oldest come first, mostly: the search is short.
            let Some(position) = open.iter().position(|open| open.ticket == ticket) else { return };
            let open = open.remove(position);
            let verdict = match result {
                Ok(seen) if open.reads => judge(seen, numbering.record(open.record), verify),
                Ok(_) => Ok(()),
                Err(failure) => Err(failure),
            };
            ended.push((open, verdict));
        };
        let waited = if wait { member.target.wait(take) } else { member.target.poll(take) };
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
            match self.member.verdict(verdict) {
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
        self.member.record(open.kind, now.saturating_duration_since(open.began), self.phase);
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

//! Waiting: spin, sleep, and end what has had its time.

use super::Driver;
use crate::error::Error;
use crate::in_flight::{Machine, Op, Sink};
use crate::op::{Done, Input, Lock, LockGoal, Taken};
use crate::route::Way;
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{Spin, Wake};
use sidewire_common::limits::READ_DEPTH;
use std::time::Duration;

/// Longest sleep: an attachment that ended meanwhile is noticed after it at the latest.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Longest sleep while there is no server.
const GONE_PAUSE: Duration = Duration::from_millis(20);
/// How often the deadlines of submitted operations are looked at.
const DEADLINES_PERIOD: Duration = Duration::from_millis(1);
/// Longest sleep while submitted operations have deadlines.
const DEADLINES_SLEEP: Duration = Duration::from_millis(10);
/// Reads of given-up operations that are left in flight before the read endpoint is closed to get their buffers back.
const ORPHANS_MAX: usize = READ_DEPTH as usize / 2;

impl Driver {
    /// Brings an operation to its end.
    #[inline]
    pub fn run(&mut self, name: SlabKey) -> Result<Done, Error> {
        self.awaits(Some(name));
        self.turn();
        match self.take(name) {
            Some(result) => result,
            None => self.wait_for(name),
        }
    }

    pub fn wait_for(&mut self, name: SlabKey) -> Result<Done, Error> {
        self.awaits(Some(name));
        let mut spin = Spin::new(self.server.shared.spin);
        self.start_clocks(BootInstant::now());
        loop {
            if self.turn() {
                spin.busy();
            }
            if let Some(result) = self.take(name) {
                return result;
            }
            let now = BootInstant::now();
            let Some(left) = self.left_of(name, now) else {
                // What has ended waits for nothing more.
                if let Some(result) = self.take(name) {
                    return result;
                }
                continue;
            };
            if spin.idle() {
                self.sleep(now, left);
            }
        }
    }

    /// The time that an operation has left; `None` when it has none, and was ended.
    pub fn left_of(&mut self, name: SlabKey, now: BootInstant) -> Option<Duration> {
        let op = self.ops.find(name)?;
        let waited = now.since(*op.since.get_or_insert(now));
        let deadline = op.deadline;
        if waited >= deadline || self.fails_fast(name, now) {
            self.expire(name, waited);
            return None;
        }
        Some(deadline.saturating_sub(waited))
    }

    /// One wait on behalf of submitted operations: polls, spins for the set time, sleeps once, ends what is over.
    pub fn wait_some(&mut self) {
        self.awaits(None);
        let mut spin = Spin::new(self.server.shared.spin);
        while !self.turn() && self.finished.is_empty() {
            let now = BootInstant::now();
            self.look_at_deadlines(now);
            if spin.idle() {
                self.sleep(now, DEADLINES_SLEEP);
                return;
            }
        }
    }

    /// A server that has been gone for longer than the call may take will hardly be back in time: one more attempt
    /// to attach, begun after the call, decides.
    fn fails_fast(&mut self, name: SlabKey, now: BootInstant) -> bool {
        if self.alive {
            return false;
        }
        let shared = &self.server.shared;
        if shared.is_stopping() {
            return true;
        }
        let (Some(gone), Some(op)) = (shared.gone(), self.ops.find(name)) else { return false };
        if now.since(gone.since) <= op.deadline {
            return false;
        }
        match op.attempts_before {
            // The attempt that was under way when the call came does not count.
            Some(before) => gone.attempts > before + 1,
            None => {
                op.attempts_before = Some(gone.attempts);
                shared.hurry();
                false
            }
        }
    }

    /// Sleeps until something has come, a paused operation is due, or `limit` is over. True when it was woken by hand.
    pub fn sleep(&mut self, now: BootInstant, limit: Duration) -> bool {
        if !self.alive {
            self.wait_for_a_life(now, limit.min(GONE_PAUSE));
            return false;
        }
        let due = self.delayed.iter().map(|(at, _)| at.since(now)).min().unwrap_or(SLEEP_MAX);
        let mut pause = limit.min(SLEEP_MAX).min(due);
        if self.reader.is_closed() || self.writers.iter().any(|w| w.broken || w.books.has_busy()) {
            pause = pause.min(DEADLINES_PERIOD);
        }
        if pause.is_zero() {
            return false;
        }
        match self.port.sleep(pause) {
            Ok(wake) => wake == Wake::Woken,
            Err(error) => {
                tracing::warn!(%error, "the port cannot sleep");
                sidewire_common::host::sleep(pause);
                false
            }
        }
    }

    /// Sleeps while the session is bound to no attachment: until there is one, then until it may try to move again.
    fn wait_for_a_life(&mut self, now: BootInstant, limit: Duration) {
        self.server.shared.hurry();
        if self.server.shared.wait_attached(limit) {
            // There is one, and the last attempt to move to it has failed.
            sidewire_common::host::sleep(self.move_at.since(now).min(limit));
        }
    }

    /// Resumes paused operations that are due.
    pub(super) fn wake_delayed(&mut self) {
        let now = BootInstant::now();
        let mut at = 0;
        while at < self.delayed.len() {
            if self.delayed[at].0 <= now {
                let (_, name) = self.delayed.swap_remove(at);
                if let Some(op) = self.ops.find(name)
                    && std::mem::take(&mut op.paused)
                    && !op.restart
                {
                    self.events.push_back((name, Input::Resume));
                }
            } else {
                at += 1;
            }
        }
    }

    /// Ends submitted operations whose time is over; and does what is to be done now and then.
    pub fn look_at_deadlines(&mut self, now: BootInstant) {
        if now < self.deadlines_at {
            return;
        }
        self.deadlines_at = now.plus(DEADLINES_PERIOD);
        self.start_clocks(now);
        let waited = |op: &Op| now.since(op.since.unwrap_or(now));
        let is_late = |op: &Op| matches!(op.sink, Sink::Submitted(_)) && op.result.is_none() && waited(op) >= op.deadline;
        // Names are gathered only when there is somebody to be told.
        if !self.ops.values().any(is_late) {
            return;
        }
        for name in self.ops.keys() {
            if let Some(waited) = self.ops.get(name).filter(|op| is_late(op)).map(waited) {
                self.expire(name, waited);
            }
        }
    }

    /// The operation's time is over. What it has posted stays the fabric's until it comes back.
    pub(super) fn expire(&mut self, name: SlabKey, waited: Duration) {
        let Some(op) = self.ops.find(name) else { return };
        let lane = if op.queued { &self.writers[self.attached.terms.worker_of(op.hash)].lane } else { &self.reader };
        let refusal = lane.refusal().map(str::to_owned);
        let sent = op.request.take();
        let operation = op.machine.name();
        let lapsed = !self.attached.lease.valid_at(BootInstant::now());
        let error = match &mut op.machine {
            machine if sent.is_some() && machine.written().is_some() => Error::Indeterminate { operation },
            Machine::Counter(m) if m.may_have_counted() && op.posted > 0 => Error::Indeterminate { operation },
            Machine::Write(m) if m.is_busy() => Error::Busy,
            Machine::Large(m) if m.is_busy() => Error::Busy,
            _ if !self.alive => self.server.shared.gone_error(),
            _ if lapsed => Error::LeaseLapsed,
            machine => match refusal {
                Some(reason) => Error::Control { server: self.server.shared.server().into(), reason },
                None => Error::Deadline { operation, after: waited, seen: machine.seen() },
            },
        };
        let must_run = match &mut op.machine {
            Machine::Lock(m) => m.abandon(),
            _ => false,
        };
        if let Some((worker, sequence)) = sent
            && let Some(slot) = self.writers.get_mut(worker as usize)
        {
            slot.books.forget(sequence);
        }
        self.finish(name, Err(error));
        if must_run && let Some(op) = self.ops.find(name) {
            // A swap is in flight: should it take the lock, it must give it back.
            op.must_run = true;
        }
        if self.posted.len() > ORPHANS_MAX {
            self.close_if_orphaned();
        }
    }

    fn close_if_orphaned(&mut self) {
        let orphans = self.posted.keys().into_iter().filter(|name| {
            let op = self.posted.find(*name).and_then(|p| p.as_ref()).map(|p| p.op);
            op.and_then(|op| self.ops.find(op)).is_some_and(|op| op.has_ended() && !op.must_run)
        });
        if orphans.count() > ORPHANS_MAX {
            tracing::warn!("too many reads of given-up calls are in flight; the read endpoint is opened anew");
            self.break_reader();
        }
    }
}

impl Driver {
    /// Gives a lock back as soon as no write that carries its token is open; nobody waits for it.
    pub fn unlock_later(&mut self, key: &[u8], taken: Taken, way: Way) {
        self.unlocks.push((key.to_vec(), taken, way));
    }

    /// Gives back the locks whose writes have ended.
    pub(super) fn unlock_now(&mut self) {
        for (key, taken, way) in std::mem::take(&mut self.unlocks) {
            if self.carries(taken.word.token()) {
                self.unlocks.push((key, taken, way));
                continue;
            }
            let Ok((name, op)) = self.slot(&key, way, self.server.shared.deadline, Sink::Nobody) else { continue };
            op.machine = Machine::Lock(Lock::new(LockGoal::GiveBack(taken)));
            op.must_run = true;
            self.feed(name, Input::Resume);
        }
    }
}

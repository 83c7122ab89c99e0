//! Turning all drivers, sleeping, and ending what has had its time.

use super::hall::Cause;
use super::{Cluster, HALL, Router, Ticket};
use crate::error::Error;
use crate::op::Done;
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{Spin, Waker};
use sidewire_common::host;
use std::time::Duration;

/// Sleeps while several drivers are busy: what comes to the others is seen after one at the latest.
pub(super) const NAP_FIRST: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);
/// Longest time for which opening an endpoint may hold up the operations of other drivers.
const OPEN_BESIDE_OTHERS: Duration = Duration::from_millis(100);
/// Longest wait on behalf of submitted operations.
const SUBMITTED_SLEEP: Duration = Duration::from_millis(10);

impl Router {
    /// Brings an operation to its end.
    #[inline]
    pub fn run(&mut self, ticket: Ticket) -> Result<Done, Error> {
        let is_alone = self.cluster.is_none();
        if let Some(driver) = self.driver_at(ticket.seat) {
            driver.awaits(Some(ticket.name));
            driver.turn();
            match driver.take(ticket.name) {
                Some(result) => return result,
                None if is_alone => return driver.wait_for(ticket.name),
                None => {}
            }
        }
        self.wait_for(ticket)
    }

    /// A call waits for this operation, and for nothing else at any driver.
    fn await_call(&mut self, ticket: Ticket) {
        for (at, seat) in self.seats.iter_mut().enumerate() {
            let name = if at as u32 == ticket.seat { ticket.name } else { SlabKey::NOBODY };
            seat.iter_mut().for_each(|seat| seat.driver.awaits(Some(name)));
        }
    }

    fn wait_for(&mut self, mut ticket: Ticket) -> Result<Done, Error> {
        let mut spin = Spin::new(self.client.spin);
        let now = BootInstant::now();
        self.drivers().for_each(|driver| driver.start_clocks(now));
        loop {
            self.await_call(ticket);
            if self.turn() {
                spin.busy();
            }
            ticket = self.whereabouts(ticket);
            if let Some(result) = self.take(ticket) {
                return result;
            }
            let now = BootInstant::now();
            let mut left = SUBMITTED_SLEEP;
            if ticket.seat != HALL {
                let Some(driver) = self.driver_at(ticket.seat) else { return Err(Error::Full) };
                match driver.left_of(ticket.name, now) {
                    Some(time) => left = time,
                    None => continue,
                }
            }
            if spin.idle() {
                self.sleep(now, left);
            }
        }
    }

    /// One round of all drivers that have something to do, and of the hall. True when anything has come.
    #[inline]
    pub fn turn(&mut self) -> bool {
        if self.cluster.is_some() {
            return self.turn_all();
        }
        self.drivers().fold(false, |came, driver| driver.turn() | came)
    }

    fn turn_all(&mut self) -> bool {
        let Some(cluster) = &mut self.cluster else { return false };
        if cluster.members.map.epoch() != cluster.map.epoch {
            self.follow_map();
        }
        self.share_patience();
        let mut came = false;
        for driver in self.drivers().filter(|driver| !driver.is_idle()) {
            came |= driver.turn();
        }
        self.collect_emigrants();
        came |= self.look_after_hall();
        if came && let Some(cluster) = &mut self.cluster {
            cluster.nap = NAP_FIRST;
        }
        came
    }

    /// A driver that blocks holds up all others of its session.
    fn share_patience(&mut self) {
        let busy = self.drivers().filter(|driver| !driver.is_idle()).count();
        if busy > 1 {
            self.drivers().for_each(|driver| driver.set_patience(Some(OPEN_BESIDE_OTHERS)));
        } else {
            self.drivers().for_each(|driver| driver.set_patience(None));
        }
    }

    /// How long opening another driver may take now.
    pub(super) fn may_block(&mut self) -> Option<Duration> {
        let mut least = None;
        for driver in self.drivers().filter(|driver| !driver.is_idle()) {
            let limit = driver.may_block()?.min(OPEN_BESIDE_OTHERS);
            least = Some(least.map_or(limit, |least: Duration| least.min(limit)));
        }
        Some(least.unwrap_or(Duration::from_secs(1)))
    }

    /// Sleeps until something has come to the one driver that is busy; when there are several, for a nap. Gives the
    /// driver that it sleeps on.
    pub fn sleep(&mut self, now: BootInstant, limit: Duration) {
        let seat = self.sleeps_on();
        let Some(cluster) = &mut self.cluster else {
            if let Some(driver) = self.drivers().next() {
                driver.sleep(now, limit);
            }
            return;
        };
        let nap = cluster.nap;
        let hall = !cluster.hall.is_empty();
        let busy = self.drivers().filter(|driver| !driver.is_idle()).count();
        let alone = !hall && busy <= 1;
        let pause = if alone { limit } else { limit.min(nap) };
        match self.driver_at(seat) {
            Some(driver) if driver.is_alive() => {
                driver.sleep(now, pause);
                if driver.is_idle() {
                    // Nobody else turns it: what has come to it must not keep the session awake.
                    driver.turn();
                }
            }
            _ => host::sleep(pause.min(NAP_MAX)),
        }
        if !alone && let Some(cluster) = &mut self.cluster {
            cluster.nap = (nap * 2).min(NAP_MAX);
        }
    }

    /// The seat of the driver that a sleep waits for: one that is busy, else the first.
    fn sleeps_on(&mut self) -> u32 {
        let drivers = || self.seats.iter().enumerate().filter_map(|(at, seat)| Some((at, seat.as_ref()?)));
        let busy = drivers().find(|(_, seat)| !seat.driver.is_idle() && seat.driver.is_alive());
        busy.or_else(|| drivers().find(|(_, seat)| seat.driver.is_alive())).map_or(HALL, |(at, _)| at as u32)
    }

    /// Wakes the session's next sleep; `None` when it sleeps in naps.
    pub fn waker(&mut self) -> Option<Waker> {
        let seat = self.sleeps_on();
        self.driver_at(seat).map(|driver| driver.waker())
    }

    /// One wait on behalf of submitted operations: polls, spins for the set time, sleeps once, ends what is over.
    pub fn wait_some(&mut self) {
        if self.cluster.is_none()
            && let Some(driver) = self.drivers().next()
        {
            return driver.wait_some();
        }
        self.drivers().for_each(|driver| driver.awaits(None));
        let mut spin = Spin::new(self.client.spin);
        while !self.turn() && !self.has_finished() {
            let now = BootInstant::now();
            self.look_at_deadlines(now);
            if spin.idle() {
                return self.sleep(now, SUBMITTED_SLEEP);
            }
        }
    }

    /// One turn on behalf of submitted operations: whatever ends counts, not the call before.
    pub fn poll_some(&mut self) {
        self.drivers().for_each(|driver| driver.awaits(None));
        self.turn();
    }

    fn has_finished(&mut self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.hall.has_finished()) || self.drivers().any(|d| d.has_finished())
    }

    /// Ends submitted operations whose time is over.
    pub fn look_at_deadlines(&mut self, now: BootInstant) {
        self.drivers().for_each(|driver| driver.look_at_deadlines(now));
    }

    /// Waits until no write that carries this fencing token is open, at most for `limit`. False when one still is.
    pub fn settle_writes_of(&mut self, token: u64, limit: Duration) -> bool {
        let started = BootInstant::now();
        self.drivers().for_each(|driver| driver.awaits(Some(SlabKey::NOBODY)));
        let mut spin = Spin::new(self.client.spin);
        while self.carries(token) {
            if self.turn() {
                spin.busy();
                continue;
            }
            let now = BootInstant::now();
            let left = limit.saturating_sub(now.since(started));
            if left.is_zero() {
                return false;
            }
            if spin.idle() {
                self.sleep(now, left);
            }
        }
        true
    }
}

impl Cluster {
    /// A primary that has been gone for longer than the call may take will hardly be back or replaced in time: one more
    /// attempt to attach, begun after the call, decides.
    pub(super) fn fails_fast(&mut self, name: SlabKey, now: BootInstant) -> bool {
        let Some(op) = self.hall.find(name) else { return false };
        let was_refused = op.wander.as_ref().is_some_and(|w| matches!(w.last, Some((_, Cause::WrongPrimary(_)))));
        let Some((id, _)) = self.map.primary(op.hash.shard()).filter(|_| !was_refused) else { return false };
        let Some(server) = self.members.known(id) else { return false };
        if server.shared.is_stopping() {
            return true;
        }
        let Some(gone) = server.shared.gone().filter(|gone| now.since(gone.since) > op.deadline) else { return false };
        match op.attempts_before {
            // The attempt that was under way when the call came does not count.
            Some(before) => gone.attempts > before + 1,
            None => {
                op.attempts_before = Some(gone.attempts);
                server.shared.hurry();
                false
            }
        }
    }
}

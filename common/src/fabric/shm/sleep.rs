//! Sleeping until something happens, and what the sockets tell.

use super::call_failed;
use super::core::{Core, HUNG_UP, WAKER};
use super::endpoint::State;
use crate::fabric::{EndpointId, FabricError, Wake};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Longest single wait: short enough for every clock, long enough to cost nothing.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// A full ring is looked at again after this time, doubled up to [`STARVED_MAX`]: its consumer does not ring.
const STARVED_MIN: Duration = Duration::from_millis(1);
const STARVED_MAX: Duration = Duration::from_millis(32);

impl Core {
    pub(super) fn sleep(&mut self, timeout: Duration) -> Result<Wake, FabricError> {
        self.regions.renew();
        let deadline = Instant::now().checked_add(timeout);
        let mut starved_wait = STARVED_MIN;
        loop {
            self.arm();
            // Pairs with the fence of a producer: see `bell`.
            fence(Ordering::SeqCst);
            if self.anything() {
                self.disarm();
                return Ok(Wake::Ready);
            }
            let left = deadline.map_or(WAIT_MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            let slice = if self.starves() { left.min(starved_wait) } else { left.min(WAIT_MAX) };
            starved_wait = (starved_wait * 2).min(STARVED_MAX);
            let waited = self.wait(slice);
            self.disarm();
            let woken = waited?;
            self.regions.renew();
            if self.anything() {
                return Ok(Wake::Ready);
            }
            if woken {
                return Ok(Wake::Woken);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Wake::TimedOut);
            }
        }
    }

    fn arm(&mut self) {
        self.for_sleepers(super::bell::Sleeper::arm);
    }

    fn disarm(&mut self) {
        self.for_sleepers(super::bell::Sleeper::disarm);
    }

    /// A server's port has one word for all who come to it, and every port one for each server that it writes to.
    fn for_sleepers(&mut self, change: impl Fn(&mut super::bell::Sleeper)) {
        if let Some(sleeper) = &mut self.sleeper {
            change(sleeper);
        }
        for index in 0..self.receivers.len() {
            let slot = self.receivers[index];
            if let Some(sleeper) = self.in_slot(slot).and_then(|endpoint| endpoint.lanes.as_mut()?.sleeper.as_mut()) {
                change(sleeper);
            }
        }
    }

    /// Whether a poll or a post would get on now.
    fn anything(&mut self) -> bool {
        let mut something = !self.queue.is_empty();
        for index in 0..self.receivers.len() {
            let slot = self.receivers[index];
            let Some(endpoint) = self.in_slot(slot).filter(|endpoint| endpoint.state == State::Ready) else { continue };
            let waits = endpoint.lanes.as_ref().is_some_and(super::lanes::Lanes::waits);
            let freed = endpoint.starved && endpoint.room() > 0;
            if freed {
                endpoint.starved = false;
            }
            let suspect = endpoint.suspect.take();
            endpoint.suspect.set(suspect);
            something |= waits || freed || suspect.is_some() || endpoint.last_entries.is_some();
        }
        something
    }

    fn starves(&mut self) -> bool {
        (0..self.receivers.len()).any(|index| {
            let slot = self.receivers[index];
            self.in_slot(slot).is_some_and(|endpoint| endpoint.state == State::Ready && endpoint.starved)
        })
    }

    /// Waits for the sockets and the waker. True when the waker was used.
    fn wait(&mut self, slice: Duration) -> Result<bool, FabricError> {
        let slice = Timespec { tv_sec: slice.as_secs().cast_signed(), tv_nsec: slice.subsec_nanos().into() };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&slice)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(refused) => return Err(call_failed("epoll_wait", refused)),
        }
        let woken = self.events.iter().any(|event| event.data.u64() == WAKER);
        if woken {
            self.waker.clear();
        }
        self.hear_all();
        Ok(woken)
    }

    /// For a port that never sleeps.
    #[cold]
    pub(super) fn look_at_sockets(&mut self) {
        self.events.clear();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&now)).is_ok() {
            self.hear_all();
        }
    }

    fn hear_all(&mut self) {
        for index in 0..self.events.len() {
            let data = self.events[index].data.u64();
            if data != WAKER {
                // Ids were widened when they were entered.
                self.hear(EndpointId(data as u32));
            }
        }
    }

    fn hear(&mut self, id: EndpointId) {
        let Some(endpoint) = self.endpoint(id) else { return };
        if endpoint.hear() {
            return;
        }
        if let Some(socket) = endpoint.socket.take() {
            // Its descriptor is closed here, which also ends epoll's interest.
            drop(socket);
        }
        match endpoint.lanes.as_ref().filter(|_| endpoint.state == State::Ready) {
            Some(lanes) => endpoint.last_entries = Some(lanes.entries_in()),
            None => self.broken(id, HUNG_UP),
        }
    }
}

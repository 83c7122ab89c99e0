//! Layout epochs: what a session has in flight holds back the acknowledgement of later ones.
//!
//! | | |
//! | --- | --- |
//! | session, none in flight | pin := epoch, fence, read the epoch again; if it has changed, once more |
//! | session, last of an epoch ends | pin := epoch of the oldest still in flight, or idle |
//! | heartbeat, a later epoch was told | regions adopted → epoch := later, fence → acknowledged once no pin is older |
//!
//! With both fences either the heartbeat sees the pin or the session sees the later epoch.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};

/// No one-sided operation is in flight.
const IDLE: u64 = u64::MAX;

/// The epoch of the oldest one-sided operation that a session has in flight.
#[derive(Debug)]
pub(crate) struct Pin(AtomicU64);

/// The epoch that a client has reached, and the pins of its sessions.
#[derive(Debug)]
pub(crate) struct EpochGate {
    current: AtomicU64,
    pins: Mutex<Vec<Weak<Pin>>>,
}

impl EpochGate {
    /// At the epoch that the attach reply told.
    pub fn new(epoch: u64) -> Self {
        Self { current: AtomicU64::new(epoch), pins: Mutex::default() }
    }

    /// The epoch now.
    #[inline]
    pub fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Enters a later epoch: its regions are adopted. The heartbeat's thread alone calls it.
    pub fn enter(&self, epoch: u64) {
        self.current.store(epoch, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The latest epoch that may be acknowledged.
    pub fn reached(&self) -> u64 {
        fence(Ordering::SeqCst);
        let mut pins = self.pins.lock();
        pins.retain(|pin| pin.strong_count() > 0);
        let oldest = pins.iter().filter_map(Weak::upgrade).map(|pin| pin.0.load(Ordering::Acquire)).min();
        oldest.unwrap_or(IDLE).min(self.current())
    }

    /// A session's pins.
    pub fn session(self: &Arc<Self>) -> Pinned {
        let pin = Arc::new(Pin(AtomicU64::new(IDLE)));
        self.pins.lock().push(Arc::downgrade(&pin));
        Pinned { gate: Arc::clone(self), pin, groups: VecDeque::new() }
    }
}

/// What a session has in flight, by epoch.
#[derive(Debug)]
pub(crate) struct Pinned {
    gate: Arc<EpochGate>,
    pin: Arc<Pin>,
    /// Epochs and counts of operations, the oldest first.
    groups: VecDeque<(u64, u32)>,
}

impl Pinned {
    /// An operation begins; the epoch it is pinned to.
    #[inline]
    pub fn enter(&mut self) -> u64 {
        let mut epoch = self.gate.current();
        match self.groups.back_mut() {
            Some((latest, count)) if *latest == epoch => *count += 1,
            Some(_) => self.groups.push_back((epoch, 1)),
            None => {
                loop {
                    self.pin.0.store(epoch, Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    match self.gate.current() {
                        same if same == epoch => break,
                        later => epoch = later,
                    }
                }
                self.groups.push_back((epoch, 1));
            }
        }
        epoch
    }

    /// An operation of `epoch` has ended.
    #[inline]
    pub fn leave(&mut self, epoch: u64) {
        if let Some((_, count)) = self.groups.iter_mut().find(|(of, _)| *of == epoch) {
            *count -= 1;
        }
        while self.groups.front().is_some_and(|(_, count)| *count == 0) {
            self.groups.pop_front();
        }
        let oldest = self.groups.front().map_or(IDLE, |(epoch, _)| *epoch);
        self.pin.0.store(oldest, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_operations_hold_back_the_acknowledgement_and_idle_sessions_do_not() {
        let gate = Arc::new(EpochGate::new(4));
        let (mut busy, _idle) = (gate.session(), gate.session());
        assert_eq!(gate.reached(), 4);
        let first = busy.enter();
        gate.enter(6);
        assert_eq!((first, gate.reached()), (4, 4));
        let second = busy.enter();
        assert_eq!((second, gate.reached()), (6, 4));
        busy.leave(first);
        assert_eq!(gate.reached(), 6);
        gate.enter(7);
        assert_eq!(gate.reached(), 6);
        busy.leave(second);
        assert_eq!(gate.reached(), 7);
    }

    #[test]
    fn an_ended_session_holds_nothing_back() {
        let gate = Arc::new(EpochGate::new(1));
        let mut session = gate.session();
        session.enter();
        gate.enter(2);
        assert_eq!(gate.reached(), 1);
        drop(session);
        assert_eq!(gate.reached(), 2);
    }
}

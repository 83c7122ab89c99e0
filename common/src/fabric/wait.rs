//! Waiting: spin for a bounded time, then sleep.

use crate::clock::BootInstant;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// Completions may be there.
    Ready,
    /// The waker was used.
    Woken,
    /// The time is over.
    TimedOut,
}

/// Wakes one port from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Bell);

#[derive(Clone, Debug)]
enum Bell {
    Event(Arc<OwnedFd>),
    #[cfg(feature = "sim")]
    Simulated(super::sim::PortId),
}

impl Waker {
    /// A new eventfd.
    ///
    /// # Errors
    /// When the kernel has no descriptor to give.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Bell::Event(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))))
    }

    /// Of a port of a simulated world.
    #[cfg(feature = "sim")]
    pub(crate) fn simulated(port: super::sim::PortId) -> Self {
        Self(Bell::Simulated(port))
    }

    /// Ends the port's sleep, now or, if it is not asleep, the next one at once.
    pub fn wake(&self) {
        match &self.0 {
            // A full counter means that a wake-up is pending already.
            Bell::Event(event) => drop(rustix::io::write(event, &1u64.to_ne_bytes())),
            #[cfg(feature = "sim")]
            Bell::Simulated(port) => port.wake(),
        }
    }

    /// Forgets pending wake-ups.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(self.event(), &mut count);
    }
}

impl Waker {
    fn event(&self) -> &OwnedFd {
        match &self.0 {
            Bell::Event(event) => event,
            #[cfg(feature = "sim")]
            Bell::Simulated(_) => unreachable!("ports of a simulated world have no descriptors, and ask for none"),
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event().as_fd()
    }
}

/// How long a thread has been idle, against the time it may spin (`poll.spin_us`).
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    limit: Duration,
    idle_since: Option<BootInstant>,
}

impl Spin {
    /// Spins for at most `limit` without work.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, idle_since: None }
    }

    /// There was work: start counting anew.
    #[inline]
    pub fn busy(&mut self) {
        self.idle_since = None;
    }

    /// There was none. True when it is time to sleep.
    #[inline]
    pub fn idle(&mut self) -> bool {
        match self.idle_since {
            None => {
                self.idle_since = Some(BootInstant::now());
                self.limit.is_zero()
            }
            Some(since) => {
                std::hint::spin_loop();
                BootInstant::now().since(since) >= self.limit
            }
        }
    }
}

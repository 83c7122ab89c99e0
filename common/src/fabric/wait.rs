//! Waiting: spin for a bounded time, then sleep.

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A new eventfd.
    ///
    /// # Errors
    /// When the kernel has no descriptor to give.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Ends the port's sleep, now or, if it is not asleep, the next one at once.
    pub fn wake(&self) {
        // A full counter means that a wake-up is pending already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Forgets pending wake-ups.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How long a thread has been idle, against the time it may spin (`poll.spin_us`).
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    limit: Duration,
    idle_since: Option<Instant>,
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
                self.idle_since = Some(Instant::now());
                self.limit.is_zero()
            }
            Some(since) => {
                std::hint::spin_loop();
                since.elapsed() >= self.limit
            }
        }
    }
}

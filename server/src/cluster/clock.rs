//! The shard clock of a server that may take another's place.
//!
//! What a primary's clock has shown as over must never come back on its successor. So a server that hears a later
//! clock moves its own forward. Clients were told bounds of it that hold for a lease: a step that they do not allow
//! for is told as an error first, and made when every client's bounds include it.

use parking_lot::Mutex;
use sidewire_common::clock::{BootInstant, lease_margin};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Steps that a clock's usual error covers, ms.
const STEP_MAX: u64 = 1;
/// Largest step, ms: a clock that is further ahead than this is wrong.
const AHEAD_MAX: u64 = 24 * 3_600_000;

/// How far the clock is ahead of this host's.
#[derive(Debug, Default)]
pub struct ClockAhead {
    ahead_ms: AtomicU64,
    pending_ms: AtomicU32,
    due: Mutex<Option<BootInstant>>,
}

impl ClockAhead {
    /// What is added to the host's clock, ms.
    #[must_use]
    pub fn ahead_ms(&self) -> u64 {
        self.ahead_ms.load(Ordering::Acquire)
    }

    /// A step that was told and not made yet, ms.
    #[must_use]
    pub fn pending_ms(&self) -> u32 {
        self.pending_ms.load(Ordering::Acquire)
    }

    /// Makes a step that was told long enough. True when it was made just now.
    pub fn settle(&self) -> bool {
        let mut due = self.due.lock();
        let over = due.is_some_and(|at| BootInstant::now() >= at);
        if over {
            *due = None;
            self.ahead_ms.fetch_add(self.pending_ms.swap(0, Ordering::AcqRel).into(), Ordering::AcqRel);
        }
        over
    }

    /// Another server's clock showed `theirs_ms` when this one showed `ours_ms`.
    pub fn hear(&self, theirs_ms: u64, ours_ms: u64, lease: Duration) {
        if self.settle() {
            // The reading of this clock is older than the step.
            return;
        }
        let now = BootInstant::now();
        let mut due = self.due.lock();
        let step = theirs_ms.saturating_sub(ours_ms).min(AHEAD_MAX);
        if step <= STEP_MAX && due.is_none() {
            self.ahead_ms.fetch_add(step, Ordering::AcqRel);
        } else if step > u64::from(self.pending_ms()) {
            self.pending_ms.store(u32::try_from(step).unwrap_or(u32::MAX), Ordering::Release);
            *due = Some(now.plus(lease + lease_margin(lease)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_step_is_made_and_a_large_one_is_told_first() {
        let clock = ClockAhead::default();
        clock.hear(1001, 1000, Duration::from_millis(300));
        assert_eq!((clock.ahead_ms(), clock.pending_ms()), (1, 0));
        clock.hear(1000, 1001, Duration::from_millis(300));
        assert_eq!(clock.ahead_ms(), 1, "it never goes back");
        clock.hear(5000, 1001, Duration::ZERO);
        assert_eq!((clock.ahead_ms(), clock.pending_ms()), (1, 3999));
        std::thread::sleep(Duration::from_millis(15));
        clock.hear(5000, 1020, Duration::ZERO);
        assert_eq!((clock.ahead_ms(), clock.pending_ms()), (4000, 0));
    }
}

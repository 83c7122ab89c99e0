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
/// By how much more than the first reading the step may grow while it is told, ms, and as a part of it. A reading is late
/// by its way, so later ones show a little more; each would have to be told for a lease of its own otherwise.
const GROWTH: u64 = 16;
const GROWTH_PART: u64 = 8;

/// A step that was told and not made yet.
#[derive(Debug)]
struct Step {
    ms: u64,
    due: BootInstant,
}

/// How far the clock is ahead of this host's.
#[derive(Debug, Default)]
pub struct ClockAhead {
    ahead_ms: AtomicU64,
    told_ms: AtomicU32,
    step: Mutex<Option<Step>>,
}

impl ClockAhead {
    /// What is added to the host's clock, ms.
    #[must_use]
    pub fn ahead_ms(&self) -> u64 {
        self.ahead_ms.load(Ordering::Acquire)
    }

    /// The most that a step may be which was told and not made yet, ms; 0 without one.
    #[must_use]
    pub fn pending_ms(&self) -> u32 {
        self.told_ms.load(Ordering::Acquire)
    }

    /// Makes a step that was told long enough. True when it was made just now.
    pub fn settle(&self) -> bool {
        let mut step = self.step.lock();
        let Some(made) = step.take_if(|step| BootInstant::now() >= step.due) else { return false };
        // In this order: whoever reads the clock in between is told too large an error, never too small a one.
        self.ahead_ms.fetch_add(made.ms, Ordering::AcqRel);
        self.told_ms.store(0, Ordering::Release);
        true
    }

    /// Another server's clock showed `theirs_ms` when this one showed `ours_ms`.
    pub fn hear(&self, theirs_ms: u64, ours_ms: u64, lease: Duration) {
        if self.settle() {
            // The reading of this clock is older than the step.
            return;
        }
        let seen = theirs_ms.saturating_sub(ours_ms).min(AHEAD_MAX);
        let mut step = self.step.lock();
        match &mut *step {
            Some(step) => step.ms = step.ms.max(seen.min(self.pending_ms().into())),
            None if seen <= STEP_MAX => drop(self.ahead_ms.fetch_add(seen, Ordering::AcqRel)),
            None => {
                let told = seen + GROWTH + seen / GROWTH_PART;
                self.told_ms.store(u32::try_from(told).unwrap_or(u32::MAX), Ordering::Release);
                *step = Some(Step { ms: seen, due: BootInstant::now().plus(lease + lease_margin(lease)) });
            }
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
        clock.hear(5001, 1001, Duration::ZERO);
        assert_eq!((clock.ahead_ms(), clock.pending_ms()), (1, 4516));
        std::thread::sleep(Duration::from_millis(15));
        clock.hear(5001, 1020, Duration::ZERO);
        assert_eq!((clock.ahead_ms(), clock.pending_ms()), (4001, 0));
    }

    #[test]
    fn a_step_that_grows_is_not_told_anew() {
        let clock = ClockAhead::default();
        let lease = Duration::from_secs(3600);
        clock.hear(1100, 1000, lease);
        let due = clock.step.lock().as_ref().unwrap().due;
        for seen in [103, 90, 9999] {
            clock.hear(1000 + seen, 1000, lease);
        }
        let step = clock.step.lock();
        let step = step.as_ref().unwrap();
        assert_eq!((step.ms, step.due, clock.pending_ms()), (128, due, 128), "no more than was told, and when it was due");
    }
}

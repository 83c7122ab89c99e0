//! The shard clock of a server that may take another's place.
//!
//! What a primary's clock has shown as over must never come back on its successor. So a server that hears a later
//! clock moves its own forward. Clients were told bounds of it that hold for a lease: a step that they do not allow
//! for is told as an error first, and made when every client's bounds include it.

//!
//! Clocks are compared in microseconds. In whole milliseconds the one that turns first would be taken for a millisecond
//! ahead, the other would overtake it, and so on: both would run faster than time.

use parking_lot::Mutex;
use sidewire_common::clock::{BootInstant, lease_margin};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Steps that a clock's usual error covers, us.
const STEP_MAX: u64 = 1_000;
/// Largest step, us: a clock that is further ahead than this is wrong.
const AHEAD_MAX: u64 = 24 * 3_600_000_000;
/// By how much more than the first reading the step may grow while it is told, us, and as a part of it. A reading is late
/// by its way, so later ones show a little more; each would have to be told for a lease of its own otherwise.
const GROWTH: u64 = 16_000;
const GROWTH_PART: u64 = 8;

/// A step that was told and not made yet.
#[derive(Debug)]
struct Step {
    /// How far ahead of this host's clock it leads, us, and may lead.
    to: u64,
    most: u64,
    due: BootInstant,
}

/// How far the clock is ahead of this host's.
#[derive(Debug, Default)]
pub struct ClockAhead {
    ahead_us: AtomicU64,
    told_ms: AtomicU32,
    step: Mutex<Option<Step>>,
}

impl ClockAhead {
    /// What is added to the host's clock, us.
    #[must_use]
    pub fn ahead_us(&self) -> u64 {
        self.ahead_us.load(Ordering::Acquire)
    }

    /// The most that a step may be which was told and not made yet, ms; 0 without one.
    #[must_use]
    pub fn pending_ms(&self) -> u32 {
        self.told_ms.load(Ordering::Acquire)
    }

    /// Makes a step that was told long enough.
    pub fn settle(&self) {
        let mut step = self.step.lock();
        let Some(made) = step.take_if(|step| BootInstant::now() >= step.due) else { return };
        // In this order: whoever reads the clock in between is told too large an error, never too small a one.
        self.ahead_us.fetch_max(made.to, Ordering::AcqRel);
        self.told_ms.store(0, Ordering::Release);
    }

    /// Another server's clock showed `theirs_us` when this host's, without what is added, showed `host_us`.
    pub fn hear(&self, theirs_us: u64, host_us: u64, lease: Duration) {
        self.settle();
        let to = theirs_us.saturating_sub(host_us).min(AHEAD_MAX);
        let behind = to.saturating_sub(self.ahead_us());
        if behind == 0 {
            return;
        }
        let mut step = self.step.lock();
        match &mut *step {
            Some(step) => step.to = step.to.max(to.min(step.most)),
            None if behind <= STEP_MAX => drop(self.ahead_us.fetch_max(to, Ordering::AcqRel)),
            None => {
                let more = GROWTH + behind / GROWTH_PART;
                let told_ms = (behind + more).div_ceil(1_000);
                self.told_ms.store(u32::try_from(told_ms).unwrap_or(u32::MAX), Ordering::Release);
                *step = Some(Step { to, most: to + more, due: BootInstant::now().plus(lease + lease_margin(lease)) });
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
        clock.hear(1_000_900, 1_000_000, Duration::from_millis(300));
        assert_eq!((clock.ahead_us(), clock.pending_ms()), (900, 0));
        clock.hear(1_000_000, 1_000_800, Duration::from_millis(300));
        assert_eq!(clock.ahead_us(), 900, "it never goes back");
        clock.hear(5_000_900, 1_000_000, Duration::ZERO);
        assert_eq!((clock.ahead_us(), clock.pending_ms()), (900, 4_516));
        std::thread::sleep(Duration::from_millis(15));
        clock.hear(5_000_900, 1_020_000, Duration::ZERO);
        assert_eq!((clock.ahead_us(), clock.pending_ms()), (4_000_900, 0));
    }

    #[test]
    fn a_step_that_grows_is_not_told_anew() {
        let clock = ClockAhead::default();
        let lease = Duration::from_secs(3600);
        clock.hear(1_100_000, 1_000_000, lease);
        let due = clock.step.lock().as_ref().unwrap().due;
        for seen in [103_000, 90_000, 9_999_000] {
            clock.hear(1_000_000 + seen, 1_000_000, lease);
        }
        let step = clock.step.lock();
        let step = step.as_ref().unwrap();
        assert_eq!((step.to, step.due, clock.pending_ms()), (128_500, due, 129), "no more than was told, and when it was due");
    }

    /// Two servers that hear each other often, half a millisecond apart, and by several workers at once.
    #[test]
    fn clocks_that_hear_each_other_do_not_run_away() {
        const APART: u64 = 500;
        let (one, other) = (ClockAhead::default(), ClockAhead::default());
        for now in (1_000_000..2_000_000).step_by(7) {
            let (host, its_host) = (now, now + APART);
            let told = (host + one.ahead_us(), its_host + other.ahead_us());
            (0..2).for_each(|_| one.hear(told.1, host + 3, Duration::from_secs(3)));
            (0..2).for_each(|_| other.hear(told.0, its_host + 3, Duration::from_secs(3)));
        }
        assert!(one.ahead_us() <= APART && one.ahead_us() >= APART - 3, "{}", one.ahead_us());
        assert_eq!((other.ahead_us(), one.pending_ms(), other.pending_ms()), (0, 0, 0));
    }
}

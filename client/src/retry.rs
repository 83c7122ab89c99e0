//! How often and how soon something is tried again.

use sidewire_common::host;
use std::time::Duration;

/// Times that a Get looks into the index before it gives up; the deadline usually ends it sooner.
pub(crate) const ATTEMPTS_MAX: u32 = 1000;
/// Attempts that follow each other at once.
const ATTEMPTS_AT_ONCE: u32 = 4;
/// First pause between attempts of a Get.
const PAUSE_FIRST: Duration = Duration::from_micros(20);
/// Longest pause between attempts of a Get.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Pause before a Get's attempt `attempt` (from 0); zero means at once.
pub(crate) fn attempt_pause(attempt: u32) -> Duration {
    match attempt.checked_sub(ATTEMPTS_AT_ONCE) {
        None => Duration::ZERO,
        Some(n) => PAUSE_FIRST.saturating_mul(1 << n.min(16)).min(PAUSE_MAX),
    }
}

/// Pauses that double up to a cap, each shortened at random by up to half, so that many do not come at once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    cap: Duration,
}

impl Backoff {
    /// Begins at `first` and ends at `cap`.
    pub const fn new(first: Duration, cap: Duration) -> Self {
        Self { next: first, cap }
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let full = self.next.min(self.cap);
        self.next = full.saturating_mul(2);
        let nanos = u64::try_from(full.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos - host::random_in(0..=nanos / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_cap_and_never_to_zero() {
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(8));
        for full in [1u64, 2, 4, 8, 8, 8] {
            let pause = backoff.pause();
            assert!(pause <= Duration::from_millis(full) && pause >= Duration::from_micros(full * 500));
        }
        assert_eq!(attempt_pause(3), Duration::ZERO);
        assert_eq!(attempt_pause(4), PAUSE_FIRST);
        assert_eq!(attempt_pause(ATTEMPTS_MAX), PAUSE_MAX);
    }
}

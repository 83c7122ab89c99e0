//! The lease and the shard clock, as the client reckons them from heartbeats.

use sidewire_common::clock::{BootInstant, lease_margin};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Until when what is read from the server can be believed. Written by the heartbeat's thread alone.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    valid_until: AtomicU64,
}

impl Lease {
    /// A beat that was sent at `sent` has been answered.
    pub fn renewed(&self, sent: BootInstant, lease: Duration) {
        let until = sent.plus(lease.saturating_sub(lease_margin(lease)));
        self.valid_until.fetch_max(until.as_nanos(), Ordering::Release);
    }

    /// It is over, whatever was said before.
    pub fn end(&self) {
        self.valid_until.store(0, Ordering::Release);
    }

    /// Whether what had arrived before `now` can be believed.
    #[inline]
    pub fn valid_at(&self, now: BootInstant) -> bool {
        now.as_nanos() < self.valid_until.load(Ordering::Acquire)
    }

    /// How long it lasts from `now`.
    pub fn left(&self, now: BootInstant) -> Duration {
        BootInstant::from_nanos(self.valid_until.load(Ordering::Acquire)).since(now)
    }
}

/// What a record's expiry means now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    /// Surely not over; at least this many milliseconds are left.
    Live {
        /// Milliseconds.
        left_ms: u64,
    },
    /// Surely over.
    Over,
    /// Within the clock's error: the worker must tell.
    Unsure,
}

/// Bounds of the shard clock against `CLOCK_BOOTTIME`, ms. Each bound is right by itself, so that readers need
/// not see both of one beat.
#[derive(Debug)]
pub(crate) struct ShardClock {
    earliest: AtomicI64,
    latest: AtomicI64,
}

impl Default for ShardClock {
    fn default() -> Self {
        Self { earliest: AtomicI64::new(i64::MIN / 2), latest: AtomicI64::new(i64::MAX / 2) }
    }
}

impl ShardClock {
    /// The server said `clock_ms` give or take `error_ms` at some moment between `sent` and `received`; the bounds
    /// must hold for a lease.
    pub fn told(&self, clock_ms: u64, error_ms: u32, sent: BootInstant, received: BootInstant, lease: Duration) {
        let clock = i64::try_from(clock_ms).unwrap_or(i64::MAX / 4);
        let drift = i64::try_from(lease.as_millis() / 1000).unwrap_or(i64::MAX / 4) + 1;
        let off = i64::from(error_ms) + drift + 1;
        let at = |instant: BootInstant| i64::try_from(instant.as_millis()).unwrap_or(i64::MAX / 4);
        self.earliest.store(clock - at(received) - off, Ordering::Relaxed);
        self.latest.store(clock - at(sent) + off, Ordering::Relaxed);
    }

    /// What `expiry_ms` (not 0) means at `now`.
    pub fn judge(&self, expiry_ms: u64, now: BootInstant) -> Expiry {
        let expiry = i64::try_from(expiry_ms).unwrap_or(i64::MAX);
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX / 4);
        let latest = now.saturating_add(self.latest.load(Ordering::Relaxed));
        if expiry > latest {
            return Expiry::Live { left_ms: (expiry - latest).unsigned_abs() };
        }
        let earliest = now.saturating_add(self.earliest.load(Ordering::Relaxed));
        if expiry <= earliest { Expiry::Over } else { Expiry::Unsure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_lease_counts_from_the_sending_and_never_shrinks() {
        let lease = Lease::default();
        assert!(!lease.valid_at(BootInstant::from_nanos(1)));
        lease.renewed(BootInstant::from_nanos(10 * SECOND), Duration::from_secs(3));
        // 0.1 % of 3 s and 10 ms are taken off.
        let last = BootInstant::from_nanos(13 * SECOND - 13_000_001);
        assert!(lease.valid_at(last));
        assert!(!lease.valid_at(BootInstant::from_nanos(13 * SECOND - 13_000_000)));
        lease.renewed(BootInstant::from_nanos(9 * SECOND), Duration::from_secs(3));
        assert!(lease.valid_at(last), "a late answer to an earlier beat takes nothing away");
        lease.end();
        assert!(!lease.valid_at(BootInstant::from_nanos(10 * SECOND)));
        assert_eq!(lease.left(BootInstant::from_nanos(10 * SECOND)), Duration::ZERO);
    }

    #[test]
    fn expiry_is_sure_outside_the_band_only() {
        let clock = ShardClock::default();
        let at = |ms: u64| BootInstant::from_nanos(ms * 1_000_000);
        assert_eq!(clock.judge(5, at(1)), Expiry::Unsure, "nothing was told yet");
        clock.told(1_000_000, 2, at(500), at(510), Duration::from_secs(3));
        // Off by 2 + drift 4 + rounding 1 on each side, and 10 ms of travel.
        let now = at(600);
        assert_eq!(clock.judge(1_000_107, now), Expiry::Unsure);
        assert_eq!(clock.judge(1_000_108, now), Expiry::Live { left_ms: 1 });
        assert_eq!(clock.judge(1_000_084, now), Expiry::Unsure);
        assert_eq!(clock.judge(1_000_083, now), Expiry::Over);
    }
}

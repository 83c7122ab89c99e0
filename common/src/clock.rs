//! Clocks. Leases are counted on `CLOCK_BOOTTIME`, which goes on while a machine is suspended.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A moment on `CLOCK_BOOTTIME`, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BootInstant(u64);

impl BootInstant {
    /// Now.
    #[must_use]
    #[inline]
    pub fn now() -> Self {
        Self(crate::host::boot_nanos())
    }

    /// The moment `nanos` nanoseconds after boot.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since boot.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time since `earlier`, zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment plus `by`, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// CPU time used by the calling thread so far.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// How much a client's reckoning of its lease is shortened: 0.1 % drift of the lease and 10 ms.
#[must_use]
pub fn lease_margin(lease: Duration) -> Duration {
    lease / 1000 + Duration::from_millis(10)
}

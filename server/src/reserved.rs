//! Memory that long values take while they are being written, over all workers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bounded count of bytes.
#[derive(Debug)]
pub struct Reserved {
    bytes: AtomicU64,
    limit: u64,
}

impl Reserved {
    /// Nothing yet, and never more than `limit` bytes.
    #[must_use]
    pub fn up_to(limit: u64) -> Self {
        Self { bytes: AtomicU64::new(0), limit }
    }

    /// Bytes now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes at most.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Counts `bytes` more; false when that would be too much.
    #[must_use]
    pub fn take(&self, bytes: u64) -> bool {
        let more = |now: u64| now.checked_add(bytes).filter(|&sum| sum <= self.limit);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// They are stored by now, or free again.
    pub fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

//! Layout epochs: when memory that no checksum guards may be used again.
//!
//! What is retired carries the *next* epoch. The lease thread advances the epoch when somebody waits for it, tells
//! the clients, and records the epoch that all live ones have acknowledged: nothing older is in flight there,
//! and nothing from before is cached.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The epoch clock of a server.
#[derive(Debug)]
pub struct Epochs {
    current: AtomicU64,
    acknowledged: AtomicU64,
    acknowledged_for_cells: AtomicU64,
    wanted: AtomicBool,
}

impl Default for Epochs {
    fn default() -> Self {
        Self {
            current: AtomicU64::new(1),
            acknowledged: AtomicU64::new(1),
            acknowledged_for_cells: AtomicU64::new(1),
            wanted: AtomicBool::new(false),
        }
    }
}

impl Epochs {
    /// The layout epoch now.
    #[must_use]
    pub fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// The epoch after which something that was unpublished just now may be used again. Asks for an advance.
    #[must_use]
    pub fn retire(&self) -> u64 {
        // Unpublished before `current` is read: whoever acknowledges a later epoch cannot have seen it.
        std::sync::atomic::fence(Ordering::SeqCst);
        let after = self.current.load(Ordering::SeqCst) + 1;
        self.wanted.store(true, Ordering::SeqCst);
        after
    }

    /// Whether somebody waits for a later epoch.
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Begins the next epoch and returns it. The lease thread alone calls it.
    pub fn advance(&self) -> u64 {
        self.wanted.store(false, Ordering::SeqCst);
        self.current.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The epoch that every live client has acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Records it: the least over all live clients, or [`Epochs::current`] when there are none.
    pub fn set_acknowledged(&self, epoch: u64) {
        self.acknowledged.store(epoch, Ordering::Release);
    }

    /// Records the same for cells. On `shm` a swept client that is merely stopped can still touch cells when it
    /// wakes, so it counts here until its process has ended.
    pub fn set_acknowledged_for_cells(&self, epoch: u64) {
        self.acknowledged_for_cells.store(epoch, Ordering::Release);
    }

    /// Whether a cell that was retired with `epoch` may be used again.
    #[must_use]
    pub fn is_over_for_cells(&self, epoch: u64) -> bool {
        self.acknowledged_for_cells.load(Ordering::Acquire) >= epoch
    }

    /// Whether what was retired with `epoch` may be used again.
    #[must_use]
    pub fn is_over(&self, epoch: u64) -> bool {
        self.acknowledged() >= epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_retired_waits_for_a_later_epoch_of_all() {
        let epochs = Epochs::default();
        let after = epochs.retire();
        assert!(epochs.wanted());
        assert!(!epochs.is_over(after));
        let now = epochs.advance();
        assert!(now >= after && !epochs.wanted());
        assert!(!epochs.is_over(after), "advancing is not acknowledging");
        epochs.set_acknowledged(now);
        assert!(epochs.is_over(after));
    }
}

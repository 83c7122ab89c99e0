//! Keys whose time is over, soonest first.

use super::poll_loop::Worker;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::record::Version;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keys deleted in one turn, so that many that end together do not hold up writes.
const BATCH: usize = 64;

/// What expires when. An entry whose record was replaced meanwhile is skipped when its time comes.
#[derive(Default)]
pub(super) struct Expiries(BinaryHeap<Reverse<(u64, u64, u64)>>);

impl Expiries {
    pub(super) fn add(&mut self, expiry_ms: u64, hash: KeyHash, version: Version) {
        self.0.push(Reverse((expiry_ms, hash.raw(), version.raw())));
    }

    /// Time until the next one; `None` when nothing expires.
    pub(super) fn next_in(&self, clock_ms: u64) -> Option<Duration> {
        self.0.peek().map(|Reverse((expiry, ..))| Duration::from_millis(expiry.saturating_sub(clock_ms)))
    }

    fn pop_over(&mut self, clock_ms: u64) -> Option<(KeyHash, Version)> {
        self.0.peek().filter(|Reverse((expiry, ..))| *expiry <= clock_ms)?;
        let Reverse((_, hash, version)) = self.0.pop()?;
        Some((KeyHash::from_raw(hash), Version::from_raw(version)))
    }
}

impl Worker {
    /// Deletes keys whose time is over; true when there were some.
    pub(super) fn expire(&mut self) -> bool {
        if self.expiries.0.is_empty() {
            return false;
        }
        let clock = self.store.clock_ms();
        let mut any = false;
        for _ in 0..BATCH {
            let Some((hash, version)) = self.expiries.pop_over(clock) else { break };
            any = true;
            // A busy key is judged by its own write, which looks at the expiry too.
            if self.deferrals.is_busy(hash) {
                continue;
            }
            if let Some(found) = self.index.find_version(&mut self.memory, hash, version) {
                self.remove(&found);
                self.metrics.expired.fetch_add(1, Ordering::Relaxed);
            }
        }
        any
    }
}

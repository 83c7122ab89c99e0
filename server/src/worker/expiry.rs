//! Keys whose time is over, soonest first.

use super::poll_loop::Worker;
use crate::metrics::count;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::record::Version;
use std::collections::BTreeSet;
use std::time::Duration;

/// Keys deleted in one turn, so that many that end together do not hold up writes.
const BATCH: usize = 64;

/// What expires when: one entry for each record that has a time, and none for those that were replaced or deleted. A
/// client that writes one key again and again, each time with a long life, must not fill the memory.
#[derive(Default)]
pub(super) struct Expiries(BTreeSet<(u64, u64, u64)>);

impl Expiries {
    pub(super) fn add(&mut self, expiry_ms: u64, hash: KeyHash, version: Version) {
        self.0.insert((expiry_ms, hash.raw(), version.raw()));
    }

    /// A record is gone before its time.
    pub(super) fn forget(&mut self, expiry_ms: u64, hash: KeyHash, version: Version) {
        self.0.remove(&(expiry_ms, hash.raw(), version.raw()));
    }

    /// Time until the next one; `None` when nothing expires.
    pub(super) fn next_in(&self, clock_ms: u64) -> Option<Duration> {
        self.0.first().map(|(expiry, ..)| Duration::from_millis(expiry.saturating_sub(clock_ms)))
    }

    fn pop_over(&mut self, clock_ms: u64) -> Option<(KeyHash, Version)> {
        self.0.first().filter(|(expiry, ..)| *expiry <= clock_ms)?;
        let (_, hash, version) = self.0.pop_first()?;
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
            if self.replication.admits(hash.shard()).is_err() {
                // Its primary does it, or this one once it is open; what it finds then it enters anew.
                if self.replication.reign(hash.shard()).is_some() {
                    self.expiries.add(clock, hash, version);
                    break;
                }
                continue;
            }
            any = true;
            // A busy key is judged by its own write, which looks at the expiry too.
            if self.deferrals.is_busy(hash) {
                continue;
            }
            if let Some(found) = self.index.find_version(&mut self.memory, hash, version) {
                let key = self.key_at(found.location.place(), &found.header);
                self.remove(hash, &found);
                self.key_changed(hash.shard(), &key, &[]);
                count(&self.metrics.expired);
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replaced_leaves_nothing_behind() {
        let mut expiries = Expiries::default();
        let hash = KeyHash::from_raw(7);
        for counter in 1..=10_000 {
            expiries.add(1_000_000 + counter, hash, Version::new(1, counter));
            if counter > 1 {
                expiries.forget(1_000_000 + counter - 1, hash, Version::new(1, counter - 1));
            }
        }
        assert_eq!(expiries.0.len(), 1);
        assert_eq!(expiries.next_in(1_000_000), Some(Duration::from_millis(10_000)));
        assert_eq!(expiries.pop_over(1_010_000), Some((hash, Version::new(1, 10_000))));
        assert_eq!(expiries.next_in(0), None);
    }
}

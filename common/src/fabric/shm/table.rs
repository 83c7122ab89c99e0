//! Regions by rkey. One table per fabric; each port works on a snapshot of it.
//!
//! rkey, high to low: 0 (1 bit; staging rings have 1) | generation (11) | index (20). A generation is never
//! used twice, so an rkey names one region for the life of its host.

use super::FabricError;
use crate::memory::View;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MAX: u32 = (1 << (31 - INDEX_BITS)) - 1;
/// Set in the rkey of a staging ring, which is in no table.
pub(super) const STAGING_BIT: u32 = 1 << 31;

/// A region that work requests can reach.
#[derive(Clone)]
pub(super) struct Entry {
    rkey: u32,
    /// Its bytes.
    pub(super) view: View,
    /// Whether atomics are granted on it.
    pub(super) atomic: bool,
}

type Regions = Vec<Option<Entry>>;

/// The regions of a fabric.
pub(super) struct Table {
    /// Rises with every change.
    epoch: AtomicU64,
    /// Rises when all that was lent is lost.
    losses: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    regions: Arc<Regions>,
    generations: Vec<u32>,
    free: VecDeque<u32>,
}

impl Table {
    pub(super) fn new() -> Self {
        let inner = Inner { regions: Arc::default(), generations: Vec::new(), free: VecDeque::new() };
        Self { epoch: AtomicU64::new(0), losses: AtomicU64::new(0), inner: Mutex::new(inner) }
    }

    /// Host: adds a region under a new rkey.
    pub(super) fn add(&self, view: View, atomic: bool) -> Result<u32, FabricError> {
        let mut inner = self.inner.lock();
        let index = match inner.free.pop_front() {
            Some(index) => index,
            None => {
                let index = inner.generations.len() as u32;
                if index > INDEX_MASK {
                    return Err(FabricError::Limit {
                        what: "regions",
                        asked: u64::from(index) + 1,
                        limit: u64::from(INDEX_MASK) + 1,
                    });
                }
                inner.generations.push(0);
                index
            }
        };
        inner.generations[index as usize] += 1;
        let rkey = (inner.generations[index as usize] << INDEX_BITS) | index;
        self.put(&mut inner, Entry { rkey, view, atomic });
        Ok(rkey)
    }

    /// Host: ends a region. Its rkey is never used again.
    pub(super) fn end(&self, rkey: u32) {
        let mut inner = self.inner.lock();
        let index = rkey & INDEX_MASK;
        let held = inner.regions.get(index as usize).and_then(Option::as_ref);
        if held.is_none_or(|entry| entry.rkey != rkey) {
            return;
        }
        Arc::make_mut(&mut inner.regions)[index as usize] = None;
        if inner.generations.get(index as usize).is_some_and(|&used| used < GENERATION_MAX) {
            inner.free.push_back(index);
        }
        self.changed();
    }

    /// Guest: enters a region under the rkey its host gave it.
    pub(super) fn enter(&self, rkey: u32, view: View, atomic: bool) {
        self.put(&mut self.inner.lock(), Entry { rkey, view, atomic });
    }

    /// Guest: the host is gone, and so is all that it lent. Ports that still hold a snapshot hold no memory of
    /// the host any more, and notice it: see [`Snapshot::lost`].
    pub(super) fn clear(&self) {
        let mut inner = self.inner.lock();
        self.losses.fetch_add(1, Ordering::SeqCst);
        for region in inner.regions.iter().flatten() {
            if let Err(refused) = region.view.mapping().abandon() {
                tracing::warn!(error = %refused, "a lost region stays mapped until its ports are used or closed");
            }
        }
        inner.regions = Arc::default();
        self.changed();
    }

    /// The region that `rkey` names.
    pub(super) fn find(&self, rkey: u32) -> Option<Entry> {
        find(&self.inner.lock().regions, rkey).cloned()
    }

    fn put(&self, inner: &mut Inner, entry: Entry) {
        let index = (entry.rkey & INDEX_MASK) as usize;
        let regions = Arc::make_mut(&mut inner.regions);
        if regions.len() <= index {
            regions.resize(index + 1, None);
        }
        regions[index] = Some(entry);
        self.changed();
    }

    /// Called with the lock held.
    fn changed(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

#[inline]
fn find(regions: &Regions, rkey: u32) -> Option<&Entry> {
    regions.get((rkey & INDEX_MASK) as usize)?.as_ref().filter(|entry| entry.rkey == rkey)
}

/// A port's snapshot of its fabric's table. It keeps what it holds mapped until it is renewed.
pub(super) struct Snapshot {
    table: Arc<Table>,
    epoch: u64,
    losses: u64,
    regions: Arc<Regions>,
}

impl Snapshot {
    pub(super) fn new(table: Arc<Table>) -> Self {
        let mut snapshot = Self { table, epoch: 0, losses: 0, regions: Arc::default() };
        snapshot.take();
        snapshot
    }

    fn take(&mut self) {
        let inner = self.table.inner.lock();
        self.epoch = self.table.epoch.load(Ordering::Acquire);
        self.losses = self.table.losses.load(Ordering::Acquire);
        self.regions = Arc::clone(&inner.regions);
    }

    /// Takes a new one if the table has changed. One load when it has not.
    #[inline]
    pub(super) fn renew(&mut self) {
        if self.table.epoch.load(Ordering::Acquire) != self.epoch {
            self.take();
        }
    }

    /// Whether the snapshot's memory was lost. Asked after an access: the loss is told before any byte changes.
    #[inline]
    pub(super) fn lost(&self) -> bool {
        self.table.losses.load(Ordering::Relaxed) != self.losses
    }

    /// The region that `rkey` names.
    #[inline]
    pub(super) fn find(&self, rkey: u32) -> Option<&Entry> {
        find(&self.regions, rkey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Mapping;

    fn view() -> View {
        View::whole(Arc::new(Mapping::anonymous("table-test", 4096).unwrap()))
    }

    #[test]
    fn an_ended_rkey_is_never_used_again() {
        let table = Arc::new(Table::new());
        let mut seen = std::collections::HashSet::new();
        for _ in 0..3 * GENERATION_MAX {
            let rkey = table.add(view(), false).unwrap();
            assert!(rkey != 0 && rkey & STAGING_BIT == 0 && seen.insert(rkey));
            table.end(rkey);
            assert!(table.find(rkey).is_none());
        }
    }

    #[test]
    fn a_snapshot_follows_the_table() {
        let table = Arc::new(Table::new());
        let mut snapshot = Snapshot::new(Arc::clone(&table));
        let rkey = table.add(view(), true).unwrap();
        assert!(snapshot.find(rkey).is_none());
        snapshot.renew();
        assert!(snapshot.find(rkey).is_some_and(|entry| entry.atomic));
        let mapping = Arc::downgrade(snapshot.find(rkey).unwrap().view.mapping());
        snapshot.find(rkey).unwrap().view.store(0, 7).unwrap();
        assert!(!snapshot.lost());
        table.clear();
        // Still valid to look at, but what is there is not the host's.
        assert!(snapshot.lost());
        assert_eq!(snapshot.find(rkey).unwrap().view.load(0), Ok(0));
        snapshot.renew();
        assert!(!snapshot.lost() && snapshot.find(rkey).is_none() && mapping.upgrade().is_none());
    }
}

//! The directory of all shards, cached.
//!
//! ```text
//!   63       48 47              0
//!   epoch, low  directory entry      0 = not known
//! ```
//! An entry is used only in the layout epoch in which it was read: a later epoch may have retired its segment.
//! The epoch is part of the word, so that an entry stored late by another session can never be taken for new.
//! A shard's whole array is read when it is first needed, single lines of it afterwards. Entries are of one reign of
//! their shard: it may have left the server and come back since.

use parking_lot::Mutex;
use sidewire_common::cluster::Reign;
use sidewire_common::key::{KeyHash, SHARD_COUNT};
use sidewire_common::layout::directory::{DirectoryEntry, ENTRY_BYTES};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const EPOCH_SHIFT: u32 = 48;
const EPOCH_MASK: u64 = 0xffff;

/// What is known of a key's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// This is it.
    Entry(DirectoryEntry),
    /// The shard was never read: read all of it.
    Shard,
    /// This entry must be read anew.
    Stale,
}

struct Shard {
    /// Of which the entries are.
    reign: AtomicU32,
    /// Held while entries are stored: none of an earlier reign may follow those of a later one.
    storing: Mutex<()>,
    /// Whether all of it was read once.
    loaded: AtomicBool,
    entries: OnceLock<Box<[AtomicU64]>>,
}

impl Shard {
    fn new() -> Self {
        Self { reign: AtomicU32::new(0), storing: Mutex::new(()), loaded: AtomicBool::new(false), entries: OnceLock::new() }
    }

    /// Forgets what earlier reigns left. False when `reign` is itself an earlier one. The caller holds `storing`.
    fn enter(&self, reign: Reign) -> bool {
        let known = self.reign.load(Ordering::Relaxed);
        if known < reign {
            self.entries.get().into_iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
            self.loaded.store(false, Ordering::Relaxed);
            // Whoever sees this reign sees no entry of an earlier one.
            self.reign.store(reign, Ordering::Release);
        }
        known <= reign
    }
}

/// The cache; one for each attachment.
pub(crate) struct Directory {
    bits: u32,
    shards: Box<[Shard]>,
}

impl Directory {
    /// An empty one for shards of 2^`bits` entries.
    pub fn new(bits: u32) -> Self {
        Self { bits, shards: (0..SHARD_COUNT).map(|_| Shard::new()).collect() }
    }

    /// Directory bits of each shard.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    fn word(&self, hash: KeyHash) -> Option<&AtomicU64> {
        let entries = self.shards[hash.shard() as usize].entries.get()?;
        entries.get(hash.directory_index(self.bits) as usize)
    }

    /// The entry of a key, as of `epoch` and `reign`.
    #[inline]
    pub fn known(&self, hash: KeyHash, reign: Reign, epoch: u64) -> Known {
        if self.shards[hash.shard() as usize].reign.load(Ordering::Acquire) != reign {
            return Known::Shard;
        }
        let word = self.word(hash).map_or(0, |w| w.load(Ordering::Relaxed));
        if word != 0
            && word >> EPOCH_SHIFT == epoch & EPOCH_MASK
            && let Some(entry) = DirectoryEntry::from_raw(word & !(EPOCH_MASK << EPOCH_SHIFT))
        {
            return Known::Entry(entry);
        }
        let loaded = self.shards[hash.shard() as usize].loaded.load(Ordering::Relaxed);
        if loaded { Known::Stale } else { Known::Shard }
    }

    /// Entries of `shard` from `first` on, as they were read in `epoch` and `reign`.
    pub fn learned(&self, (shard, reign): (u32, Reign), first: u32, bytes: &[u8], epoch: u64) {
        let place = &self.shards[shard as usize];
        let _storing = place.storing.lock();
        if !place.enter(reign) {
            return;
        }
        let entries = place.entries.get_or_init(|| (0..1usize << self.bits).map(|_| AtomicU64::new(0)).collect());
        let words = bytes.as_chunks::<ENTRY_BYTES>().0;
        for (slot, word) in entries.iter().skip(first as usize).zip(words) {
            let entry = DirectoryEntry::from_raw(u64::from_le_bytes(*word));
            let tagged = entry.map_or(0, |e| e.raw() | (epoch & EPOCH_MASK) << EPOCH_SHIFT);
            slot.store(tagged, Ordering::Relaxed);
        }
    }

    /// All entries of `shard` were read in `reign`.
    pub fn shard_loaded(&self, shard: u32, reign: Reign) {
        let place = &self.shards[shard as usize];
        let _storing = place.storing.lock();
        if place.reign.load(Ordering::Relaxed) == reign {
            place.loaded.store(true, Ordering::Relaxed);
        }
    }

    /// A key's entry led to a segment that does not serve it.
    pub fn forget(&self, hash: KeyHash) {
        if let Some(word) = self.word(hash) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Called before an epoch is published: forgets everything each time the epoch's low bits come round, so that
    /// no entry of an earlier round can be taken for one of this.
    pub fn epoch_comes(&self, epoch: u64) {
        if epoch & (EPOCH_MASK >> 1) == 0 {
            for entries in self.shards.iter().filter_map(|s| s.entries.get()) {
                entries.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidewire_common::layout::location::Place;

    #[test]
    fn entries_serve_the_epoch_they_were_read_in() {
        let directory = Directory::new(4);
        let hash = KeyHash::from_raw(0x0350_0000_0000_0000);
        assert_eq!((hash.shard(), hash.directory_index(4)), (3, 5));
        assert_eq!(directory.known(hash, 0, 1), Known::Shard);
        let entry = DirectoryEntry::new(Place { chunk: 0, unit: 9 }, 10);
        let mut bytes = vec![0; 16 * ENTRY_BYTES];
        bytes[40..48].copy_from_slice(&entry.raw().to_le_bytes());
        directory.learned((3, 0), 0, &bytes, 1);
        directory.shard_loaded(3, 0);
        assert_eq!(directory.known(hash, 0, 1), Known::Entry(entry));
        assert_eq!(directory.known(hash, 0, 2), Known::Stale);
        directory.forget(hash);
        assert_eq!(directory.known(hash, 0, 1), Known::Stale);
        directory.learned((3, 0), 5, &entry.raw().to_le_bytes(), 1);
        assert_eq!(directory.known(hash, 0, 1), Known::Entry(entry));
        directory.epoch_comes(1 << 15);
        assert_eq!(directory.known(hash, 0, 1), Known::Stale);
    }

    #[test]
    fn a_shard_that_comes_back_meets_nothing_of_its_earlier_reign() {
        let directory = Directory::new(4);
        let hash = KeyHash::from_raw(0x0350_0000_0000_0000);
        let entry = |unit| DirectoryEntry::new(Place { chunk: 0, unit }, 10);
        let learn = |reign, unit| {
            directory.learned((3, reign), 5, &entry(unit).raw().to_le_bytes(), 1);
            directory.shard_loaded(3, reign);
        };
        learn(2, 9);
        assert_eq!(directory.known(hash, 2, 1), Known::Entry(entry(9)));
        assert_eq!(directory.known(hash, 4, 1), Known::Shard);
        learn(4, 11);
        // What was read in the earlier reign comes late.
        learn(2, 9);
        assert_eq!((directory.known(hash, 4, 1), directory.known(hash, 2, 1)), (Known::Entry(entry(11)), Known::Shard));
        assert_eq!(directory.known(KeyHash::from_raw(0x0370_0000_0000_0000), 4, 1), Known::Stale);
    }
}

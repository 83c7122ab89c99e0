//! The directory of all shards, cached.
//!
//! ```text
//!   63       48 47              0
//!   epoch, low  directory entry      0 = not known
//! ```
//! An entry is used only in the layout epoch in which it was read: a later epoch may have retired its segment.
//! The epoch is part of the word, so that an entry stored late by another session can never be taken for new.
//! A shard's whole array is read when it is first needed, single lines of it afterwards.

use sidewire_common::key::{KeyHash, SHARD_COUNT};
use sidewire_common::layout::directory::{DirectoryEntry, ENTRY_BYTES};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// Whether all of it was read once.
    loaded: AtomicBool,
    entries: OnceLock<Box<[AtomicU64]>>,
}

/// The cache; one for each attachment.
pub(crate) struct Directory {
    bits: u32,
    shards: Box<[Shard]>,
}

impl Directory {
    /// An empty one for shards of 2^`bits` entries.
    pub fn new(bits: u32) -> Self {
        let shard = |_| Shard { loaded: AtomicBool::new(false), entries: OnceLock::new() };
        Self { bits, shards: (0..SHARD_COUNT).map(shard).collect() }
    }

    /// Directory bits of each shard.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    fn word(&self, hash: KeyHash) -> Option<&AtomicU64> {
        let entries = self.shards[hash.shard() as usize].entries.get()?;
        entries.get(hash.directory_index(self.bits) as usize)
    }

    /// The entry of a key, as of `epoch`.
    #[inline]
    pub fn known(&self, hash: KeyHash, epoch: u64) -> Known {
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

    /// Entries of `shard` from `first` on, as they were read in `epoch`.
    pub fn learned(&self, shard: u32, first: u32, bytes: &[u8], epoch: u64) {
        let entries =
            self.shards[shard as usize].entries.get_or_init(|| (0..1usize << self.bits).map(|_| AtomicU64::new(0)).collect());
        let words = bytes.as_chunks::<ENTRY_BYTES>().0;
        for (slot, word) in entries.iter().skip(first as usize).zip(words) {
            let entry = DirectoryEntry::from_raw(u64::from_le_bytes(*word));
            let tagged = entry.map_or(0, |e| e.raw() | (epoch & EPOCH_MASK) << EPOCH_SHIFT);
            slot.store(tagged, Ordering::Relaxed);
        }
    }

    /// All entries of `shard` were read.
    pub fn shard_loaded(&self, shard: u32) {
        self.shards[shard as usize].loaded.store(true, Ordering::Relaxed);
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
        assert_eq!(directory.known(hash, 1), Known::Shard);
        let entry = DirectoryEntry::new(Place { chunk: 0, unit: 9 }, 10);
        let mut bytes = vec![0; 16 * ENTRY_BYTES];
        bytes[40..48].copy_from_slice(&entry.raw().to_le_bytes());
        directory.learned(3, 0, &bytes, 1);
        directory.shard_loaded(3);
        assert_eq!(directory.known(hash, 1), Known::Entry(entry));
        assert_eq!(directory.known(hash, 2), Known::Stale);
        directory.forget(hash);
        assert_eq!(directory.known(hash, 1), Known::Stale);
        directory.learned(3, 5, &entry.raw().to_le_bytes(), 1);
        assert_eq!(directory.known(hash, 1), Known::Entry(entry));
        directory.epoch_comes(1 << 15);
        assert_eq!(directory.known(hash, 1), Known::Stale);
    }
}

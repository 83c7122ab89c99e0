//! The index of a worker's shards: directories, and finding keys and vacant slots in segments.

use crate::store::Store;
use crate::worker::Memory;
use sidewire_common::key::{KeyHash, SHARD_BITS, SHARD_COUNT};
use sidewire_common::layout::bucket::{BUCKET_BYTES, BucketHeader, SLOTS, slot_offset};
use sidewire_common::layout::directory::{DirectoryEntry, entry_offset};
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::{Header, Version};
use sidewire_common::layout::segment::{BUCKETS, HOME_BUCKETS, OVERFLOW_BUCKETS, home_offset, overflow_offset};

/// A slot: a segment and the slot word's byte offset in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotAt {
    /// The segment.
    pub segment: Place,
    /// Offset of the slot's word.
    pub offset: u64,
}

/// A key that is there.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its slot.
    pub slot: SlotAt,
    /// What the slot says.
    pub location: Location,
    /// The record's header.
    pub header: Header,
}

/// The shards of one worker. Their directories lie in chunk 0, where clients read them; the worker keeps a copy.
pub struct Index {
    directories: Place,
    directory_bits: u32,
    /// By number; empty for a shard of another worker.
    shards: Vec<Vec<DirectoryEntry>>,
    scratch: Vec<u8>,
    /// Segments in use.
    pub(super) segments: u64,
    /// Segments split so far.
    pub(super) splits: u64,
}

impl Index {
    /// One segment for each shard of worker `worker`.
    ///
    /// # Errors
    /// When the first index chunk has no room for them, which start-up checks.
    pub fn new(store: &Store, memory: &mut Memory, worker: u32) -> Result<Self, crate::heap::HeapError> {
        let mut index = Self {
            directories: store.directories(),
            directory_bits: store.directory_bits(),
            shards: vec![Vec::new(); SHARD_COUNT as usize],
            scratch: Vec::new(),
            segments: 0,
            splits: 0,
        };
        for shard in (worker..SHARD_COUNT).step_by(store.settings().worker_count as usize) {
            let segment = store.pools().take_segment()?;
            index.blank_segment(memory, segment, BucketHeader::new(shard << (32 - SHARD_BITS), SHARD_BITS));
            index.shards[shard as usize] = vec![DirectoryEntry::new(segment, SHARD_BITS); 1 << index.directory_bits];
            for entry in 0..1 << index.directory_bits {
                index.publish_entry(memory, shard, entry);
            }
        }
        Ok(index)
    }

    /// Segments in use and splits so far.
    #[must_use]
    pub fn figures(&self) -> (u64, u64) {
        (self.segments, self.splits)
    }

    /// Shards, in rising order.
    #[must_use]
    pub fn shard_numbers(&self) -> Vec<u32> {
        (0..SHARD_COUNT).filter(|&shard| self.owns_shard(shard)).collect()
    }

    /// Directory bits of each shard.
    #[must_use]
    pub fn directory_bits(&self) -> u32 {
        self.directory_bits
    }

    /// The directory entry of a shard of this worker.
    #[must_use]
    pub fn entry(&self, shard: u32, index: u32) -> Option<DirectoryEntry> {
        self.shards.get(shard as usize)?.get(index as usize).copied()
    }

    /// Whether the shard is this worker's.
    #[must_use]
    pub fn owns(&self, hash: KeyHash) -> bool {
        self.owns_shard(hash.shard())
    }

    /// The same, by its number.
    #[must_use]
    pub fn owns_shard(&self, shard: u32) -> bool {
        self.shards.get(shard as usize).is_some_and(|directory| !directory.is_empty())
    }

    pub(super) fn entry_of(&self, hash: KeyHash) -> DirectoryEntry {
        self.shards[hash.shard() as usize][hash.directory_index(self.directory_bits) as usize]
    }

    pub(super) fn set_entry(&mut self, memory: &mut Memory, shard: u32, index: u32, entry: DirectoryEntry) {
        self.shards[shard as usize][index as usize] = entry;
        self.publish_entry(memory, shard, index);
    }

    fn publish_entry(&self, memory: &mut Memory, shard: u32, index: u32) {
        let word = self.shards[shard as usize][index as usize].raw();
        memory.publish(self.directories, entry_offset(shard, index, self.directory_bits), word);
    }

    /// Headers and empty slots of a segment that nobody knows yet.
    pub(super) fn blank_segment(&mut self, memory: &mut Memory, segment: Place, header: BucketHeader) {
        for bucket in 0..BUCKETS {
            let at = u64::from(bucket) * BUCKET_BYTES as u64;
            for slot in 0..SLOTS {
                memory.prepare(segment, at + slot_offset(slot) as u64, Location::EMPTY.raw());
            }
            memory.prepare(segment, at, header.raw());
        }
        self.segments += 1;
    }

    /// The home bucket of a hash, and its overflow bucket if it has one, as offsets in the segment.
    fn buckets(memory: &mut Memory, segment: Place, hash: KeyHash) -> (u64, Option<u64>) {
        let home = home_offset(hash.home_bucket());
        let header = BucketHeader::from_raw(memory.load(segment, home));
        (home, header.overflow().map(overflow_offset))
    }

    /// Asks for the bucket where a key of this hash would be, which is looked at soon.
    pub fn fetch_bucket(&self, memory: &mut Memory, hash: KeyHash) {
        memory.prefetch(self.entry_of(hash).segment(), home_offset(hash.home_bucket()));
    }

    /// Asks for the record that a slot of that bucket names for this hash.
    pub fn fetch_record(&self, memory: &mut Memory, hash: KeyHash) {
        let (segment, home) = (self.entry_of(hash).segment(), home_offset(hash.home_bucket()));
        let mut locations = (0..SLOTS).map(|slot| Location::from_raw(memory.load(segment, home + slot_offset(slot) as u64)));
        if let Some(location) = locations.find(|l| !l.is_empty() && l.fingerprint() == hash.fingerprint()) {
            memory.prefetch(location.place(), 0);
        }
    }

    /// Finds a key.
    pub fn find(&mut self, memory: &mut Memory, hash: KeyHash, key: &[u8]) -> Option<Found> {
        let segment = self.entry_of(hash).segment();
        let scratch = &mut self.scratch;
        Self::find_in(memory, segment, hash, |memory, place| memory.header_if(place, key, scratch))
    }

    /// Finds the record of this hash that has this version.
    pub fn find_version(&mut self, memory: &mut Memory, hash: KeyHash, version: Version) -> Option<Found> {
        let segment = self.entry_of(hash).segment();
        Self::find_in(memory, segment, hash, |memory, place| Some(memory.header(place)).filter(|h| h.version == version))
    }

    /// The first record with this hash's fingerprint whose header `wanted` gives.
    fn find_in(
        memory: &mut Memory,
        segment: Place,
        hash: KeyHash,
        mut wanted: impl FnMut(&mut Memory, Place) -> Option<Header>,
    ) -> Option<Found> {
        let (home, overflow) = Self::buckets(memory, segment, hash);
        for bucket in std::iter::once(home).chain(overflow) {
            for slot in 0..SLOTS {
                let offset = bucket + slot_offset(slot) as u64;
                let location = Location::from_raw(memory.load(segment, offset));
                if location.is_empty() || location.fingerprint() != hash.fingerprint() {
                    continue;
                }
                if let Some(header) = wanted(memory, location.place()) {
                    return Some(Found { slot: SlotAt { segment, offset }, location, header });
                }
            }
        }
        None
    }

    /// A vacant slot for a hash; `None` when the segment must be split first.
    pub(super) fn vacant(memory: &mut Memory, segment: Place, hash: KeyHash) -> Option<SlotAt> {
        let (home, overflow) = Self::buckets(memory, segment, hash);
        let free_slot = |memory: &mut Memory, bucket: u64| {
            let mut offsets = (0..SLOTS).map(|slot| bucket + slot_offset(slot) as u64);
            offsets.find(|&offset| memory.load(segment, offset) == Location::EMPTY.raw())
        };
        if let Some(offset) = free_slot(memory, home) {
            return Some(SlotAt { segment, offset });
        }
        let bucket = match overflow {
            Some(bucket) => bucket,
            None => Self::claim_overflow(memory, segment, home)?,
        };
        free_slot(memory, bucket).map(|offset| SlotAt { segment, offset })
    }

    /// Names an unused overflow bucket in the home bucket's header. It is empty, so no reader misses anything.
    fn claim_overflow(memory: &mut Memory, segment: Place, home: u64) -> Option<u64> {
        let mut taken = [false; OVERFLOW_BUCKETS as usize];
        for bucket in 0..HOME_BUCKETS {
            let header = BucketHeader::from_raw(memory.load(segment, home_offset(bucket)));
            if let Some(index) = header.overflow() {
                taken[index as usize] = true;
            }
        }
        let index = taken.iter().position(|taken| !taken)? as u32;
        let header = BucketHeader::from_raw(memory.load(segment, home));
        memory.publish(segment, home, header.with_overflow(index).raw());
        Some(overflow_offset(index))
    }
}

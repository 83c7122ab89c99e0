//! Splitting a segment.
//!
//! Order (design, invariant 5): both children built → every directory entry stored → *moved* in all headers of the
//! old segment → only then the next write. Nothing in between, and the old segment never changes again.

use super::Unmet;
use super::index::Index;
use crate::heap::HeapError;
use crate::pools::Pools;
use crate::worker::Memory;
use sidewire_common::key::{KeyHash, SHARD_BITS};
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::bucket::{BUCKET_BYTES, BucketHeader, SLOTS, slot_offset};
use sidewire_common::layout::directory::DirectoryEntry;
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::{HEADER_BYTES, Header};
use sidewire_common::layout::segment::BUCKETS;

impl Index {
    /// Splits the segment that serves `hash`.
    ///
    /// # Errors
    /// `IndexFull` when its depth uses all directory bits or the index pool is at its limit, `Busy` while the pool grows.
    pub(super) fn split(&mut self, memory: &mut Memory, pools: &Pools, hash: KeyHash, seed: u64) -> Result<(), Unmet> {
        let old = self.entry_of(hash);
        let depth = old.depth();
        let depth_max = SHARD_BITS + self.directory_bits();
        if depth >= depth_max {
            let figures = [self.segments, 1 << self.directory_bits()];
            return Err(Unmet { outcome: Outcome::IndexFull, detail: 0, figures });
        }
        let children = take_two(pools)?;
        self.build_children(memory, old, children, seed);
        self.publish_children(memory, hash, depth, children);
        mark_moved(memory, old.segment());
        pools.retire_segment(old.segment());
        self.segments -= 1;
        self.splits += 1;
        Ok(())
    }

    fn build_children(&mut self, memory: &mut Memory, old: DirectoryEntry, children: [Place; 2], seed: u64) {
        let depth = old.depth();
        let prefix = BucketHeader::from_raw(memory.load(old.segment(), 0)).prefix();
        for (side, child) in children.into_iter().enumerate() {
            let prefix = prefix | (side as u32) << (31 - depth);
            self.blank_segment(memory, child, BucketHeader::new(prefix, depth + 1));
        }
        for bucket in 0..BUCKETS {
            for slot in 0..SLOTS {
                let offset = u64::from(bucket) * BUCKET_BYTES as u64 + slot_offset(slot) as u64;
                let location = Location::from_raw(memory.load(old.segment(), offset));
                if location.is_empty() {
                    continue;
                }
                let hash = hash_of_record(memory, location.place(), seed);
                let side = hash.top32() >> (31 - depth) & 1;
                // A child gets a part of each bucket's keys, so it has room for them wherever its parent had.
                let vacant = Self::vacant(memory, children[side as usize], hash).expect("a child has room for its part");
                memory.prepare(vacant.segment, vacant.offset, location.raw());
            }
        }
    }

    fn publish_children(&mut self, memory: &mut Memory, hash: KeyHash, depth: u32, children: [Place; 2]) {
        let bits = self.directory_bits();
        // Entries that shared the old segment: those that agree with `hash` in the `depth` topmost bits.
        let width = 1u32 << (SHARD_BITS + bits - depth);
        let first = hash.directory_index(bits) & !(width - 1);
        for entry in first..first + width {
            let side = usize::from(entry - first >= width / 2);
            self.set_entry(memory, hash.shard(), entry, DirectoryEntry::new(children[side], depth + 1));
        }
    }
}

fn mark_moved(memory: &mut Memory, segment: Place) {
    for bucket in 0..BUCKETS {
        let at = u64::from(bucket) * BUCKET_BYTES as u64;
        let header = BucketHeader::from_raw(memory.load(segment, at));
        memory.publish(segment, at, header.moved().raw());
    }
}

fn take_two(pools: &Pools) -> Result<[Place; 2], Unmet> {
    let unmet = |error| match error {
        HeapError::Soon => Unmet::plain(Outcome::Busy),
        HeapError::Full { in_use, limit } => Unmet { outcome: Outcome::IndexFull, detail: 0, figures: [in_use, limit] },
    };
    let left = pools.take_segment().map_err(unmet)?;
    match pools.take_segment() {
        Ok(right) => Ok([left, right]),
        Err(error) => {
            pools.return_segment(left);
            Err(unmet(error))
        }
    }
}

fn hash_of_record(memory: &mut Memory, at: Place, seed: u64) -> KeyHash {
    let mut head = [0; HEADER_BYTES];
    memory.read(at, 0, &mut head);
    let mut key = [0; sidewire_common::limits::KEY_BYTES_MAX];
    let key = &mut key[..Header::read(&head).key_len as usize];
    memory.read(at, HEADER_BYTES as u64, key);
    KeyHash::of(key, seed)
}

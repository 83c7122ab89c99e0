//! Going through a shard in the order of its hashes, some of it at a time.

use super::super::ScanCursor;
use super::super::poll_loop::Worker;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::record::Header;

/// A key that was come by, its hash, and its record's header.
pub(super) type Walked = (KeyHash, Vec<u8>, Header);

/// Buckets gone through in one turn, for whatever reason.
pub(super) const BUCKETS_PER_TURN: usize = 64;

impl Worker {
    /// The beginning of a shard.
    pub(super) fn beginning_of(shard: u32) -> ScanCursor {
        ScanCursor { shard, ..ScanCursor::default() }
    }

    /// Keys of the bucket at a position, and the position after it; `None` behind the shard's end.
    pub(super) fn keys_at(&mut self, at: ScanCursor) -> (Vec<Walked>, Option<ScanCursor>) {
        let mut keys = Vec::new();
        for place in self.records_at(at) {
            let header = self.memory.header(place);
            let key = self.key_at(place, &header);
            keys.push((KeyHash::of(&key, self.store.hash_seed()), key, header));
        }
        let next = self.after(at);
        (keys, (next.shard == at.shard).then_some(next))
    }

    /// Forgets some of a shard; true when nothing is left.
    pub(super) fn empty_some(&mut self, shard: u32) -> bool {
        let state = self.replication.shards.entry(shard).or_default();
        let mut cursor = state.emptying.unwrap_or_else(|| Self::beginning_of(shard));
        for _ in 0..BUCKETS_PER_TURN {
            let (keys, next) = self.keys_at(cursor);
            for (hash, key, _) in keys {
                self.forget_key(hash, &key);
            }
            let Some(next) = next else {
                self.replication.shards.entry(shard).or_default().emptying = None;
                return true;
            };
            cursor = next;
        }
        self.replication.shards.entry(shard).or_default().emptying = Some(cursor);
        false
    }
}

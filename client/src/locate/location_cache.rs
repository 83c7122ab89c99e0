//! Locations of keys: a 4-way set-associative table of pairs of words.
//!
//! ```text
//!   word 0   the key's hash, told apart by the reign of its shard
//!   word 1   63    60 59    52 51                                   0
//!            level    skip     location without its fingerprint
//! ```
//! Words are stored one by one; a pair of two writers' words is harmless, since the record decides. So is an entry
//! of an earlier layout epoch: whatever lies there now, only a live record of that key *at that place* is believed.
//! An entry of another reign is none: a shard may have left the server and come back since, and what it left there
//! may look alive.
//!
//! A key that changes faster than it is read is not worth a guess: each time its location proves stale its *level*
//! rises, and it must be found through the index 2^level - 1 times (*skip*) before it is cached again.

use sidewire_common::cluster::Reign;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::bits::Field;
use sidewire_common::layout::location::{Location, SUCCESSOR_BITS};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const WAYS: usize = 4;
/// Sets in one lazily allocated page of 16 KiB.
const PAGE_SETS: usize = 256;
/// Most entries: 2^30.
const ENTRIES_MAX: usize = 1 << 30;

const PLACE: Field = Field::lowest(SUCCESSOR_BITS);
const SKIP: Field = PLACE.above(8);
const LEVEL: Field = SKIP.above(4);
const _: () = assert!(LEVEL.end() == 64);
/// Highest level: 2^6 - 1 searches through the index.
const LEVEL_MAX: u64 = 6;
const _: () = assert!((1 << LEVEL_MAX) - 1 <= SKIP.max() && LEVEL_MAX <= LEVEL.max());

#[derive(Default)]
#[repr(align(64))]
struct Set([[AtomicU64; 2]; WAYS]);

/// The table; one for each attachment.
pub(crate) struct LocationCache {
    pages: Box<[OnceLock<Box<[Set]>>]>,
    set_mask: u64,
}

impl LocationCache {
    /// A table of `entries` entries, rounded up to a power of two; 0 turns it off. Memory is taken as it is used.
    pub fn new(entries: usize) -> Self {
        if entries == 0 {
            return Self { pages: Box::default(), set_mask: 0 };
        }
        let sets = (entries.min(ENTRIES_MAX).next_power_of_two() / WAYS).max(1);
        let pages = sets.div_ceil(PAGE_SETS);
        Self { pages: (0..pages).map(|_| OnceLock::new()).collect(), set_mask: sets as u64 - 1 }
    }

    #[inline]
    fn set_at(&self, hash: KeyHash) -> (usize, usize) {
        // The middle of the hash: neither the shard at the top nor fingerprint and home bucket at the bottom.
        let set = ((hash.raw() >> 18) & self.set_mask) as usize;
        (set / PAGE_SETS, set % PAGE_SETS)
    }

    #[inline]
    fn known_set(&self, hash: KeyHash) -> Option<&Set> {
        let (page, at) = self.set_at(hash);
        self.pages.get(page)?.get()?.get(at)
    }

    #[inline]
    fn way(set: &Set, name: u64) -> Option<&AtomicU64> {
        set.0.iter().find(|way| way[0].load(Ordering::Relaxed) == name).map(|way| &way[1])
    }

    /// Where the key's record was, if that is worth a guess.
    #[inline]
    pub fn lookup(&self, hash: KeyHash, reign: Reign) -> Option<Location> {
        let word = Self::way(self.known_set(hash)?, name(hash, reign))?.load(Ordering::Relaxed);
        if SKIP.of(word) != 0 {
            return None;
        }
        let location = Location::from_successor_tag(PLACE.of(word), hash.fingerprint());
        (!location.is_empty()).then_some(location)
    }

    /// The key was found at `location`, through the index or by a write of this client.
    pub fn learned(&self, hash: KeyHash, reign: Reign, location: Location) {
        if self.pages.is_empty() || location.read_bytes().is_none() {
            return;
        }
        let (page, at) = self.set_at(hash);
        let page = self.pages[page].get_or_init(|| (0..PAGE_SETS).map(|_| Set::default()).collect());
        let (set, name) = (&page[at], name(hash, reign));
        let place = location.successor_tag();
        if let Some(slot) = Self::way(set, name) {
            let word = slot.load(Ordering::Relaxed);
            let skip = SKIP.of(word).saturating_sub(1);
            slot.store(LEVEL.put(LEVEL.of(word)) | SKIP.put(skip) | place, Ordering::Relaxed);
            return;
        }
        let empty = set.0.iter().position(|way| way[0].load(Ordering::Relaxed) == 0);
        let victim = empty.unwrap_or((location.place().unit as usize ^ (hash.raw() >> 60) as usize) % WAYS);
        // The name last: a reader that sees it sees a location of this key or of the entry's former key.
        set.0[victim][1].store(place, Ordering::Relaxed);
        set.0[victim][0].store(name, Ordering::Release);
    }

    /// The key was not where `lookup` said.
    pub fn proved_stale(&self, hash: KeyHash, reign: Reign) {
        let Some(slot) = self.known_set(hash).and_then(|set| Self::way(set, name(hash, reign))) else { return };
        let word = slot.load(Ordering::Relaxed);
        let level = (LEVEL.of(word) + 1).min(LEVEL_MAX);
        slot.store(LEVEL.put(level) | SKIP.put((1 << level) - 1) | PLACE.of(word), Ordering::Relaxed);
    }

    /// The key was where `lookup` said.
    #[inline]
    pub fn proved_good(&self, hash: KeyHash, reign: Reign) {
        let Some(slot) = self.known_set(hash).and_then(|set| Self::way(set, name(hash, reign))) else { return };
        let word = slot.load(Ordering::Relaxed);
        if LEVEL.of(word) != 0 {
            slot.store(LEVEL.put(LEVEL.of(word) - 1) | SKIP.put(SKIP.of(word)) | PLACE.of(word), Ordering::Relaxed);
        }
    }
}

/// Odd, so that no two reigns of a key have one name.
const REIGN_STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// What stands for a key in a reign; 0 is kept for empty entries.
#[inline]
fn name(hash: KeyHash, reign: Reign) -> u64 {
    (hash.raw() ^ u64::from(reign).wrapping_mul(REIGN_STRIDE)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sidewire_common::layout::location::Place;

    fn location(hash: KeyHash, unit: u32) -> Location {
        Location::new(hash.fingerprint(), 128, Place { chunk: 1, unit })
    }

    #[test]
    fn what_was_learned_is_found() {
        let cache = LocationCache::new(1 << 12);
        let hash = KeyHash::from_raw(0x1234_5678_9abc_def0);
        assert_eq!(cache.lookup(hash, 0), None);
        cache.learned(hash, 0, location(hash, 5));
        assert_eq!(cache.lookup(hash, 0), Some(location(hash, 5)));
    }

    #[test]
    fn a_shard_that_comes_back_meets_nothing_of_its_earlier_reign() {
        let cache = LocationCache::new(1 << 12);
        let hash = KeyHash::from_raw(0x1234_5678_9abc_def0);
        cache.learned(hash, 4, location(hash, 5));
        assert_eq!(cache.lookup(hash, 6), None);
        cache.learned(hash, 6, location(hash, 7));
        assert_eq!((cache.lookup(hash, 6), cache.lookup(hash, 5)), (Some(location(hash, 7)), None));
    }

    #[test]
    fn zero_entries_remember_nothing() {
        let cache = LocationCache::new(0);
        let hash = KeyHash::from_raw(7);
        cache.learned(hash, 0, location(hash, 5));
        cache.proved_stale(hash, 0);
        assert_eq!(cache.lookup(hash, 0), None);
    }

    #[test]
    fn a_key_that_changes_often_is_skipped_longer_and_longer() {
        let cache = LocationCache::new(64);
        let hash = KeyHash::from_raw(99 << 20);
        cache.learned(hash, 0, location(hash, 1));
        for level in 1..=LEVEL_MAX + 2 {
            cache.proved_stale(hash, 0);
            let mut searches = 0;
            while cache.lookup(hash, 0).is_none() {
                cache.learned(hash, 0, location(hash, 2));
                searches += 1;
            }
            assert_eq!(searches, (1 << level.min(LEVEL_MAX)) - 1);
        }
        for _ in 0..LEVEL_MAX {
            cache.proved_good(hash, 0);
        }
        cache.proved_stale(hash, 0);
        cache.learned(hash, 0, location(hash, 1));
        assert_eq!(cache.lookup(hash, 0), Some(location(hash, 1)), "a calm key is cached again at once");
    }

    proptest! {
        #[test]
        fn nothing_is_invented(hashes in proptest::collection::vec(any::<u64>(), 1..200)) {
            let cache = LocationCache::new(32);
            for (unit, raw) in hashes.iter().enumerate() {
                let hash = KeyHash::from_raw(*raw);
                cache.learned(hash, 0, location(hash, unit as u32));
                prop_assert_eq!(cache.lookup(hash, 0), Some(location(hash, unit as u32)));
            }
            for raw in &hashes {
                let hash = KeyHash::from_raw(*raw);
                if let Some(found) = cache.lookup(hash, 0) {
                    let unit = found.place().unit as usize;
                    prop_assert_eq!(hashes[unit], *raw);
                }
            }
        }
    }
}

//! Buckets: a header word and fifteen locations, 128 bytes.
//!
//! ```text
//!   header   63      32 31    24 23       16 15       1  0
//!            prefix     depth    overflow    reserved    moved
//! ```
//! `prefix` holds the topmost `depth` bits of every key's hash in the segment (shard and directory bits), left
//! aligned; a reader compares it with its key's hash. `overflow` is 0, or 1 + the index of the one overflow
//! bucket that serves this home bucket only.

use super::bits::Field;
use super::location::Location;
use super::segment::OVERFLOW_BUCKETS;
use super::wire::u64_at;
use crate::key::KeyHash;

/// Locations of a bucket.
pub const SLOTS: usize = 15;
/// Bytes of a bucket.
pub const BUCKET_BYTES: usize = 8 + SLOTS * 8;
const _: () = assert!(BUCKET_BYTES == 128);

const MOVED: Field = Field::lowest(1);
const RESERVED: Field = MOVED.above(15);
const OVERFLOW: Field = RESERVED.above(8);
const DEPTH: Field = OVERFLOW.above(8);
const PREFIX: Field = DEPTH.above(32);
const _: () = assert!(PREFIX.end() == 64);

/// Byte offset of slot `slot` in its bucket.
#[must_use]
#[inline]
pub const fn slot_offset(slot: usize) -> usize {
    assert!(slot < SLOTS);
    8 + slot * 8
}

/// A bucket's header word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketHeader(u64);

impl BucketHeader {
    /// The header of a bucket whose segment serves hashes that begin with the top `depth` bits of `prefix`.
    #[must_use]
    pub const fn new(prefix: u32, depth: u32) -> Self {
        Self(PREFIX.put((prefix & prefix_mask(depth)) as u64) | DEPTH.put(depth as u64))
    }

    /// From the word in memory.
    #[must_use]
    #[inline]
    pub const fn from_raw(word: u64) -> Self {
        Self(word)
    }

    /// The word in memory.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Bits of the prefix.
    #[must_use]
    #[inline]
    pub const fn depth(self) -> u32 {
        DEPTH.of(self.0) as u32
    }

    /// The prefix, left aligned.
    #[must_use]
    #[inline]
    pub const fn prefix(self) -> u32 {
        PREFIX.of(self.0) as u32
    }

    /// The same header, moved: the segment's keys are in its children now.
    #[must_use]
    pub const fn moved(self) -> Self {
        Self(self.0 | MOVED.put(1))
    }

    /// Whether the segment's keys are elsewhere now.
    #[must_use]
    #[inline]
    pub const fn is_moved(self) -> bool {
        MOVED.of(self.0) == 1
    }

    /// The same header, naming an overflow bucket.
    #[must_use]
    pub const fn with_overflow(self, index: u32) -> Self {
        assert!(index < OVERFLOW_BUCKETS);
        Self(OVERFLOW.cleared(self.0) | OVERFLOW.put(index as u64 + 1))
    }

    /// The overflow bucket that serves this home bucket. A number out of range means none.
    #[must_use]
    #[inline]
    pub const fn overflow(self) -> Option<u32> {
        match OVERFLOW.of(self.0) as u32 {
            n if n >= 1 && n <= OVERFLOW_BUCKETS => Some(n - 1),
            _ => None,
        }
    }

    /// Whether a key of this hash belongs into the segment and is still to be found there.
    #[must_use]
    #[inline]
    pub const fn serves(self, hash: KeyHash) -> bool {
        let depth = self.depth();
        depth > 0 && depth <= 32 && !self.is_moved() && hash.top32() & prefix_mask(depth) == self.prefix()
    }
}

const fn prefix_mask(depth: u32) -> u32 {
    if depth == 0 { 0 } else { u32::MAX << (32 - if depth > 32 { 32 } else { depth }) }
}

/// A bucket as it was read: words of possibly different moments.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<'a>(&'a [u8; BUCKET_BYTES]);

impl<'a> Bucket<'a> {
    /// Over bytes that were read.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8; BUCKET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its header.
    #[must_use]
    #[inline]
    pub fn header(self) -> BucketHeader {
        BucketHeader(u64_at(self.0, 0))
    }

    /// Slot `slot`.
    #[must_use]
    #[inline]
    pub fn slot(self, slot: usize) -> Location {
        Location::from_raw(u64_at(self.0, slot_offset(slot)))
    }

    /// Locations with this fingerprint.
    #[inline]
    pub fn matches(self, fingerprint: u16) -> impl Iterator<Item = Location> + 'a {
        (0..SLOTS).map(move |slot| self.slot(slot)).filter(move |l| !l.is_empty() && l.fingerprint() == fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_serves_its_prefix_until_it_moved() {
        let header = BucketHeader::new(0xab40_0000, 10);
        assert_eq!(header.raw(), 0xab40_0000_0a00_0000);
        assert!(header.serves(KeyHash::from_raw(0xab7f_ffff_ffff_ffff)));
        assert!(!header.serves(KeyHash::from_raw(0xab80_0000_0000_0000)));
        assert!(!header.moved().serves(KeyHash::from_raw(0xab7f_ffff_ffff_ffff)));
        assert_eq!(header.with_overflow(3).overflow(), Some(3));
        assert_eq!(header.overflow(), None);
        assert!(!BucketHeader::from_raw(0).serves(KeyHash::from_raw(0)), "zeroed memory serves nothing");
    }
}

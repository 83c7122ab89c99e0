//! Directories: per shard a fixed array of entries, indexed by the hash bits below the shard's. Nothing doubles.
//!
//! ```text
//!   63    48 47     40 39     26 25          0
//!   zero     depth     chunk     unit in chunk
//! ```
//! `depth` counts the shard's bits too, as in a bucket's header. A segment of depth d stands in
//! 2^(shard bits + directory bits - d) neighbouring entries.

use super::bits::Field;
use super::location::Place;

const PLACE: Field = Field::lowest(40);
const DEPTH: Field = PLACE.above(8);

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;
/// Fewest directory bits of a shard.
pub const DIRECTORY_BITS_MIN: u32 = 4;
/// Most directory bits of a shard: with the shard's bits they must fit a bucket's 32-bit prefix.
pub const DIRECTORY_BITS_MAX: u32 = 16;

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryEntry(u64);

impl DirectoryEntry {
    /// The entry of a segment.
    #[must_use]
    pub const fn new(segment: Place, depth: u32) -> Self {
        Self(PLACE.put(segment.pack()) | DEPTH.put(depth as u64))
    }

    /// From the word in memory. A depth of 0, which no segment has, means that there is none.
    #[must_use]
    #[inline]
    pub const fn from_raw(word: u64) -> Option<Self> {
        if DEPTH.of(word) == 0 || DEPTH.end() < 64 && word >> DEPTH.end() != 0 { None } else { Some(Self(word)) }
    }

    /// The word in memory.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Where the segment begins.
    #[must_use]
    #[inline]
    pub const fn segment(self) -> Place {
        Place::unpack(self.0)
    }

    /// Hash bits that all its keys share, the shard's included.
    #[must_use]
    #[inline]
    pub const fn depth(self) -> u32 {
        DEPTH.of(self.0) as u32
    }
}

/// Byte offset of an entry from the first entry of shard 0.
#[must_use]
#[inline]
pub const fn entry_offset(shard: u32, index: u32, directory_bits: u32) -> u64 {
    (((shard as u64) << directory_bits) + index as u64) * ENTRY_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let entry = DirectoryEntry::new(Place { chunk: 1, unit: 2 }, 9);
        assert_eq!(entry.raw(), 0x0000_0900_0400_0002);
        assert_eq!(DirectoryEntry::from_raw(entry.raw()), Some(entry));
        assert_eq!(DirectoryEntry::from_raw(0), None);
        assert_eq!(DirectoryEntry::from_raw(u64::MAX), None);
    }
}

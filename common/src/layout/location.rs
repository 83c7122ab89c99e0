//! Locations: where a record lies, in one word.
//!
//! ```text
//!   63        52 51         40 39       26 25            0
//!   fingerprint  length/64 B    chunk       unit in chunk
//! ```
//! Length 0 means an empty slot; 4095 means: longer than that, read the header first.

use super::bits::Field;
use super::record::UNIT_BYTES;
use crate::key::FINGERPRINT_BITS;

const UNIT: Field = Field::lowest(26);
const CHUNK: Field = UNIT.above(14);
const LENGTH: Field = CHUNK.above(12);
const FINGERPRINT: Field = LENGTH.above(FINGERPRINT_BITS);
const _: () = assert!(FINGERPRINT.end() == 64);

/// Bits of a location below its fingerprint.
pub const SUCCESSOR_BITS: u32 = LENGTH.end();
/// Length field of records that are longer than it can say.
pub const LENGTH_UNKNOWN: u32 = LENGTH.max() as u32;

/// A 64-byte unit of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The chunk, below [`CHUNKS_MAX`](crate::limits::CHUNKS_MAX).
    pub chunk: u16,
    /// The unit within it, below 2^26.
    pub unit: u32,
}

impl Place {
    /// The place packed in the low 40 bits of a word, as in a location.
    #[must_use]
    #[inline]
    pub const fn pack(self) -> u64 {
        CHUNK.put(self.chunk as u64) | UNIT.put(self.unit as u64)
    }

    /// The place in the low 40 bits of `word`.
    #[must_use]
    #[inline]
    pub const fn unpack(word: u64) -> Self {
        Self { chunk: CHUNK.of(word) as u16, unit: UNIT.of(word) as u32 }
    }

    /// Its byte offset in the chunk.
    #[must_use]
    #[inline]
    pub const fn offset(self) -> u64 {
        self.unit as u64 * UNIT_BYTES as u64
    }
}

/// A slot of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location(u64);

impl Location {
    /// An empty slot.
    pub const EMPTY: Self = Self(0);

    /// The location of a record of `record_bytes` bytes at `place`.
    #[must_use]
    #[inline]
    pub const fn new(fingerprint: u16, record_bytes: usize, place: Place) -> Self {
        let units = record_bytes.div_ceil(UNIT_BYTES) as u64;
        let length = if units < LENGTH_UNKNOWN as u64 { units } else { LENGTH_UNKNOWN as u64 };
        Self(FINGERPRINT.put(fingerprint as u64) | LENGTH.put(length) | place.pack())
    }

    /// From the word in memory; every word is some location.
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

    /// Whether the slot holds nothing.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        LENGTH.of(self.0) == 0
    }

    /// The fingerprint of the key it belongs to.
    #[must_use]
    #[inline]
    pub const fn fingerprint(self) -> u16 {
        FINGERPRINT.of(self.0) as u16
    }

    /// Where the record begins.
    #[must_use]
    #[inline]
    pub const fn place(self) -> Place {
        Place::unpack(self.0)
    }

    /// Bytes to read for the whole record, or `None` when the header must tell.
    #[must_use]
    #[inline]
    pub const fn read_bytes(self) -> Option<usize> {
        let units = LENGTH.of(self.0) as u32;
        if units == LENGTH_UNKNOWN { None } else { Some(units as usize * UNIT_BYTES) }
    }

    /// Everything but the fingerprint: what a superseded record's tag says of its successor.
    #[must_use]
    #[inline]
    pub const fn successor_tag(self) -> u64 {
        FINGERPRINT.cleared(self.0)
    }

    /// The location that a superseded record's tag means, with its predecessor's fingerprint.
    #[must_use]
    #[inline]
    pub const fn from_successor_tag(tag: u64, fingerprint: u16) -> Self {
        Self(FINGERPRINT.cleared(tag) | FINGERPRINT.put(fingerprint as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_fields_come_back(fingerprint in 0u16..1 << 12, units in 1usize..6000, chunk in 0u16..1 << 14, unit in 0u32..1 << 26) {
            let place = Place { chunk, unit };
            let location = Location::new(fingerprint, units * UNIT_BYTES, place);
            prop_assert_eq!(location.fingerprint(), fingerprint);
            prop_assert_eq!(location.place(), place);
            prop_assert!(!location.is_empty());
            prop_assert_eq!(location.read_bytes(), (units < 4095).then_some(units * UNIT_BYTES));
            prop_assert_eq!(Location::from_successor_tag(location.successor_tag(), fingerprint), location);
        }
    }

    #[test]
    fn golden() {
        let location = Location::new(0xabc, 128, Place { chunk: 3, unit: 5 });
        assert_eq!(location.raw(), 0xabc0_0200_0c00_0005);
    }
}

//! Records: header, key, value; 64-byte aligned.
//!
//! | at | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | state word |
//! | 8 | 8 | XXH3-64 of everything from 16 to the end of the value, seeded with the record's own place |
//! | 16 | 8 | version: reign 14 · counter 48 |
//! | 24 | 8 | expiry on the shard's clock, ms; 0 = none |
//! | 32 | 2 | key length |
//! | 34 | 1 | kind |
//! | 35 | 1 | flags: 1 = the value stands under the checksum by its [digest](super::digest) |
//! | 36 | 4 | value length |
//! | 40 | | key, value |
//!
//! The checksum stands before what it covers, so that it covers one run of bytes.
//! Only the state word changes once the body is written.

use super::bits::Field;
use super::digest::{checksum_by_digest, digest};
use super::location::{Location, Place, SUCCESSOR_BITS};
use super::wire::{put, u16_at, u32_at, u64_at};
use crate::limits::KEY_BYTES_MAX;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Records begin at multiples of this and are read in multiples of it.
pub const UNIT_BYTES: usize = 64;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 40;

const AT_STATE: usize = 0;
const AT_CHECKSUM: usize = AT_STATE + 8;
const AT_VERSION: usize = AT_CHECKSUM + 8;
const AT_EXPIRY: usize = AT_VERSION + 8;
const AT_KEY_LEN: usize = AT_EXPIRY + 8;
const AT_KIND: usize = AT_KEY_LEN + 2;
const AT_FLAGS: usize = AT_KIND + 1;
const AT_VALUE_LEN: usize = AT_FLAGS + 1;
const _: () = assert!(AT_VALUE_LEN + 4 == HEADER_BYTES);
/// Where what the checksum covers begins.
const AT_COVERED: usize = AT_VERSION;

const STATE_KIND: Field = Field::lowest(2);
const STATE_TAG: Field = STATE_KIND.above(62);
const COUNTER: Field = Field::lowest(48);
const REIGN: Field = COUNTER.above(14);
const _: () = assert!(REIGN.end() <= 62 && SUCCESSOR_BITS <= 62);

/// Flag of a record whose value stands under the checksum by its digest.
pub const FLAG_DIGEST: u8 = 1;

/// A record's version: unique in a server, rising in a shard. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Version(u64);

impl Version {
    /// The version of a reign and a counter.
    #[must_use]
    pub const fn new(reign: u16, counter: u64) -> Self {
        Self(REIGN.put(reign as u64) | COUNTER.put(counter))
    }

    /// The version with the same counter in another reign. Beyond 2^14 reigns all have the last one: counters rise on.
    #[must_use]
    pub fn in_reign(self, reign: u32) -> Self {
        Self::new(u64::from(reign).min(REIGN.max()) as u16, COUNTER.of(self.0))
    }

    /// The part that counts.
    #[must_use]
    pub const fn counter(self) -> u64 {
        COUNTER.of(self.0)
    }

    /// From 64 bits; those above the tag's width make it one that no record has.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// All 64 bits.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// What a record is to its readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Never believed. `replaces` is the version of the record it will replace, `None` for an insert.
    Pending {
        /// The version it will replace.
        replaces: Option<Version>,
    },
    /// The key's value, if the version under the checksum is the same.
    Live(Version),
    /// Another record took its place.
    Superseded {
        /// Location of that record, without fingerprint.
        successor: u64,
    },
    /// The key was deleted, if the version under the checksum is the same.
    Deleted(Version),
}

impl State {
    /// The word in memory.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        let (kind, tag) = match self {
            Self::Pending { replaces: None } => (0, 0),
            Self::Pending { replaces: Some(version) } => (0, version.raw()),
            Self::Live(version) => (1, version.raw()),
            Self::Superseded { successor } => (2, successor),
            Self::Deleted(version) => (3, version.raw()),
        };
        STATE_KIND.put(kind) | STATE_TAG.put(tag & STATE_TAG.max())
    }

    /// What a word means; every word is some state, all zeroes the pending one of an insert.
    #[must_use]
    #[inline]
    pub const fn from_raw(word: u64) -> Self {
        let tag = STATE_TAG.of(word);
        match STATE_KIND.of(word) {
            0 if tag == 0 => Self::Pending { replaces: None },
            0 => Self::Pending { replaces: Some(Version(tag)) },
            1 => Self::Live(Version(tag)),
            2 => Self::Superseded { successor: tag },
            _ => Self::Deleted(Version(tag)),
        }
    }
}

/// What a key holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Bytes.
    Value = 0,
    /// A counter; the record's value names its cell.
    Counter = 1,
    /// A sequence; the record's value names its cell.
    Sequence = 2,
    /// A lock; the record's value names its cell.
    Lock = 3,
}

impl Kind {
    /// The kind with this number.
    #[must_use]
    #[inline]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Value),
            1 => Some(Self::Counter),
            2 => Some(Self::Sequence),
            3 => Some(Self::Lock),
            _ => None,
        }
    }

    /// Its name in messages to people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Counter => "counter",
            Self::Sequence => "sequence",
            Self::Lock => "lock",
        }
    }
}

/// Bytes of a record with these lengths, not rounded to units.
#[must_use]
#[inline]
pub const fn record_bytes(key_len: usize, value_len: usize) -> usize {
    HEADER_BYTES + key_len + value_len
}

/// A record's header without the state word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Checksum as stored.
    pub checksum: u64,
    /// Version.
    pub version: Version,
    /// Expiry on the shard's clock, ms; 0 = none.
    pub expiry_ms: u64,
    /// Bytes of the key.
    pub key_len: u16,
    /// Kind, as stored.
    pub kind: u8,
    /// Flags, as stored.
    pub flags: u8,
    /// Bytes of the value.
    pub value_len: u32,
}

impl Header {
    /// Reads the fields; checks nothing.
    #[must_use]
    #[inline]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        Self {
            checksum: u64_at(bytes, AT_CHECKSUM),
            version: Version(u64_at(bytes, AT_VERSION)),
            expiry_ms: u64_at(bytes, AT_EXPIRY),
            key_len: u16_at(bytes, AT_KEY_LEN),
            kind: bytes[AT_KIND],
            flags: bytes[AT_FLAGS],
            value_len: u32_at(bytes, AT_VALUE_LEN),
        }
    }

    /// Writes all fields but the state word, which is left as it is.
    #[inline]
    pub fn write(&self, bytes: &mut [u8; HEADER_BYTES]) {
        put(bytes, AT_CHECKSUM, &self.checksum.to_le_bytes());
        put(bytes, AT_VERSION, &self.version.raw().to_le_bytes());
        put(bytes, AT_EXPIRY, &self.expiry_ms.to_le_bytes());
        put(bytes, AT_KEY_LEN, &self.key_len.to_le_bytes());
        bytes[AT_KIND] = self.kind;
        bytes[AT_FLAGS] = self.flags;
        put(bytes, AT_VALUE_LEN, &self.value_len.to_le_bytes());
    }

    /// Bytes of the whole record, not rounded to units.
    #[must_use]
    #[inline]
    pub const fn record_bytes(&self) -> usize {
        record_bytes(self.key_len as usize, self.value_len as usize)
    }
}

/// The checksum of a record image (header, key, value, without padding) that lies at `place`.
#[must_use]
#[inline]
pub fn checksum(image: &[u8], place: Place) -> u64 {
    if image[AT_FLAGS] & FLAG_DIGEST == 0 {
        return xxh3_64_with_seed(&image[AT_COVERED..], place.pack());
    }
    let value_at = (HEADER_BYTES + usize::from(u16_at(image, AT_KEY_LEN))).min(image.len());
    checksum_by_digest(&image[AT_COVERED..value_at], digest(&image[value_at..], place), place)
}

/// What stands before the value of a record whose value's digest is known: header and key, in state *pending*.
///
/// # Panics
/// When the key is longer than [`KEY_BYTES_MAX`].
#[must_use]
pub fn encode_front(place: Place, fields: Fields<'_>, value_len: u32, digest: u64, replaces: Option<Version>) -> Vec<u8> {
    let Fields { version, expiry_ms, kind, key, .. } = fields;
    assert!(key.len() <= KEY_BYTES_MAX);
    let key_len = key.len() as u16;
    let mut header = Header { checksum: 0, version, expiry_ms, key_len, kind: kind as u8, flags: FLAG_DIGEST, value_len };
    let mut head = [0; HEADER_BYTES];
    header.write(&mut head);
    let mut front = [&head[..], key].concat();
    header.checksum = checksum_by_digest(&front[AT_COVERED..], digest, place);
    put(&mut front, AT_STATE, &State::Pending { replaces }.raw().to_le_bytes());
    put(&mut front, AT_CHECKSUM, &header.checksum.to_le_bytes());
    front
}

/// Writes a whole record image into `image` (exactly [`record_bytes`] long) with the state *pending*.
///
/// # Panics
/// When `image` has another length, or the key is longer than [`KEY_BYTES_MAX`].
pub fn encode(image: &mut [u8], place: Place, fields: Fields<'_>, replaces: Option<Version>) {
    let Fields { version, expiry_ms, kind, key, value } = fields;
    assert!(key.len() <= KEY_BYTES_MAX && image.len() == record_bytes(key.len(), value.len()));
    let mut header = Header {
        checksum: 0,
        version,
        expiry_ms,
        key_len: key.len() as u16,
        kind: kind as u8,
        flags: 0,
        value_len: u32::try_from(value.len()).expect("a value is bounded by the staging ring"),
    };
    let mut head = [0; HEADER_BYTES];
    put(&mut head, AT_STATE, &State::Pending { replaces }.raw().to_le_bytes());
    header.write(&mut head);
    image[..HEADER_BYTES].copy_from_slice(&head);
    image[HEADER_BYTES..HEADER_BYTES + key.len()].copy_from_slice(key);
    image[HEADER_BYTES + key.len()..].copy_from_slice(value);
    header.checksum = checksum(image, place);
    put(image, AT_CHECKSUM, &header.checksum.to_le_bytes());
}

/// What a record is made of.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// Version.
    pub version: Version,
    /// Expiry on the shard's clock, ms; 0 = none.
    pub expiry_ms: u64,
    /// Kind.
    pub kind: Kind,
    /// Key.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
}

/// Why bytes are not a record that can be believed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Disbelief {
    /// Lengths in the header do not fit what was read.
    Lengths,
    /// The whole record is longer than what was read: read this many bytes.
    Longer {
        /// Bytes of the whole record.
        record_bytes: usize,
    },
    /// Another key's record.
    OtherKey,
    /// The checksum does not hold: torn, or a block of another life.
    Checksum,
    /// A body of one life and a state word of another.
    Tag,
    /// A kind or flag that this version does not know.
    UnknownKind,
}

/// A record whose body is whole and belongs to the key. Its state is still to be judged by the rules of belief.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole {
    /// State word, its tag checked against the version for *live* and *deleted*.
    pub state: State,
    /// Version.
    pub version: Version,
    /// Expiry on the shard's clock, ms; 0 = none.
    pub expiry_ms: u64,
    /// Kind.
    pub kind: Kind,
    /// Where the value begins in what was read.
    pub value_at: usize,
    /// Bytes of the value.
    pub value_len: usize,
}

/// Checks bytes that were read at `place` against the key that was looked for.
///
/// # Errors
/// A [`Disbelief`]; nothing of the bytes may then be used, except what it carries.
#[inline]
pub fn examine(bytes: &[u8], place: Place, key: &[u8]) -> Result<Whole, Disbelief> {
    let head = bytes.first_chunk::<HEADER_BYTES>().ok_or(Disbelief::Lengths)?;
    let header = Header::read(head);
    if header.key_len as usize != key.len() {
        // Zero or too long is no key at all; any other length is another key's, if it is anything.
        let possible = (1..=KEY_BYTES_MAX).contains(&(header.key_len as usize));
        return Err(if possible { Disbelief::OtherKey } else { Disbelief::Lengths });
    }
    let key_end = HEADER_BYTES + key.len();
    if bytes.len() >= key_end && bytes[HEADER_BYTES..key_end] != *key {
        return Err(Disbelief::OtherKey);
    }
    let record_bytes = header.record_bytes();
    if record_bytes > bytes.len() {
        return Err(Disbelief::Longer { record_bytes });
    }
    if checksum(&bytes[..record_bytes], place) != header.checksum {
        return Err(Disbelief::Checksum);
    }
    let state = State::from_raw(u64_at(head, AT_STATE));
    if let State::Live(version) | State::Deleted(version) = state
        && version != header.version
    {
        return Err(Disbelief::Tag);
    }
    let kind = Kind::from_raw(header.kind).filter(|_| header.flags & !FLAG_DIGEST == 0).ok_or(Disbelief::UnknownKind)?;
    Ok(Whole {
        state,
        version: header.version,
        expiry_ms: header.expiry_ms,
        kind,
        value_at: key_end,
        value_len: header.value_len as usize,
    })
}

/// The location of the record at `place` whose slot has `fingerprint`.
#[must_use]
pub const fn location_of(fingerprint: u16, key_len: usize, value_len: usize, place: Place) -> Location {
    Location::new(fingerprint, record_bytes(key_len, value_len), place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: Place = Place { chunk: 2, unit: 9 };

    fn image(key: &[u8], value: &[u8], version: Version) -> Vec<u8> {
        let mut image = vec![0; record_bytes(key.len(), value.len())];
        encode(&mut image, PLACE, Fields { version, expiry_ms: 0, kind: Kind::Value, key, value }, None);
        image
    }

    #[test]
    fn a_live_record_is_believed_at_its_place_only() {
        let version = Version::new(1, 7);
        let mut bytes = image(b"key", b"value", version);
        bytes[..8].copy_from_slice(&State::Live(version).raw().to_le_bytes());
        let whole = examine(&bytes, PLACE, b"key").unwrap();
        assert_eq!((whole.state, &bytes[whole.value_at..]), (State::Live(version), &b"value"[..]));
        assert_eq!(examine(&bytes, Place { unit: 10, ..PLACE }, b"key"), Err(Disbelief::Checksum));
        assert_eq!(examine(&bytes, PLACE, b"kex"), Err(Disbelief::OtherKey));
    }

    #[test]
    fn a_value_by_its_digest_is_believed_as_any_other() {
        let version = Version::new(1, 7);
        let fields = Fields { version, expiry_ms: 5, kind: Kind::Value, key: b"key", value: &[] };
        let mut bytes = encode_front(PLACE, fields, 5, digest(b"value", PLACE), None);
        bytes.extend_from_slice(b"value");
        assert_eq!(checksum(&bytes, PLACE), u64_at(&bytes, AT_CHECKSUM));
        bytes[..8].copy_from_slice(&State::Live(version).raw().to_le_bytes());
        let whole = examine(&bytes, PLACE, b"key").unwrap();
        assert_eq!((whole.state, whole.expiry_ms, &bytes[whole.value_at..]), (State::Live(version), 5, &b"value"[..]));
        for at in 8..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert!(examine(&torn, PLACE, b"key").is_err(), "byte {at} changed and was not noticed");
        }
        assert_eq!(examine(&bytes, Place { unit: 10, ..PLACE }, b"key"), Err(Disbelief::Checksum));
    }

    #[test]
    fn a_state_of_another_life_is_not_believed() {
        let mut bytes = image(b"key", b"value", Version::new(1, 7));
        bytes[..8].copy_from_slice(&State::Live(Version::new(1, 8)).raw().to_le_bytes());
        assert_eq!(examine(&bytes, PLACE, b"key"), Err(Disbelief::Tag));
    }

    #[test]
    fn golden_bytes() {
        let bytes = image(b"k", b"v", Version::new(1, 2));
        assert_eq!(bytes.len(), 42);
        assert_eq!(bytes[16..24], [2, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(bytes[32..], [1, 0, 0, 0, 1, 0, 0, 0, b'k', b'v']);
        assert_eq!(checksum(&bytes, PLACE), u64_at(&bytes, 8));
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300), key in proptest::collection::vec(any::<u8>(), 1..20)) {
            prop_assert!(examine(&bytes, PLACE, &key).is_err());
        }

        #[test]
        fn any_flipped_bit_is_noticed(at in 8usize..48, bit in 0u8..8) {
            let version = Version::new(1, 7);
            let mut bytes = image(b"key", b"value", version);
            bytes[..8].copy_from_slice(&State::Live(version).raw().to_le_bytes());
            bytes[at] ^= 1 << bit;
            prop_assert!(examine(&bytes, PLACE, b"key").is_err());
        }

        #[test]
        fn states_come_back(word in any::<u64>()) {
            prop_assert_eq!(State::from_raw(word).raw(), word);
        }
    }
}

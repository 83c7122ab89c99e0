//! Entries of replication: what a primary's worker leaves in the ring that its backup's worker lends it.
//!
//! | at | bytes | field |
//! | --- | --- | --- |
//! | 0 | 2 | magic 0x5352 |
//! | 2 | 1 | layout version |
//! | 3 | 1 | what |
//! | 4 | 1 | kind of record |
//! | 5 | 1 | shard |
//! | 6 | 2 | key length |
//! | 8 | 4 | value length |
//! | 12 | 4 | reign |
//! | 16 | 8 | sequence on this link, rising by 1, from 1 |
//! | 24 | 8 | position in the shard's log; 0 = none |
//! | 32 | 8 | version of the record |
//! | 40 | 8 | expiry on the shard's clock, ms; 0 = none |
//! | 48 | 8 | the sender's shard clock, us |
//! | 56 | 8 | token floor: no lock of the sender has granted a token above it |
//! | 64 | 16 | client whose write it is; 0 = nobody's |
//! | 80 | 8 | the write's sequence |
//! | 88 | 8 | the client knows the outcome of every sequence below it |
//! | 96 | 4 | the client's session |
//! | 100 | 4 | the sender's worker |
//! | 104 | 8 | figure: a counter's value before an add, a final count |
//! | 112 | 4 | epoch of the sender's map |
//! | 116 | 12 | zero |
//! | 128 | | key, value |
//!
//! It is answered by an [ack](super::ack) whose sequence is that of the link: `Done`, or why not. For a question the
//! figures are the reign and the position of the copy.

use super::LAYOUT_VERSION;
use super::record::{Kind, Version};
use super::wire::{put, u16_at, u32_at, u64_at, u128_at};
use crate::id::ClientId;
use crate::key::SHARD_COUNT;
use crate::limits::KEY_BYTES_MAX;

/// Bytes before the key.
pub const ENTRY_BYTES: usize = 128;
const MAGIC: u16 = 0x5352;
const RESERVED: std::ops::Range<usize> = 116..ENTRY_BYTES;

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum What {
    /// The key holds this record now.
    Put = 1,
    /// The key holds nothing now.
    Delete = 2,
    /// Forget the whole shard: it is filled anew in this reign.
    Clear = 3,
    /// All that was there before is told: the copy is whole up to this position.
    Whole = 4,
    /// Which reign and position has the copy?
    Ask = 5,
    /// The copy belongs to this reign from now on; its content is what it is.
    Adopt = 6,
    /// How a client's write has ended, for the time after this primary.
    Outcome = 7,
    /// Nothing but clock and token floor.
    Beat = 8,
    /// The key holds a counter whose cell is frozen at the primary; the figure is its last value.
    Count = 9,
}

impl What {
    const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Put,
            2 => Self::Delete,
            3 => Self::Clear,
            4 => Self::Whole,
            5 => Self::Ask,
            6 => Self::Adopt,
            7 => Self::Outcome,
            8 => Self::Beat,
            9 => Self::Count,
            _ => return None,
        })
    }

    /// Whether it is about one key.
    #[must_use]
    pub const fn has_key(self) -> bool {
        matches!(self, Self::Put | Self::Delete | Self::Count)
    }
}

/// Whose write an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The client's id at the primary.
    pub client: ClientId,
    /// Its session.
    pub session: u32,
    /// The primary's worker.
    pub worker: u32,
    /// The write's sequence.
    pub sequence: u64,
    /// The client knows the outcome of every sequence below it.
    pub resolved_below: u64,
}

/// An entry without its key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What it says.
    pub what: What,
    /// Kind of record.
    pub kind: Kind,
    /// The shard.
    pub shard: u32,
    /// The sender's reign there.
    pub reign: u32,
    /// Number on the link.
    pub sequence: u64,
    /// Position in the shard's log; 0 = none.
    pub position: u64,
    /// Version of the record.
    pub version: Version,
    /// Expiry on the shard's clock, ms; 0 = none.
    pub expiry_ms: u64,
    /// The sender's shard clock, us.
    pub clock_us: u64,
    /// No lock of the sender has granted a token above it.
    pub token_floor: u64,
    /// Whose write it is.
    pub origin: Option<Origin>,
    /// See the table.
    pub figure: u64,
    /// Epoch of the sender's map.
    pub map_epoch: u32,
    /// Bytes of the key.
    pub key_len: u16,
    /// Bytes of the value.
    pub value_len: u32,
}

/// Why bytes are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("replication entry: {field} is {value}, the limit is {limit}")]
pub struct EntryError {
    /// The field.
    pub field: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be at most, or had to be.
    pub limit: u64,
}

impl Entry {
    /// An entry about no key; fill in the rest with struct update syntax.
    #[must_use]
    pub const fn new(what: What, shard: u32, reign: u32) -> Self {
        Self {
            what,
            kind: Kind::Value,
            shard,
            reign,
            sequence: 0,
            position: 0,
            version: Version::from_raw(0),
            expiry_ms: 0,
            clock_us: 0,
            token_floor: 0,
            origin: None,
            figure: 0,
            map_epoch: 0,
            key_len: 0,
            value_len: 0,
        }
    }

    /// Bytes of the whole entry.
    #[must_use]
    pub const fn total_bytes(&self) -> usize {
        self.value_at() + self.value_len as usize
    }

    /// Offset of the value.
    #[must_use]
    pub const fn value_at(&self) -> usize {
        ENTRY_BYTES + self.key_len as usize
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        bytes[2] = LAYOUT_VERSION as u8;
        bytes[3] = self.what as u8;
        bytes[4] = self.kind as u8;
        bytes[5] = self.shard as u8;
        put(&mut bytes, 6, &self.key_len.to_le_bytes());
        put(&mut bytes, 8, &self.value_len.to_le_bytes());
        put(&mut bytes, 12, &self.reign.to_le_bytes());
        put(&mut bytes, 16, &self.sequence.to_le_bytes());
        put(&mut bytes, 24, &self.position.to_le_bytes());
        put(&mut bytes, 32, &self.version.raw().to_le_bytes());
        put(&mut bytes, 40, &self.expiry_ms.to_le_bytes());
        put(&mut bytes, 48, &self.clock_us.to_le_bytes());
        put(&mut bytes, 56, &self.token_floor.to_le_bytes());
        if let Some(origin) = &self.origin {
            put(&mut bytes, 64, &origin.client.to_bytes());
            put(&mut bytes, 80, &origin.sequence.to_le_bytes());
            put(&mut bytes, 88, &origin.resolved_below.to_le_bytes());
            put(&mut bytes, 96, &origin.session.to_le_bytes());
            put(&mut bytes, 100, &origin.worker.to_le_bytes());
        }
        put(&mut bytes, 104, &self.figure.to_le_bytes());
        put(&mut bytes, 112, &self.map_epoch.to_le_bytes());
        bytes
    }

    /// Checks what a peer wrote.
    ///
    /// # Errors
    /// The first field that cannot be accepted.
    pub fn decode(bytes: &[u8; ENTRY_BYTES], value_bytes_max: usize) -> Result<Self, EntryError> {
        let refuse = |field, value: u64, limit: u64| Err(EntryError { field, value, limit });
        if u16_at(bytes, 0) != MAGIC {
            return refuse("magic", u16_at(bytes, 0).into(), MAGIC.into());
        }
        if u32::from(bytes[2]) != LAYOUT_VERSION {
            return refuse("layout version", bytes[2].into(), LAYOUT_VERSION.into());
        }
        let Some(what) = What::from_raw(bytes[3]) else { return refuse("what", bytes[3].into(), What::Count as u64) };
        let Some(kind) = Kind::from_raw(bytes[4]) else { return refuse("kind", bytes[4].into(), Kind::Lock as u64) };
        if bytes[RESERVED].iter().any(|&byte| byte != 0) {
            return refuse("reserved bytes", 1, 0);
        }
        let client = u128_at(bytes, 64);
        let origin = Origin {
            client: ClientId(client),
            session: u32_at(bytes, 96),
            worker: u32_at(bytes, 100),
            sequence: u64_at(bytes, 80),
            resolved_below: u64_at(bytes, 88),
        };
        let entry = Self {
            what,
            kind,
            shard: bytes[5].into(),
            reign: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            position: u64_at(bytes, 24),
            version: Version::from_raw(u64_at(bytes, 32)),
            expiry_ms: u64_at(bytes, 40),
            clock_us: u64_at(bytes, 48),
            token_floor: u64_at(bytes, 56),
            origin: (client != 0).then_some(origin),
            figure: u64_at(bytes, 104),
            map_epoch: u32_at(bytes, 112),
            key_len: u16_at(bytes, 6),
            value_len: u32_at(bytes, 8),
        };
        entry.check(value_bytes_max)?;
        Ok(entry)
    }

    fn check(&self, value_bytes_max: usize) -> Result<(), EntryError> {
        let refuse = |field, value: u64, limit: u64| Err(EntryError { field, value, limit });
        if self.key_len as usize > KEY_BYTES_MAX || self.what.has_key() != (self.key_len > 0) {
            return refuse("key length", self.key_len.into(), KEY_BYTES_MAX as u64);
        }
        if self.value_len as usize > value_bytes_max || (self.what != What::Put && self.value_len != 0) {
            return refuse("value length", self.value_len.into(), value_bytes_max as u64);
        }
        if self.sequence == 0 {
            return refuse("sequence", 0, u64::MAX);
        }
        if self.token_floor > super::lock_word::TOKEN_MAX {
            return refuse("token floor", self.token_floor, super::lock_word::TOKEN_MAX);
        }
        match &self.origin {
            Some(origin) if origin.resolved_below > origin.sequence => {
                refuse("resolved below", origin.resolved_below, origin.sequence)
            }
            None if self.what == What::Outcome => refuse("client", 0, u64::MAX),
            _ => Ok(()),
        }
    }
}

const _: () = assert!(SHARD_COUNT <= 256);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> Entry {
        Entry {
            kind: Kind::Lock,
            sequence: 3,
            position: 4,
            version: Version::new(5, 6),
            expiry_ms: 7,
            clock_us: 8,
            token_floor: 9,
            origin: Some(Origin { client: ClientId(10), session: 11, worker: 12, sequence: 13, resolved_below: 2 }),
            figure: 14,
            map_epoch: 17,
            key_len: 15,
            value_len: 16,
            ..Entry::new(What::Put, 255, 2)
        }
    }

    #[test]
    fn entries_come_back() {
        assert_eq!(Entry::decode(&entry().encode(), 16), Ok(entry()));
        let bare = Entry { sequence: 1, ..Entry::new(What::Clear, 1, 2) };
        assert_eq!(Entry::decode(&bare.encode(), 0), Ok(bare));
    }

    #[test]
    fn golden() {
        let bytes = entry().encode();
        assert_eq!(bytes[..24], [0x52, 0x53, 3, 1, 3, 255, 15, 0, 16, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((bytes[24], bytes[40], bytes[48], bytes[56], bytes[64], bytes[80]), (4, 7, 8, 9, 10, 13));
        assert_eq!((bytes[88], bytes[96], bytes[100], bytes[104], bytes[112]), (2, 11, 12, 14, 17));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let field = |entry: Entry| Entry::decode(&entry.encode(), 16).unwrap_err().field;
        assert_eq!(field(Entry { value_len: 17, ..entry() }), "value length");
        assert_eq!(field(Entry { value_len: 1, key_len: 0, what: What::Clear, ..entry() }), "value length");
        assert_eq!(field(Entry { key_len: 0, ..entry() }), "key length");
        assert_eq!(field(Entry { key_len: 4097, ..entry() }), "key length");
        assert_eq!(field(Entry { sequence: 0, ..entry() }), "sequence");
        assert_eq!(field(Entry { token_floor: u64::MAX, ..entry() }), "token floor");
        assert_eq!(field(Entry { sequence: 1, ..Entry::new(What::Outcome, 1, 2) }), "client");
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), ENTRY_BYTES..=ENTRY_BYTES), known in any::<bool>()) {
            let mut bytes: [u8; ENTRY_BYTES] = bytes.try_into().unwrap();
            if known {
                bytes[..3].copy_from_slice(&[0x52, 0x53, 1]);
            }
            if let Ok(entry) = Entry::decode(&bytes, 1 << 19) {
                prop_assert_eq!(Entry::decode(&entry.encode(), 1 << 19), Ok(entry));
            }
        }
    }
}

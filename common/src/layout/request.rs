//! Requests: what a Write-with-Immediate leaves in the client's staging ring, and its immediate.
//!
//! | at | bytes | field |
//! | --- | --- | --- |
//! | 0 | 2 | magic 0x5357 |
//! | 2 | 1 | layout version |
//! | 3 | 1 | operation |
//! | 4 | 1 | condition: 0 none, 1 absent, 2 version |
//! | 5 | 1 | kind of record |
//! | 6 | 2 | key length |
//! | 8 | 8 | sequence, rising by 1 per (session, worker), from 1 |
//! | 16 | 8 | resolved below: the client knows the outcome of every sequence below it |
//! | 24 | 8 | condition's version |
//! | 32 | 8 | time to live, ms; 0 = none |
//! | 40 | 8 | fencing token; 0 = not fenced |
//! | 48 | 4 | value length |
//! | 52 | 2 | length of the fencing lock's key |
//! | 54 | 2 | zero |
//! | 56 | 8 | argument: a counter's initial value or delta; the sequence asked after; a long value's length or handle |
//! | 64 | | key, fencing lock's key, value |
//!
//! A request begins at a multiple of 64 bytes in the ring and never wraps. Several may share a message (`packed`).
//! Immediate: unit in the ring, of the first request, 24 bits, low bits of its sequence 8.
//! Every byte is hostile to the server: [`Request::decode`] checks each field.

use super::LAYOUT_VERSION;
use super::record::{Kind, UNIT_BYTES, Version};
use super::wire::{put, u16_at, u32_at, u64_at};
use crate::limits::{KEY_BYTES_MAX, TTL_MS_MAX};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Units of a ring that an immediate can name.
pub const RING_UNITS_MAX: u64 = 1 << 24;
const MAGIC: u16 = 0x5357;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Store a value, or create a counter, sequence or lock, by the record's kind. Creating one that is there
    /// already with the same kind changes nothing and is answered `Exists`.
    Put = 1,
    /// Delete whatever the key holds.
    Delete = 2,
    /// Add to a counter exactly once, by the worker.
    Add = 3,
    /// Tell the outcome of an earlier sequence; one never seen is recorded as refused.
    Resolve = 4,
    /// The key's expiry is near: delete it if it is over, tell which.
    Expire = 5,
    /// Free a lock whoever holds it (administration).
    BreakLock = 6,
    /// Reserve memory for a long value of this key. argument: its length. Answered with a handle.
    Reserve = 7,
    /// The next bytes of a long value. argument: the handle. It has no key.
    Chunk = 8,
    /// Store the long value whose bytes have all been sent, as a `Put` would. argument: the handle.
    Commit = 9,
}

impl Operation {
    const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            3 => Some(Self::Add),
            4 => Some(Self::Resolve),
            5 => Some(Self::Expire),
            6 => Some(Self::BreakLock),
            7 => Some(Self::Reserve),
            8 => Some(Self::Chunk),
            9 => Some(Self::Commit),
            _ => None,
        }
    }

    /// Whether it is about a key.
    const fn has_key(self) -> bool {
        !matches!(self, Self::Resolve | Self::Chunk)
    }

    /// Whether it is a step of storing a long value.
    const fn is_of_long_value(self) -> bool {
        matches!(self, Self::Reserve | Self::Chunk | Self::Commit)
    }
}

/// When a write is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Always.
    None,
    /// Only if the key holds nothing.
    Absent,
    /// Only if the record's version is this one.
    Version(Version),
}

/// A request's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked.
    pub operation: Operation,
    /// When it is carried out.
    pub condition: Condition,
    /// Kind of record.
    pub kind: Kind,
    /// Its number.
    pub sequence: u64,
    /// The client knows the outcome of all below.
    pub resolved_below: u64,
    /// Time to live, ms; 0 = none.
    pub ttl_ms: u64,
    /// Fencing token; 0 = not fenced.
    pub fence_token: u64,
    /// See the operation.
    pub argument: i64,
    /// Bytes of the key.
    pub key_len: u16,
    /// Bytes of the fencing lock's key.
    pub fence_key_len: u16,
    /// Bytes of the value.
    pub value_len: u32,
}

/// A field of a request that cannot be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request field `{}` is {value}, the limit is {limit}", field.name())]
pub struct RequestError {
    /// Which field.
    pub field: RequestField,
    /// What it was.
    pub value: u64,
    /// What it may be at most, or had to be.
    pub limit: u64,
}

/// Fields that a refusal can name; the number travels in an ack's detail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "named like the fields of the table above")]
pub enum RequestField {
    Magic = 1,
    LayoutVersion = 2,
    Operation = 3,
    Condition = 4,
    Kind = 5,
    KeyLength = 6,
    Sequence = 7,
    ResolvedBelow = 8,
    ConditionVersion = 9,
    Ttl = 10,
    FenceToken = 11,
    ValueLength = 12,
    FenceKeyLength = 13,
    Reserved = 14,
    Argument = 15,
    RingUnit = 16,
    Length = 17,
    FenceShard = 18,
    Requests = 19,
}

impl RequestField {
    /// The field with this number.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Magic,
            2 => Self::LayoutVersion,
            3 => Self::Operation,
            4 => Self::Condition,
            5 => Self::Kind,
            6 => Self::KeyLength,
            7 => Self::Sequence,
            8 => Self::ResolvedBelow,
            9 => Self::ConditionVersion,
            10 => Self::Ttl,
            11 => Self::FenceToken,
            12 => Self::ValueLength,
            13 => Self::FenceKeyLength,
            14 => Self::Reserved,
            15 => Self::Argument,
            16 => Self::RingUnit,
            17 => Self::Length,
            18 => Self::FenceShard,
            19 => Self::Requests,
            _ => return None,
        })
    }

    /// Its name in messages to people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Magic => "magic",
            Self::LayoutVersion => "layout version",
            Self::Operation => "operation",
            Self::Condition => "condition",
            Self::Kind => "kind",
            Self::KeyLength => "key length",
            Self::Sequence => "sequence",
            Self::ResolvedBelow => "resolved below",
            Self::ConditionVersion => "condition version",
            Self::Ttl => "time to live",
            Self::FenceToken => "fencing token",
            Self::ValueLength => "value length",
            Self::FenceKeyLength => "fencing lock's key length",
            Self::Reserved => "reserved bytes",
            Self::Argument => "argument",
            Self::RingUnit => "ring unit",
            Self::Length => "length",
            Self::FenceShard => "fencing lock's shard",
            Self::Requests => "requests in one message",
        }
    }
}

impl Request {
    /// An unconditional, unfenced request; fill in the rest with struct update syntax.
    #[must_use]
    pub const fn new(operation: Operation, sequence: u64) -> Self {
        Self {
            operation,
            condition: Condition::None,
            kind: Kind::Value,
            sequence,
            resolved_below: 0,
            ttl_ms: 0,
            fence_token: 0,
            argument: 0,
            key_len: 0,
            fence_key_len: 0,
            value_len: 0,
        }
    }

    /// Bytes of the whole request in the ring, header included.
    #[must_use]
    #[inline]
    pub const fn total_bytes(&self) -> usize {
        HEADER_BYTES + self.key_len as usize + self.fence_key_len as usize + self.value_len as usize
    }

    /// Offset of the fencing lock's key.
    #[must_use]
    #[inline]
    pub const fn fence_key_at(&self) -> usize {
        HEADER_BYTES + self.key_len as usize
    }

    /// Offset of the value.
    #[must_use]
    #[inline]
    pub const fn value_at(&self) -> usize {
        self.fence_key_at() + self.fence_key_len as usize
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (condition, version) = match self.condition {
            Condition::None => (0, 0),
            Condition::Absent => (1, 0),
            Condition::Version(version) => (2, version.raw()),
        };
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        bytes[2] = LAYOUT_VERSION as u8;
        bytes[3] = self.operation as u8;
        bytes[4] = condition;
        bytes[5] = self.kind as u8;
        put(&mut bytes, 6, &self.key_len.to_le_bytes());
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        put(&mut bytes, 16, &self.resolved_below.to_le_bytes());
        put(&mut bytes, 24, &version.to_le_bytes());
        put(&mut bytes, 32, &self.ttl_ms.to_le_bytes());
        put(&mut bytes, 40, &self.fence_token.to_le_bytes());
        put(&mut bytes, 48, &self.value_len.to_le_bytes());
        put(&mut bytes, 52, &self.fence_key_len.to_le_bytes());
        put(&mut bytes, 56, &self.argument.to_le_bytes());
        bytes
    }

    /// Checks a header that a peer wrote. `value_bytes_max` is the server's limit for values.
    ///
    /// # Errors
    /// The first field that cannot be accepted.
    pub fn decode(bytes: &[u8; HEADER_BYTES], value_bytes_max: usize) -> Result<Self, RequestError> {
        let refuse = |field, value: u64, limit: u64| Err(RequestError { field, value, limit });
        let magic = u16_at(bytes, 0);
        if magic != MAGIC {
            return refuse(RequestField::Magic, magic.into(), MAGIC.into());
        }
        if u32::from(bytes[2]) != LAYOUT_VERSION {
            return refuse(RequestField::LayoutVersion, bytes[2].into(), LAYOUT_VERSION.into());
        }
        let Some(operation) = Operation::from_raw(bytes[3]) else {
            return refuse(RequestField::Operation, bytes[3].into(), Operation::Commit as u64);
        };
        let condition_version = u64_at(bytes, 24);
        let condition = match bytes[4] {
            0 | 1 if condition_version != 0 => return refuse(RequestField::ConditionVersion, condition_version, 0),
            0 => Condition::None,
            1 => Condition::Absent,
            2 => Condition::Version(Version::from_raw(condition_version)),
            other => return refuse(RequestField::Condition, other.into(), 2),
        };
        let Some(kind) = Kind::from_raw(bytes[5]) else {
            return refuse(RequestField::Kind, bytes[5].into(), Kind::Lock as u64);
        };
        let request = Self {
            operation,
            condition,
            kind,
            sequence: u64_at(bytes, 8),
            resolved_below: u64_at(bytes, 16),
            ttl_ms: u64_at(bytes, 32),
            fence_token: u64_at(bytes, 40),
            argument: u64_at(bytes, 56) as i64,
            key_len: u16_at(bytes, 6),
            fence_key_len: u16_at(bytes, 52),
            value_len: u32_at(bytes, 48),
        };
        if u16_at(bytes, 54) != 0 {
            return refuse(RequestField::Reserved, u16_at(bytes, 54).into(), 0);
        }
        request.check_ranges(value_bytes_max)?;
        Ok(request)
    }

    fn check_ranges(&self, value_bytes_max: usize) -> Result<(), RequestError> {
        let at_most = |field, value: u64, limit: u64| {
            if value <= limit { Ok(()) } else { Err(RequestError { field, value, limit }) }
        };
        let key_max = KEY_BYTES_MAX as u64;
        at_most(RequestField::KeyLength, self.key_len.into(), key_max)?;
        at_most(RequestField::FenceKeyLength, self.fence_key_len.into(), key_max)?;
        at_most(RequestField::ValueLength, self.value_len.into(), value_bytes_max as u64)?;
        at_most(RequestField::Ttl, self.ttl_ms, TTL_MS_MAX)?;
        at_most(RequestField::FenceToken, self.fence_token, super::lock_word::TOKEN_MAX)?;
        at_most(RequestField::ResolvedBelow, self.resolved_below, self.sequence)?;
        if self.sequence == 0 {
            return Err(RequestError { field: RequestField::Sequence, value: 0, limit: u64::MAX });
        }
        if self.key_len == 0 && self.operation.has_key() {
            return Err(RequestError { field: RequestField::KeyLength, value: 0, limit: key_max });
        }
        if (self.fence_token == 0) != (self.fence_key_len == 0) {
            return Err(RequestError { field: RequestField::FenceKeyLength, value: self.fence_key_len.into(), limit: key_max });
        }
        let bare = self.kind != Kind::Value || !matches!(self.operation, Operation::Put | Operation::Chunk);
        if bare && self.value_len != 0 {
            return Err(RequestError { field: RequestField::ValueLength, value: self.value_len.into(), limit: 0 });
        }
        if self.operation.is_of_long_value() {
            self.check_long_value()?;
        }
        if self.operation == Operation::Add {
            at_most(RequestField::Argument, self.argument.unsigned_abs(), super::counter_cell::DELTA_MAX as u64)?;
        }
        if self.operation == Operation::Put && self.kind != Kind::Value {
            at_most(RequestField::Argument, self.argument.unsigned_abs(), super::counter_cell::VALUE_MAX as u64)?;
        }
        Ok(())
    }
}

impl Request {
    /// A step of storing a long value.
    fn check_long_value(&self) -> Result<(), RequestError> {
        let refuse = |field, value: u64, limit: u64| Err(RequestError { field, value, limit });
        if self.kind != Kind::Value {
            return refuse(RequestField::Kind, self.kind as u64, Kind::Value as u64);
        }
        if self.argument <= 0 {
            return refuse(RequestField::Argument, self.argument as u64, i64::MAX as u64);
        }
        if self.operation != Operation::Chunk {
            return Ok(());
        }
        if self.key_len != 0 {
            return refuse(RequestField::KeyLength, self.key_len.into(), 0);
        }
        if self.fence_key_len != 0 {
            return refuse(RequestField::FenceKeyLength, self.fence_key_len.into(), 0);
        }
        if self.value_len == 0 {
            return refuse(RequestField::ValueLength, 0, u32::MAX.into());
        }
        Ok(())
    }
}

/// The immediate of a request at `unit` of its ring.
///
/// # Panics
/// When `unit` is not below [`RING_UNITS_MAX`]; rings are bounded by it.
#[must_use]
#[inline]
pub const fn immediate(unit: u32, sequence: u64) -> u32 {
    assert!((unit as u64) < RING_UNITS_MAX);
    unit << 8 | (sequence & 0xff) as u32
}

/// Byte offset in the ring that an immediate names. Any value; the server checks it against the ring.
#[must_use]
#[inline]
pub const fn immediate_offset(imm: u32) -> usize {
    (imm >> 8) as usize * UNIT_BYTES
}

/// Whether the immediate was made for this sequence.
#[must_use]
#[inline]
pub const fn immediate_fits(imm: u32, sequence: u64) -> bool {
    (imm & 0xff) as u64 == sequence & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(bytes in any::<[u8; 32]>(), more in any::<[u8; 32]>()) {
            let mut all = [0; HEADER_BYTES];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&more);
            let _ = Request::decode(&all, 1 << 19);
            put(&mut all, 0, &[0x57, 0x53, LAYOUT_VERSION as u8]);
            if let Ok(request) = Request::decode(&all, 1 << 19) {
                prop_assert_eq!(request.encode(), all);
            }
        }
    }

    #[test]
    fn limits_are_named() {
        let request = Request { key_len: 5, value_len: 10, ..Request::new(Operation::Put, 1) };
        assert_eq!(Request::decode(&request.encode(), 10), Ok(request));
        let error = Request::decode(&request.encode(), 9).unwrap_err();
        assert_eq!((error.field, error.value, error.limit), (RequestField::ValueLength, 10, 9));
        let keyless = Request::new(Operation::Delete, 1);
        assert_eq!(Request::decode(&keyless.encode(), 9).unwrap_err().field, RequestField::KeyLength);
    }

    #[test]
    fn the_steps_of_a_long_value_are_bounded() {
        let refused = |request: Request| Request::decode(&request.encode(), 100).map_err(|e| e.field);
        let reserve = Request { key_len: 3, argument: 1 << 26, ..Request::new(Operation::Reserve, 1) };
        assert_eq!(refused(reserve), Ok(reserve));
        assert_eq!(refused(Request { argument: -1, ..reserve }), Err(RequestField::Argument));
        assert_eq!(refused(Request { value_len: 1, ..reserve }), Err(RequestField::ValueLength));
        assert_eq!(refused(Request { kind: Kind::Lock, ..reserve }), Err(RequestField::Kind));
        let chunk = Request { value_len: 100, argument: 1, ..Request::new(Operation::Chunk, 2) };
        assert_eq!(refused(chunk), Ok(chunk));
        assert_eq!(refused(Request { value_len: 101, ..chunk }), Err(RequestField::ValueLength));
        assert_eq!(refused(Request { value_len: 0, ..chunk }), Err(RequestField::ValueLength));
        assert_eq!(refused(Request { key_len: 1, ..chunk }), Err(RequestField::KeyLength));
        assert_eq!(refused(Request { argument: 0, ..chunk }), Err(RequestField::Argument));
        let commit = Request { key_len: 3, argument: 1, ..Request::new(Operation::Commit, 3) };
        assert_eq!(refused(commit), Ok(commit));
        assert_eq!(refused(Request { key_len: 0, ..commit }), Err(RequestField::KeyLength));
    }

    #[test]
    fn golden() {
        let request = Request { key_len: 3, value_len: 2, ttl_ms: 7, ..Request::new(Operation::Put, 9) };
        let bytes = request.encode();
        assert_eq!(bytes[..16], [0x57, 0x53, LAYOUT_VERSION as u8, 1, 0, 0, 3, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(immediate_offset(immediate(3, 0x1ff)), 192);
        assert!(immediate_fits(immediate(3, 0x1ff), 0xff));
    }
}

//! Acks: what a worker sends back, several to a message.
//!
//! Message: tag 1 (1 byte) · count (1) · zero (6), then `count` acks of 32 bytes:
//!
//! | at | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | sequence |
//! | 8 | 1 | outcome |
//! | 9 | 1 | detail: a kind, or a request field |
//! | 10 | 6 | zero |
//! | 16 | 8 | first figure: version, or value refused, or counter's value before |
//! | 24 | 8 | second figure: location, or limit |

use super::wire::{put, u64_at};

/// Bytes of one ack.
pub const ACK_BYTES: usize = 32;
/// Bytes before the first ack.
pub const PREFIX_BYTES: usize = 8;
/// Most acks in one message.
pub const ACKS_MAX: usize = 7;
/// Longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = PREFIX_BYTES + ACKS_MAX * ACK_BYTES;
/// First byte of a message of acks.
pub const TAG: u8 = 1;

/// How a write ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Done. figures: version (0 for a delete), location. For `Add`: the value before, 0.
    Done = 1,
    /// The key holds nothing (delete, version condition, add, expire: it is over).
    NotFound = 2,
    /// The key holds something already: version, location. detail: its kind.
    Exists = 3,
    /// Another version is there: version, location.
    VersionMismatch = 4,
    /// The key holds another kind; detail: which.
    WrongKind = 5,
    /// The fencing token is not the holder's: word of the lock (0 if there is no such lock).
    Fenced = 6,
    /// No block of heap to be had: bytes in use, bytes at most.
    OutOfMemory = 7,
    /// The shard's directory cannot grow: segments, at most.
    IndexFull = 8,
    /// No cell to be had: cells in use, at most.
    OutOfCells = 9,
    /// A field of the request was refused; detail: which; its value, its limit.
    Refused = 10,
    /// `Resolve`: that sequence was never carried out, and never will be.
    NeverDone = 11,
    /// Not now (stopping, or memory is on its way): try again later.
    Busy = 12,
    /// `Add` beyond ±2^60: the value before.
    OutOfRange = 13,
    /// `Resolve`: below the line that the client itself drew; the outcome is not known any more.
    Forgotten = 14,
    /// This server does not (any more, or not yet) take writes of that shard: epoch of its cluster map, 0.
    WrongPrimary = 15,
    /// `Reserve`: too much is reserved already: how much, at most. `Chunk`, `Commit`: there is no such reservation (any
    /// more). Whoever still wants to store the value begins with `Reserve`.
    Unreserved = 16,
}

impl Outcome {
    /// The outcome with this number.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Done,
            2 => Self::NotFound,
            3 => Self::Exists,
            4 => Self::VersionMismatch,
            5 => Self::WrongKind,
            6 => Self::Fenced,
            7 => Self::OutOfMemory,
            8 => Self::IndexFull,
            9 => Self::OutOfCells,
            10 => Self::Refused,
            11 => Self::NeverDone,
            12 => Self::Busy,
            13 => Self::OutOfRange,
            14 => Self::Forgotten,
            15 => Self::WrongPrimary,
            16 => Self::Unreserved,
            _ => return None,
        })
    }
}

/// One ack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The request's sequence. For a `Resolve`, its own.
    pub sequence: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// See the outcome.
    pub detail: u8,
    /// First and second figure; see the outcome.
    pub figures: [u64; 2],
}

/// Why a message is not one of acks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed ack message: {0}")]
pub struct AckError(pub &'static str);

impl Ack {
    fn write(&self, bytes: &mut [u8]) {
        put(bytes, 0, &self.sequence.to_le_bytes());
        bytes[8] = self.outcome as u8;
        bytes[9] = self.detail;
        put(bytes, 16, &self.figures[0].to_le_bytes());
        put(bytes, 24, &self.figures[1].to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Result<Self, AckError> {
        if bytes[10..16] != [0; 6] {
            return Err(AckError("reserved bytes"));
        }
        Ok(Self {
            sequence: u64_at(bytes, 0),
            outcome: Outcome::from_raw(bytes[8]).ok_or(AckError("unknown outcome"))?,
            detail: bytes[9],
            figures: [u64_at(bytes, 16), u64_at(bytes, 24)],
        })
    }
}

/// Writes a message and returns its length.
///
/// # Panics
/// When there are none or more than [`ACKS_MAX`].
#[must_use]
pub fn encode(acks: &[Ack], into: &mut [u8; MESSAGE_BYTES_MAX]) -> usize {
    assert!((1..=ACKS_MAX).contains(&acks.len()));
    let length = PREFIX_BYTES + acks.len() * ACK_BYTES;
    into[..length].fill(0);
    into[0] = TAG;
    into[1] = acks.len() as u8;
    for (ack, bytes) in acks.iter().zip(into[PREFIX_BYTES..].chunks_exact_mut(ACK_BYTES)) {
        ack.write(bytes);
    }
    length
}

/// Reads a message.
///
/// # Errors
/// When tag, count or an outcome is unknown, reserved bytes are set, or the length is not that of `count` acks.
pub fn decode(message: &[u8]) -> Result<impl Iterator<Item = Ack> + '_, AckError> {
    if message.len() < PREFIX_BYTES || message[0] != TAG {
        return Err(AckError("not a message of acks"));
    }
    if message[2..PREFIX_BYTES] != [0; PREFIX_BYTES - 2] {
        return Err(AckError("reserved bytes"));
    }
    let count = message[1] as usize;
    if !(1..=ACKS_MAX).contains(&count) || message.len() != PREFIX_BYTES + count * ACK_BYTES {
        return Err(AckError("count and length do not agree"));
    }
    let bodies = message[PREFIX_BYTES..].chunks_exact(ACK_BYTES);
    for body in bodies.clone() {
        Ack::read(body)?;
    }
    Ok(bodies.filter_map(|body| Ack::read(body).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn several_acks_come_back() {
        let acks: Vec<_> =
            (0..3).map(|n| Ack { sequence: n, outcome: Outcome::Done, detail: 0, figures: [n + 10, n + 20] }).collect();
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        let length = encode(&acks, &mut bytes);
        assert_eq!(length, 104);
        assert_eq!(decode(&bytes[..length]).unwrap().collect::<Vec<_>>(), acks);
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..260)) {
            let _ = decode(&bytes).map(Iterator::count);
        }
    }
}

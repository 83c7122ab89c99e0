//! What is posted.

use super::RemoteAddr;
use crate::memory::Lent;

/// Names a work request; every one has a meaningful id, since errors name unsignalled ones too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WorkId(pub u64);

/// A work request.
#[derive(Debug)]
pub struct WorkRequest<'a> {
    /// Its name; unique among what is in flight on the port.
    pub id: WorkId,
    /// What it does.
    pub verb: Verb<'a>,
}

/// What a work request does.
#[derive(Debug)]
pub enum Verb<'a> {
    /// Remote memory into a local buffer.
    Read {
        /// Where the bytes land.
        into: Lent,
        /// Where they come from.
        from: RemoteAddr,
    },
    /// A local buffer into remote memory.
    Write {
        /// The bytes.
        from: Lent,
        /// Where they go.
        to: RemoteAddr,
    },
    /// A local buffer into remote memory; the peer is told.
    WriteImm {
        /// The bytes.
        from: Lent,
        /// Where they go.
        to: RemoteAddr,
        /// What the peer is told.
        imm: u32,
    },
    /// Adds to an aligned remote word, wrapping; `Done` carries the value before.
    FetchAdd {
        /// The word.
        at: RemoteAddr,
        /// What is added.
        delta: u64,
    },
    /// Swaps an aligned remote word if it equals `expect`; `Done` carries the value before.
    CompareSwap {
        /// The word.
        at: RemoteAddr,
        /// What it must be.
        expect: u64,
        /// What it becomes.
        swap: u64,
    },
    /// A message of at most [`MESSAGE_BYTES`](crate::limits::MESSAGE_BYTES), copied when it is posted.
    Send {
        /// The message.
        bytes: &'a [u8],
    },
}

//! What goes wrong while setting up, and while posting.

use super::FabricKind;
use crate::memory::MappingError;
use std::io;

/// Why a fabric, port, endpoint or region could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// No device that would do.
    #[error("no usable RDMA device: {reason}; list devices with `ibv_devinfo`, or use `--fabric shm`")]
    NoDevice {
        /// What was looked for and what was there.
        reason: String,
    },
    /// A call into the kernel or libibverbs failed.
    #[error("{call}: {source}{hint}")]
    Call {
        /// The call and what it was for.
        call: String,
        /// What it said.
        source: io::Error,
        /// What may mend it; empty, or begins with "; ".
        hint: String,
    },
    /// Registration needs more locked memory than the limit allows.
    #[error(
        "registering {needed} bytes exceeds the locked-memory limit of {limit} bytes; \
         raise it with `ulimit -l unlimited`, LimitMEMLOCK=infinity in the unit, or grant CAP_IPC_LOCK"
    )]
    Memlock {
        /// Bytes to be registered.
        needed: u64,
        /// The limit in force, bytes.
        limit: u64,
    },
    /// What the peer said of itself cannot be right.
    #[error("the peer's {field} is {value}: {expected}")]
    Peer {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// A bound of ours would be passed.
    #[error("{what}: {asked} asked, {limit} is the limit")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MappingError),
    /// The peer did not answer the handshake, or hung up.
    #[error("the peer's side of the {kind} handshake failed: {reason}")]
    Handshake {
        /// The provider.
        kind: FabricKind,
        /// What happened.
        reason: String,
    },
    /// A provider was asked for what it does not offer.
    #[error("{kind} does not offer {what}")]
    Unsupported {
        /// The provider.
        kind: FabricKind,
        /// What was asked.
        what: String,
    },
}

impl FabricError {
    /// Whether trying again later can help without anybody changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Handshake { .. })
    }
}

/// Why a chain was not posted. Nothing of it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Not enough room now: poll and try again.
    #[error("no room for {asked} more work requests, {room} fit now")]
    Full {
        /// Work requests in the chain.
        asked: usize,
        /// How many would have fitted.
        room: usize,
    },
    /// The endpoint has failed or is not connected: close it and open another.
    #[error("the endpoint is broken")]
    Broken,
    /// No such endpoint on this port.
    #[error("no such endpoint on this port")]
    Unknown,
    /// A request that the endpoint's role does not allow or that cannot be right (misaligned word, long message).
    #[error("malformed work request: {0}")]
    Malformed(&'static str),
}

//! What can go wrong, what to do about it, and whether a retry is allowed.

use sidewire_common::fabric::FabricError;
use sidewire_common::key::KeyError;
use sidewire_common::layout::record::Kind;
use sidewire_common::memory::BuffersError;
use std::sync::Arc;
use std::time::Duration;

/// Whether the same call may be made again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// It would end the same way, or the first one may have been carried out.
    Never,
    /// At once.
    Now,
    /// After a while, or after somebody has mended something.
    Later,
}

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The key is empty or too long.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value is longer than the server takes.
    #[error(
        "the value has {bytes} bytes, the server takes at most {limit}; split it, or raise the server's --value-max (in a cluster --staging)"
    )]
    ValueTooLong {
        /// Bytes of the value.
        bytes: usize,
        /// Bytes that the server takes.
        limit: usize,
    },
    /// The key holds something else.
    #[error("the key holds a {}, not a {}; use the calls for {}s", found.name(), wanted.name(), found.name())]
    WrongKind {
        /// The kind that the call is for.
        wanted: Kind,
        /// The kind that the key holds.
        found: Kind,
    },
    /// The key holds nothing, and the call needs something.
    #[error("the key holds nothing; create it first")]
    NotFound,
    /// The time is over.
    #[error("{operation} did not end within {after:?}: {seen}; try again, or set a longer deadline")]
    Deadline {
        /// The call.
        operation: &'static str,
        /// The deadline.
        after: Duration,
        /// What was awaited, and what was seen.
        seen: String,
    },
    /// Nobody can tell any more whether the call was carried out.
    #[error("whether the {operation} was carried out is not known; read the key before trying again")]
    Indeterminate {
        /// The call.
        operation: &'static str,
    },
    /// No heartbeat was answered for a whole lease.
    #[error("the lease has run out: nothing read from the server can be believed; the client attaches anew by itself, try again")]
    LeaseLapsed,
    /// The server cannot be reached.
    #[error("the server {server} is gone: {reason}; the client attaches anew by itself as soon as it is back")]
    ServerGone {
        /// Its address.
        server: String,
        /// What was seen.
        reason: String,
    },
    /// The server refused a field of the request.
    #[error("the server refused the request: {field} is {value}, the limit is {limit}")]
    Refused {
        /// The field.
        field: &'static str,
        /// What it was.
        value: u64,
        /// What it may be.
        limit: u64,
    },
    /// The server's heap is full.
    #[error("the server's memory is full: {in_use} of {limit} bytes are in use; delete keys, or raise --memory")]
    OutOfMemory {
        /// Bytes in use.
        in_use: u64,
        /// Bytes at most.
        limit: u64,
    },
    /// The key's part of the index is full.
    #[error("the server's index is full for this key: {segments} of {limit} segments; delete keys, or raise --memory")]
    IndexFull {
        /// Segments in use.
        segments: u64,
        /// Segments at most.
        limit: u64,
    },
    /// No cell is left for a counter or lock.
    #[error("the server has no cell left for a counter or lock: {in_use} of {limit}; delete some, or raise --cells")]
    OutOfCells {
        /// Cells in use.
        in_use: u64,
        /// Cells at most.
        limit: u64,
    },
    /// The lock that the write was fenced with is not held with that token any more.
    #[error("the write was refused: its lock is not held with token {token} any more; take the lock again")]
    Fenced {
        /// The token that the write carried.
        token: u64,
        /// The holder now, if there is one.
        holder: Option<u32>,
        /// The lock's token now.
        current: u64,
    },
    /// A counter is beyond ±2^60.
    #[error("the counter is beyond 2^60 ({value}); the add counted, set the counter anew")]
    OutOfRange {
        /// Its value.
        value: i64,
    },
    /// A delta is beyond ±2^40.
    #[error("the delta {delta} is beyond {limit}; add in smaller steps")]
    DeltaTooLarge {
        /// The delta.
        delta: i64,
        /// The largest one.
        limit: i64,
    },
    /// The lock could not be had in time.
    #[error("the lock was not free in time (holder {holder:?}, token {token}); try again later")]
    LockTimeout {
        /// Who holds it, if anybody does.
        holder: Option<u32>,
        /// Its token.
        token: u64,
    },
    /// In the first lease of its life a server grants no locks: holders of the life before may not know yet.
    #[error("the server has just started and grants locks in {opens_in:.1?}; wait that long, or start it with a shorter --lease")]
    LocksClosed {
        /// Time until it does.
        opens_in: Duration,
    },
    /// The server is stopping or short of memory for a moment.
    #[error("the server is busy; try again later")]
    Busy,
    /// Too much is in flight.
    #[error("too many operations are in flight in this session; poll it, drop values that are still held, then try again")]
    Full,
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] Arc<FabricError>),
    /// The server's control plane did not answer or refused.
    #[error("{server}: {reason}")]
    Control {
        /// The server's address.
        server: String,
        /// What happened, and what to do.
        reason: String,
    },
    /// An address that cannot be used.
    #[error("`{address}` is not a server's address: {reason}; write host:port or kv://host:port")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Client and server do not agree on the bytes.
    #[error("client and server do not understand each other: {reason}; use the same version on both sides")]
    Layout {
        /// What was seen.
        reason: String,
    },
}

impl Error {
    /// Whether the same call may be made again.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Deadline { .. } | Self::LeaseLapsed | Self::Full => Retry::Now,
            Self::ServerGone { .. }
            | Self::OutOfMemory { .. }
            | Self::IndexFull { .. }
            | Self::OutOfCells { .. }
            | Self::LockTimeout { .. }
            | Self::LocksClosed { .. }
            | Self::Busy
            | Self::Fabric(_)
            | Self::Control { .. } => Retry::Later,
            Self::Key(_)
            | Self::ValueTooLong { .. }
            | Self::WrongKind { .. }
            | Self::NotFound
            | Self::Indeterminate { .. }
            | Self::Refused { .. }
            | Self::Fenced { .. }
            | Self::OutOfRange { .. }
            | Self::DeltaTooLarge { .. }
            | Self::Address { .. }
            | Self::Layout { .. } => Retry::Never,
        }
    }

    /// What happened, for the reason of another error: without the server's name and the advice around it.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::ServerGone { reason, .. } | Self::Control { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// Whether the call may or may not have been carried out.
    #[must_use]
    pub const fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate { .. })
    }
}

impl From<BuffersError> for Error {
    fn from(error: BuffersError) -> Self {
        match error {
            BuffersError::Full => Self::Full,
            BuffersError::Fabric(error) => error.into(),
        }
    }
}

impl From<FabricError> for Error {
    fn from(error: FabricError) -> Self {
        Self::Fabric(Arc::new(error))
    }
}

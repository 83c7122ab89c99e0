//! What comes out of a poll.

use super::{EndpointId, WorkId};

/// One completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The endpoint it happened on.
    pub endpoint: EndpointId,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A posted work request has ended.
    Done {
        /// Its id.
        id: WorkId,
        /// How.
        status: Status,
        /// For a successful atomic, the value before it; else 0.
        old: u64,
    },
    /// A Write-with-Immediate of the peer has arrived. Both figures are the peer's word.
    Written {
        /// The immediate, in host order.
        imm: u32,
        /// Bytes written.
        bytes: u32,
    },
    /// A message of the peer has arrived; fetch it with [`Port::take_message`](super::Port::take_message).
    Message {
        /// Where it waits.
        slot: u32,
    },
    /// The endpoint has failed, or the peer is known to be gone. Reported once.
    Broken,
}

/// How a work request ended. Numbers in brackets are `enum ibv_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Done (0).
    Ok,
    /// Ended without an answer, because the endpoint had failed or was closed (5). The peer may have executed
    /// it: its answer may be what was lost.
    Flushed,
    /// The peer's memory refused it, or the peer's process is gone (10, 9).
    RemoteAccess,
    /// No answer after all retries (12).
    Unreachable,
    /// The peer had no receive posted after all retries (13).
    ReceiverNotReady,
    /// A mistake or failure at this end (1, 2, 4, 6).
    Local(u32),
    /// Any other status.
    Other(u32),
}

impl Status {
    /// Whether the work was done.
    #[must_use]
    #[inline]
    pub const fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }
}

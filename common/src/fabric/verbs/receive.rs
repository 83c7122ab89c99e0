//! What an endpoint receives: immediates into receives of zero length, or messages into buffers.

use super::context::ProtectionDomain;
use super::endpoint::receive_wr_id;
use super::pinned::Pinned;
use super::queue_pair::QueuePair;
use super::region::Rights;
use crate::fabric::{EndpointId, FabricError};
use crate::limits::MESSAGE_BYTES;
use rdma_sys::ibv_sge;
use std::io;
use std::sync::Arc;

/// Where a receive buffer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Buffer {
    /// With the device.
    Posted,
    /// Holds a message of that many bytes.
    Full(usize),
}

/// Receive buffers of `MESSAGE_BYTES` each.
pub(super) struct Mailbox {
    memory: Pinned,
    buffers: Box<[Buffer]>,
}

impl Mailbox {
    /// `depth` buffers in `domain`.
    pub(super) fn new(domain: &Arc<ProtectionDomain>, depth: u32) -> Result<Self, FabricError> {
        let memory = Pinned::new(domain, "receive buffers", depth as usize * MESSAGE_BYTES, Rights::Local)?;
        Ok(Self { memory, buffers: vec![Buffer::Posted; depth as usize].into() })
    }

    fn segment(&self, slot: u32) -> ibv_sge {
        // MESSAGE_BYTES is a few hundred.
        self.memory.segment(slot as usize * MESSAGE_BYTES, MESSAGE_BYTES as u32)
    }

    fn arrived(&mut self, slot: u32, bytes: u32) -> bool {
        match self.buffers.get_mut(slot as usize) {
            Some(buffer) if *buffer == Buffer::Posted => {
                *buffer = Buffer::Full((bytes as usize).min(MESSAGE_BYTES));
                true
            }
            _ => false,
        }
    }

    /// Copies a message out; its buffer may be posted again. None when the slot holds none.
    pub(super) fn take(&mut self, slot: u32, into: &mut [u8; MESSAGE_BYTES]) -> Option<usize> {
        let buffer = self.buffers.get_mut(slot as usize)?;
        let Buffer::Full(bytes) = *buffer else { return None };
        self.memory.view().copy_out(slot as usize * MESSAGE_BYTES, &mut into[..bytes]).ok()?;
        *buffer = Buffer::Posted;
        Some(bytes)
    }
}

/// What an endpoint receives.
pub(super) enum Receives {
    /// Nothing: its queue stays empty.
    Nothing,
    /// Immediates, this many at once.
    Immediates(u32),
    /// Messages.
    Messages(Mailbox),
}

impl Receives {
    /// Receives in the queue at most.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Immediates(depth) => *depth,
            Self::Messages(mailbox) => u32::try_from(mailbox.buffers.len()).unwrap_or(u32::MAX),
        }
    }

    /// A message of `bytes` bytes has arrived in `slot`. False when none can have.
    #[inline]
    pub(super) fn arrived(&mut self, slot: u32, bytes: u32) -> bool {
        match self {
            Self::Messages(mailbox) => mailbox.arrived(slot, bytes),
            Self::Nothing | Self::Immediates(_) => false,
        }
    }

    /// Posts the receive of `slot`.
    #[inline]
    pub(super) fn post(&self, pair: &QueuePair, endpoint: EndpointId, slot: u32) -> io::Result<()> {
        let segment = match self {
            Self::Nothing => return Ok(()),
            Self::Immediates(_) => None,
            Self::Messages(mailbox) => Some(mailbox.segment(slot)),
        };
        // SAFETY: the segment lies in the mailbox's registered memory, and an endpoint drops its queue pair
        // before its mailbox (field order in `Endpoint`).
        unsafe { pair.post_recv(receive_wr_id(endpoint, slot), segment) }
    }
}

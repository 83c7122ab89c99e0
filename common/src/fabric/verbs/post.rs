//! From our work requests to a linked chain of the device's.

use super::pinned::Pinned;
use crate::fabric::{PostError, RemoteAddr, Verb};
use crate::limits::MESSAGE_BYTES;
use crate::memory::Lent;
use rdma_sys::{
    atomic_t, ibv_send_flags as Flags, ibv_send_wr, ibv_sge, ibv_wr_opcode as Opcode,
    imm_data_invalidated_rkey_union_t as Immediate, rdma_t,
};
use std::ptr::null_mut;

/// Bytes of a word that atomics work on.
pub(super) const WORD_BYTES: u32 = 8;

/// The verbs, without their operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read,
    Write,
    WriteImm,
    FetchAdd,
    CompareSwap,
    Send,
}

impl Kind {
    pub(super) const fn of(verb: &Verb<'_>) -> Self {
        match verb {
            Verb::Read { .. } => Self::Read,
            Verb::Write { .. } => Self::Write,
            Verb::WriteImm { .. } => Self::WriteImm,
            Verb::FetchAdd { .. } => Self::FetchAdd,
            Verb::CompareSwap { .. } => Self::CompareSwap,
            Verb::Send { .. } => Self::Send,
        }
    }

    pub(super) const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }
}

/// Bytes and remote place of a verb.
pub(super) fn extent(verb: &Verb<'_>) -> (usize, RemoteAddr) {
    match verb {
        Verb::Read { into: lent, from: at } | Verb::Write { from: lent, to: at } | Verb::WriteImm { from: lent, to: at, .. } => {
            (lent.len(), *at)
        }
        Verb::FetchAdd { at, .. } | Verb::CompareSwap { at, .. } => (WORD_BYTES as usize, *at),
        Verb::Send { bytes } => (bytes.len(), RemoteAddr { addr: 0, rkey: 0 }),
    }
}

/// Refuses what no device should be given.
pub(super) fn validate(verb: &Verb<'_>, message_bytes_max: u32) -> Result<(), PostError> {
    let (bytes, at) = extent(verb);
    match Kind::of(verb) {
        Kind::Send if bytes > MESSAGE_BYTES => Err(PostError::Malformed("a message is longer than a receive buffer")),
        // Soft-RoCE refuses it while posting; hardware kills the queue pair.
        Kind::FetchAdd | Kind::CompareSwap if !at.addr.is_multiple_of(u64::from(WORD_BYTES)) => {
            Err(PostError::Malformed("an atomic's address is not a multiple of eight"))
        }
        _ if bytes as u64 > u64::from(message_bytes_max) => Err(PostError::Malformed("longer than the device's longest message")),
        _ => Ok(()),
    }
}

/// What encoding needs of the endpoint.
pub(super) struct Places<'a> {
    pub(super) inline_bytes: u32,
    /// One word for each work request in flight.
    pub(super) results: Option<&'a Pinned>,
    /// One message for each work request in flight, where not all can be inline.
    pub(super) outbox: Option<&'a Pinned>,
}

/// A chain under construction. Its memory is reused from post to post.
#[derive(Default)]
pub(super) struct Scratch {
    requests: Vec<ibv_send_wr>,
    segments: Vec<ibv_sge>,
}

impl Scratch {
    /// Makes room for chains of `depth`.
    pub(super) fn reserve(&mut self, depth: usize) {
        while self.requests.len() < depth {
            // SAFETY: plain integers, null pointers and unions of integers; zero is a value of each.
            self.requests.push(unsafe { std::mem::zeroed() });
            self.segments.push(ibv_sge { addr: 0, length: 0, lkey: 0 });
        }
    }

    /// Encodes the request at `index` of the chain; `slot` is its place in the endpoint's results and outbox.
    #[inline]
    pub(super) fn encode(&mut self, index: usize, wr_id: u64, signalled: bool, verb: &Verb<'_>, slot: u32, places: &Places<'_>) {
        let request = &mut self.requests[index];
        request.wr_id = wr_id;
        request.next = null_mut();
        request.send_flags = if signalled { Flags::IBV_SEND_SIGNALED.0 } else { 0 };
        request.imm_data_invalidated_rkey_union = Immediate { imm_data: 0 };
        let segment = match verb {
            Verb::Read { into, from } => {
                request.opcode = Opcode::IBV_WR_RDMA_READ;
                request.wr.rdma = rdma_t { remote_addr: from.addr, rkey: from.rkey };
                lent_segment(into)
            }
            Verb::Write { from, to } => {
                request.opcode = Opcode::IBV_WR_RDMA_WRITE;
                write(request, from, *to, places.inline_bytes)
            }
            Verb::WriteImm { from, to, imm } => {
                request.opcode = Opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
                request.imm_data_invalidated_rkey_union = Immediate { imm_data: imm.to_be() };
                write(request, from, *to, places.inline_bytes)
            }
            Verb::FetchAdd { at, delta } => {
                request.opcode = Opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                request.wr.atomic = atomic_t { remote_addr: at.addr, compare_add: *delta, swap: 0, rkey: at.rkey };
                result_segment(slot, places)
            }
            Verb::CompareSwap { at, expect, swap } => {
                request.opcode = Opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                request.wr.atomic = atomic_t { remote_addr: at.addr, compare_add: *expect, swap: *swap, rkey: at.rkey };
                result_segment(slot, places)
            }
            Verb::Send { bytes } => {
                request.opcode = Opcode::IBV_WR_SEND;
                message(request, bytes, slot, places)
            }
        };
        request.num_sge = i32::from(segment.length > 0);
        self.segments[index] = segment;
    }

    /// The first `len` encoded requests, linked.
    #[inline]
    pub(super) fn link(&mut self, len: usize) -> &mut [ibv_send_wr] {
        let segments = self.segments.as_mut_ptr();
        let chain = &mut self.requests[..len];
        let first = chain.as_mut_ptr();
        for (index, request) in chain.iter_mut().enumerate() {
            request.sg_list = segments.wrapping_add(index);
            request.next = if index + 1 < len { first.wrapping_add(index + 1) } else { null_mut() };
        }
        chain
    }
}

/// The length was checked against the longest message, which is below 2^32.
#[inline]
fn lent_segment(lent: &Lent) -> ibv_sge {
    ibv_sge { addr: lent.address(), length: u32::try_from(lent.len()).unwrap_or(0), lkey: lent.lkey() }
}

#[inline]
fn write(request: &mut ibv_send_wr, from: &Lent, to: RemoteAddr, inline_bytes: u32) -> ibv_sge {
    request.wr.rdma = rdma_t { remote_addr: to.addr, rkey: to.rkey };
    let segment = lent_segment(from);
    if segment.length <= inline_bytes {
        request.send_flags |= Flags::IBV_SEND_INLINE.0;
    }
    segment
}

#[inline]
fn result_segment(slot: u32, places: &Places<'_>) -> ibv_sge {
    let results = places.results.expect("an endpoint that may post atomics has places for their results");
    results.segment((slot * WORD_BYTES) as usize, WORD_BYTES)
}

#[inline]
fn message(request: &mut ibv_send_wr, bytes: &[u8], slot: u32, places: &Places<'_>) -> ibv_sge {
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    if length <= places.inline_bytes {
        request.send_flags |= Flags::IBV_SEND_INLINE.0;
        return ibv_sge { addr: bytes.as_ptr() as u64, length, lkey: 0 };
    }
    let outbox = places.outbox.expect("an endpoint that cannot send inline has an outbox");
    let offset = slot as usize * MESSAGE_BYTES;
    outbox.view().copy_in(offset, bytes).expect("the outbox has a message for every slot");
    outbox.segment(offset, length)
}

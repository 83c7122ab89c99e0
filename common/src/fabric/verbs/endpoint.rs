//! One end of a connection: its queue pair, the work in flight on it, and what its completions mean.
//!
//! Every accepted work request waits in `outstanding` until a completion tells its fate. Only some are
//! signalled; a completion names its work request by sequence number, and all older ones have ended with it.

use super::pinned::Pinned;
use super::post::{Kind, Places, Scratch, WORD_BYTES, extent, validate};
use super::queue_pair::QueuePair;
use super::receive::Receives;
use super::recent::{Note, Recent};
use super::{connect::LocalEnd, connect::Path, device::Hardware};
use crate::fabric::{Completion, EndpointId, Event, FabricError, FabricKind, PeerInfo, PostError, Status, WorkId, WorkRequest};
use rdma_sys::{ibv_wc, ibv_wc_flags, ibv_wc_opcode as WcOpcode, ibv_wc_status as WcStatus};
use std::collections::VecDeque;
use std::io;

/// Of a `wr_id`: set for receives.
const RECEIVE_BIT: u32 = 1 << 31;
/// Of a `wr_id`: the sequence number of a send, or the slot of a receive.
const SEQUENCE_MASK: u32 = RECEIVE_BIT - 1;
/// Unsignalled work requests in a row, at most.
const SIGNAL_STRIDE: usize = 16;

/// The `wr_id` of a receive.
pub(super) fn receive_wr_id(endpoint: EndpointId, slot: u32) -> u64 {
    u64::from(endpoint.0) << 32 | u64::from(RECEIVE_BIT | slot & SEQUENCE_MASK)
}

/// The endpoint that a `wr_id` names.
#[inline]
pub(super) fn endpoint_of(wr_id: u64) -> EndpointId {
    EndpointId((wr_id >> 32) as u32)
}

/// A work request in flight.
struct Outstanding {
    id: WorkId,
    /// Place of its result, for atomics.
    result: Option<u32>,
}

/// How far an endpoint has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Opened,
    Connected,
    /// Told to the user, or about to be.
    Broken,
}

/// How a post went that was not refused.
pub(super) enum Posted {
    /// All of it was taken.
    All,
    /// The device took a part of it only: the queue pair must be abandoned.
    Part,
}

/// What it is made of, ready in INIT.
pub(super) struct Parts {
    pub(super) pair: QueuePair,
    pub(super) local: LocalEnd,
    /// What it may post.
    pub(super) allowed: &'static [Kind],
    pub(super) send_depth: u32,
    pub(super) receives: Receives,
    pub(super) results: Option<Pinned>,
    pub(super) outbox: Option<Pinned>,
    pub(super) staging: Option<Pinned>,
}

/// One end of a connection.
pub(super) struct Endpoint {
    id: EndpointId,
    // The queue pair goes first: after that no device reaches the memory below.
    pair: Option<QueuePair>,
    receives: Receives,
    results: Option<Pinned>,
    outbox: Option<Pinned>,
    _staging: Option<Pinned>,
    local: LocalEnd,
    allowed: &'static [Kind],
    state: State,
    /// Being closed by us: nothing but the end of its work is reported.
    closing: bool,
    /// A work request has failed: all later ones are reported as flushed.
    failed: bool,
    send_depth: u32,
    outstanding: VecDeque<Outstanding>,
    /// Sequence number of the next work request, modulo 2^31.
    sequence: u32,
    /// Place of the next work request in results and outbox.
    place: u32,
    recent: Recent,
    reserved: u32,
}

impl Endpoint {
    /// Posts all receives and is ready to connect.
    pub(super) fn new(id: EndpointId, parts: Parts) -> io::Result<Self> {
        for slot in 0..parts.receives.depth() {
            parts.receives.post(&parts.pair, id, slot)?;
        }
        let sends = if parts.allowed.is_empty() { 0 } else { parts.send_depth };
        Ok(Self {
            id,
            reserved: sends + parts.receives.depth(),
            pair: Some(parts.pair),
            receives: parts.receives,
            results: parts.results,
            outbox: parts.outbox,
            _staging: parts.staging,
            local: parts.local,
            allowed: parts.allowed,
            state: State::Opened,
            closing: false,
            failed: false,
            send_depth: sends,
            outstanding: VecDeque::with_capacity(sends as usize),
            sequence: 0,
            place: 0,
            recent: Recent::new(),
        })
    }

    /// Completions that it may have in the queue at once.
    pub(super) fn reserved(&self) -> u32 {
        self.reserved
    }

    /// Number of its queue pair, while it has one.
    pub(super) fn number(&self) -> Option<u32> {
        self.pair.as_ref().map(QueuePair::number)
    }

    pub(super) fn connect(&mut self, hardware: &Hardware, peer: &PeerInfo) -> Result<(), FabricError> {
        let path = Path::new(hardware, &self.local, peer)?;
        let (State::Opened, Some(pair)) = (self.state, &self.pair) else {
            return Err(FabricError::Unsupported { kind: FabricKind::Verbs, what: "connecting an endpoint twice".into() });
        };
        pair.connect(&path)?;
        self.state = State::Connected;
        Ok(())
    }

    /// Work requests that fit now.
    #[inline]
    pub(super) fn room(&self) -> usize {
        if self.state == State::Connected { self.send_depth as usize - self.outstanding.len() } else { 0 }
    }

    /// Posts a chain.
    pub(super) fn post(
        &mut self,
        chain: &mut Vec<WorkRequest<'_>>,
        scratch: &mut Scratch,
        message_bytes_max: u32,
        out: &mut Vec<Completion>,
    ) -> Result<Posted, PostError> {
        let (State::Connected, Some(pair)) = (self.state, &self.pair) else { return Err(PostError::Broken) };
        let (asked, room) = (chain.len(), self.room());
        if asked == 0 {
            return Ok(Posted::All);
        }
        if asked > room {
            return Err(PostError::Full { asked, room });
        }
        for request in chain.iter() {
            if !self.allowed.contains(&Kind::of(&request.verb)) {
                return Err(PostError::Malformed("the endpoint's role does not allow this verb"));
            }
            validate(&request.verb, message_bytes_max)?;
        }
        let places = Places { inline_bytes: pair.inline_bytes(), results: self.results.as_ref(), outbox: self.outbox.as_ref() };
        let stride = (self.send_depth as usize / 2).clamp(1, SIGNAL_STRIDE);
        for (index, request) in chain.iter().enumerate() {
            // Depths are far below 2^31.
            let step = index as u32;
            let wr_id = u64::from(self.id.0) << 32 | u64::from(self.sequence.wrapping_add(step) & SEQUENCE_MASK);
            let signalled = index + 1 == asked || (index + 1).is_multiple_of(stride);
            scratch.encode(index, wr_id, signalled, &request.verb, (self.place + step) % self.send_depth, &places);
        }
        // SAFETY: the chain is not empty and linked by `link`; its segments live in `scratch`. What they name
        // stays valid until its completion: lent buffers by the contract of `Lent`, results and outbox because
        // they are dropped after the queue pair; inline messages are borrowed by `chain` beyond this call.
        let posted = unsafe { pair.post_send(scratch.link(asked)) };
        match posted {
            Ok(()) => {
                self.accept(chain);
                Ok(Posted::All)
            }
            Err((0, error)) => Err(self.refused(&error, asked, out)),
            Err((taken, error)) => {
                tracing::warn!(endpoint = self.id.0, taken, asked, %error, "the device took a part of a chain only");
                self.accept(chain);
                Ok(Posted::Part)
            }
        }
    }

    /// Takes over all of a chain.
    fn accept(&mut self, chain: &mut Vec<WorkRequest<'_>>) {
        for request in chain.drain(..) {
            let kind = Kind::of(&request.verb);
            let (bytes, at) = extent(&request.verb);
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.recent.push(Note { id: request.id, kind, bytes, addr: at.addr, rkey: at.rkey });
            let result = kind.is_atomic().then_some(self.place);
            self.outstanding.push_back(Outstanding { id: request.id, result });
            self.place = (self.place + 1) % self.send_depth;
            self.sequence = self.sequence.wrapping_add(1) & SEQUENCE_MASK;
        }
    }

    /// The device took nothing.
    #[cold]
    fn refused(&mut self, error: &io::Error, asked: usize, out: &mut Vec<Completion>) -> PostError {
        if error.raw_os_error() == Some(rustix::io::Errno::NOMEM.raw_os_error()) {
            return PostError::Full { asked, room: 0 };
        }
        tracing::warn!(endpoint = self.id.0, %error, "the device refuses to post");
        self.break_down(out);
        PostError::Broken
    }

    /// What a completion of the device means.
    #[inline]
    pub(super) fn completed(&mut self, wc: &ibv_wc, out: &mut Vec<Completion>) {
        let low = wc.wr_id as u32;
        if low & RECEIVE_BIT == 0 { self.sent(low, wc, out) } else { self.received(low & SEQUENCE_MASK, wc, out) }
    }

    fn sent(&mut self, sequence: u32, wc: &ibv_wc, out: &mut Vec<Completion>) {
        // Not more than the depth, which is far below 2^31.
        let in_flight = self.outstanding.len() as u32;
        let oldest = self.sequence.wrapping_sub(in_flight) & SEQUENCE_MASK;
        let older = sequence.wrapping_sub(oldest) & SEQUENCE_MASK;
        if older >= in_flight {
            return;
        }
        let status = status_of(wc.status);
        // Work requests end in order, and one that fails has a completion of its own: those before it are done,
        // unless the first thing heard is a flush. Then nothing is known of them.
        let before = if wc.status == WcStatus::IBV_WC_WR_FLUSH_ERR { Status::Flushed } else { Status::Ok };
        for _ in 0..older {
            self.end_oldest(before, out);
        }
        self.end_oldest(status, out);
        if !status.is_ok() {
            self.failed = true;
            self.report(wc, out);
        }
    }

    /// Ends the oldest work request in flight.
    #[inline]
    fn end_oldest(&mut self, status: Status, out: &mut Vec<Completion>) {
        let Some(work) = self.outstanding.pop_front() else { return };
        let status = if self.failed { Status::Flushed } else { status };
        let old = match (work.result, &self.results) {
            (Some(place), Some(results)) if status.is_ok() => {
                results.view().load_acquire((place * WORD_BYTES) as usize).expect("every place has a word")
            }
            _ => 0,
        };
        out.push(Completion { endpoint: self.id, event: Event::Done { id: work.id, status, old } });
    }

    fn received(&mut self, slot: u32, wc: &ibv_wc, out: &mut Vec<Completion>) {
        if self.closing {
            return;
        }
        if wc.status != WcStatus::IBV_WC_SUCCESS {
            // Not posted again: on a queue pair in error that would complete at once, and so for ever.
            return self.report(wc, out);
        }
        let message = wc.opcode == WcOpcode::IBV_WC_RECV && self.receives.arrived(slot, wc.byte_len);
        let event = match &self.receives {
            Receives::Immediates(_) if wc.opcode == WcOpcode::IBV_WC_RECV_RDMA_WITH_IMM && has_immediate(wc) => {
                // SAFETY: the flags say that the union holds an immediate.
                let imm = u32::from_be(unsafe { wc.imm_data_invalidated_rkey_union.imm_data });
                Event::Written { imm, bytes: wc.byte_len }
            }
            Receives::Messages(_) if message => Event::Message { slot },
            _ => {
                tracing::warn!(
                    endpoint = self.id.0,
                    opcode = wc.opcode,
                    bytes = wc.byte_len,
                    "the peer sent what this end does not receive"
                );
                return self.break_down(out);
            }
        };
        out.push(Completion { endpoint: self.id, event });
        if matches!(event, Event::Written { .. }) {
            self.repost(slot, out);
        }
    }

    /// Gives the receive of `slot` back to the device.
    fn repost(&mut self, slot: u32, out: &mut Vec<Completion>) {
        let (State::Opened | State::Connected, Some(pair)) = (self.state, &self.pair) else { return };
        if let Err(error) = self.receives.post(pair, self.id, slot) {
            tracing::warn!(endpoint = self.id.0, %error, "a receive cannot be posted");
            self.break_down(out);
        }
    }

    /// Copies a message out and posts its buffer again.
    pub(super) fn take_message(
        &mut self,
        slot: u32,
        into: &mut [u8; crate::limits::MESSAGE_BYTES],
        out: &mut Vec<Completion>,
    ) -> Option<usize> {
        let Receives::Messages(mailbox) = &mut self.receives else { return None };
        let bytes = mailbox.take(slot, into)?;
        self.repost(slot, out);
        Some(bytes)
    }

    /// A completion with an error: logs it, once, and breaks the endpoint.
    #[cold]
    fn report(&mut self, wc: &ibv_wc, out: &mut Vec<Completion>) {
        if self.closing || self.state == State::Broken {
            return;
        }
        tracing::warn!(
            endpoint = self.id.0,
            queue_pair = self.number(),
            status = wc.status,
            vendor_error = wc.vendor_err,
            work = %self.recent,
            "a queue pair failed; its last work requests, oldest first"
        );
        self.break_down(out);
    }

    /// To error, and tells the user, once.
    #[cold]
    pub(super) fn break_down(&mut self, out: &mut Vec<Completion>) {
        if self.closing || self.state == State::Broken {
            return;
        }
        self.state = State::Broken;
        if let Some(Err(error)) = self.pair.as_ref().map(QueuePair::to_error) {
            tracing::debug!(endpoint = self.id.0, %error, "a failed queue pair does not change to ERR");
        }
        out.push(Completion { endpoint: self.id, event: Event::Broken });
    }

    /// From now on only the end of work is reported; what is posted flushes.
    pub(super) fn begin_close(&mut self) {
        self.closing = true;
        if let Some(Err(error)) = self.pair.as_ref().map(QueuePair::to_error) {
            tracing::debug!(endpoint = self.id.0, %error, "a queue pair does not change to ERR before it is destroyed");
        }
    }

    /// Destroys the queue pair: from here on the device touches nothing of this endpoint.
    pub(super) fn destroy_pair(&mut self) {
        self.pair = None;
    }

    /// After the queue pair is gone: ends the work whose completions will not come.
    pub(super) fn flush(&mut self, out: &mut Vec<Completion>) {
        debug_assert!(self.pair.is_none(), "a living device may still touch the buffers");
        while !self.outstanding.is_empty() {
            self.end_oldest(Status::Flushed, out);
            self.failed = true;
        }
    }
}

fn has_immediate(wc: &ibv_wc) -> bool {
    wc.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0
}

/// Our word for `enum ibv_wc_status`.
const fn status_of(status: WcStatus::Type) -> Status {
    match status {
        WcStatus::IBV_WC_SUCCESS => Status::Ok,
        WcStatus::IBV_WC_WR_FLUSH_ERR => Status::Flushed,
        WcStatus::IBV_WC_REM_ACCESS_ERR | WcStatus::IBV_WC_REM_INV_REQ_ERR => Status::RemoteAccess,
        WcStatus::IBV_WC_RETRY_EXC_ERR => Status::Unreachable,
        WcStatus::IBV_WC_RNR_RETRY_EXC_ERR => Status::ReceiverNotReady,
        WcStatus::IBV_WC_LOC_LEN_ERR
        | WcStatus::IBV_WC_LOC_QP_OP_ERR
        | WcStatus::IBV_WC_LOC_PROT_ERR
        | WcStatus::IBV_WC_MW_BIND_ERR => Status::Local(status),
        other => Status::Other(other),
    }
}

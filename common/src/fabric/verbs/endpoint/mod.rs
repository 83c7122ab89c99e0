//! One end of a connection: its queue pair, the work in flight on it, and what its completions mean.
//!
//! Every accepted work request waits in `outstanding` until a completion tells its fate. Only some are
//! signalled; a completion names its work request by sequence number, and all older ones have ended with it.

mod receiving;
mod sending;

pub(super) use sending::Posted;

use super::connect::{LocalEnd, Path};
use super::device::Hardware;
use super::pinned::Pinned;
use super::post::Kind;
use super::queue_pair::QueuePair;
use super::receive::Receives;
use super::recent::Recent;
use crate::fabric::{Completion, EndpointId, Event, FabricError, FabricKind, PeerInfo, Status, WorkId};
use crate::pace::Pace;
use rdma_sys::ibv_wc;
use std::collections::VecDeque;
use std::io;

/// Reports of failed queue pairs in a second: any peer can provoke them.
static REPORTS: Pace = Pace::new(10);
/// Of a `wr_id`: set for receives.
const RECEIVE_BIT: u32 = 1 << 31;
/// Of a `wr_id`: the sequence number of a send, or the slot of a receive.
const SEQUENCE_MASK: u32 = RECEIVE_BIT - 1;

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
    /// The peer did what no honest one does, and it was not counted yet.
    offence: bool,
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
            offence: false,
        })
    }

    /// 1 when the peer has done what no honest one does, once.
    #[inline]
    pub(super) fn take_offence(&mut self) -> u64 {
        u64::from(std::mem::take(&mut self.offence))
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

    /// What a completion of the device means.
    #[inline]
    pub(super) fn completed(&mut self, wc: &ibv_wc, out: &mut Vec<Completion>) {
        let low = wc.wr_id as u32;
        if low & RECEIVE_BIT == 0 { self.sent(low, wc, out) } else { self.received(low & SEQUENCE_MASK, wc, out) }
    }

    /// A completion with an error: logs it, once, and breaks the endpoint.
    #[cold]
    fn report(&mut self, wc: &ibv_wc, out: &mut Vec<Completion>) {
        if self.closing || self.state == State::Broken {
            return;
        }
        if let Some(left_out) = REPORTS.admit() {
            tracing::warn!(
                endpoint = self.id.0,
                queue_pair = self.number(),
                status = wc.status,
                vendor_error = wc.vendor_err,
                work = %self.recent,
                left_out,
                "a queue pair failed; its last work requests, oldest first"
            );
        }
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

//! Posting chains, and ending the work requests that completions tell of.

use super::{Endpoint, Outstanding, SEQUENCE_MASK, State};
use crate::fabric::verbs::post::{Kind, Places, Scratch, WORD_BYTES, extent, validate};
use crate::fabric::verbs::recent::Note;
use crate::fabric::{Completion, Event, PostError, Status, WorkRequest};
use rdma_sys::{ibv_wc, ibv_wc_status as WcStatus};
use std::io;

/// Unsignalled work requests in a row, at most.
const SIGNAL_STRIDE: usize = 16;

/// How a post went that was not refused.
pub(in crate::fabric::verbs) enum Posted {
    /// All of it was taken.
    All,
    /// The device took a part of it only: the queue pair must be abandoned.
    Part,
}

impl Endpoint {
    /// Posts a chain.
    pub(in crate::fabric::verbs) fn post(
        &mut self,
        chain: &mut Vec<WorkRequest<'_>>,
        scratch: &mut Scratch,
        message_bytes_max: u32,
        out: &mut Vec<Completion>,
    ) -> Result<Posted, PostError> {
        let (State::Connected, Some(pair)) = (self.state, &self.pair) else { return Err(PostError::Broken) };
        self.check(chain, message_bytes_max)?;
        let asked = chain.len();
        if asked == 0 {
            return Ok(Posted::All);
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

    /// Refuses what is malformed or does not fit, before anything of the chain has happened.
    #[inline]
    fn check(&self, chain: &[WorkRequest<'_>], message_bytes_max: u32) -> Result<(), PostError> {
        for request in chain {
            if !self.allowed.contains(&Kind::of(&request.verb)) {
                return Err(PostError::Malformed("the endpoint's role does not allow this verb"));
            }
            validate(&request.verb, message_bytes_max)?;
        }
        let (asked, room) = (chain.len(), self.room());
        if asked > room { Err(PostError::Full { asked, room }) } else { Ok(()) }
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
        // With nothing in flight, polling would not make room.
        let full = error.raw_os_error() == Some(rustix::io::Errno::NOMEM.raw_os_error());
        if full && !self.outstanding.is_empty() {
            return PostError::Full { asked, room: 0 };
        }
        tracing::warn!(endpoint = self.id.0, %error, "the device refuses to post");
        self.break_down(out);
        PostError::Broken
    }

    /// A completion of a work request: it has ended, and all older ones with it.
    pub(super) fn sent(&mut self, sequence: u32, wc: &ibv_wc, out: &mut Vec<Completion>) {
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
    pub(super) fn end_oldest(&mut self, status: Status, out: &mut Vec<Completion>) {
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

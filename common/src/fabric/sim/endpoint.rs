//! Queue pairs and the work requests in them.

use crate::fabric::{EndpointId, RemoteAddr, Role, Verb, WorkId};
use crate::memory::Lent;
use std::collections::{BTreeMap, VecDeque};

/// Where a queue pair stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Opened, without a peer.
    Fresh,
    /// Connected.
    Ready,
    /// In error: nothing of it is executed any more.
    Broken,
    /// Closed by its owner; what it had sent may still arrive.
    Closed,
}

/// What a work request does.
pub(super) enum Work {
    /// Where the words land, until the buffer's owner is gone.
    Read {
        into: Option<Lent>,
        bytes: usize,
        from: RemoteAddr,
    },
    Write {
        data: Vec<u8>,
        to: RemoteAddr,
        imm: Option<u32>,
    },
    FetchAdd {
        at: RemoteAddr,
        delta: u64,
    },
    CompareSwap {
        at: RemoteAddr,
        expect: u64,
        swap: u64,
    },
    Send {
        message: Vec<u8>,
    },
}

/// How far a work request has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    Posted,
    Running,
    /// Done, its answer is on the way.
    Done,
    Answered,
}

/// A run of bytes within one word, relative to the transfer.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) at: usize,
    pub(super) bytes: usize,
}

/// A work request in flight.
pub(super) struct Request {
    pub(super) id: WorkId,
    pub(super) work: Work,
    pub(super) progress: Progress,
    /// Words still to be moved, the next one last.
    pub(super) pieces: Vec<Piece>,
    /// The region and the offset in it that were found when it arrived.
    pub(super) target: (u32, usize),
    pub(super) old: u64,
    pub(super) retries: u32,
}

impl Request {
    pub(super) fn new(id: WorkId, verb: Verb<'_>) -> Self {
        let work = match verb {
            Verb::Read { into, from } => Work::Read { bytes: into.len(), into: Some(into), from },
            Verb::Write { from, to } => Work::Write { data: from.copied(), to, imm: None },
            Verb::WriteImm { from, to, imm } => Work::Write { data: from.copied(), to, imm: Some(imm) },
            Verb::FetchAdd { at, delta } => Work::FetchAdd { at, delta },
            Verb::CompareSwap { at, expect, swap } => Work::CompareSwap { at, expect, swap },
            Verb::Send { bytes } => Work::Send { message: bytes.to_vec() },
        };
        Self { id, work, progress: Progress::Posted, pieces: Vec::new(), target: (0, 0), old: 0, retries: 0 }
    }

    /// Whether those behind it must wait until it is done: Reads run side by side, the rest in order.
    pub(super) fn holds_others(&self) -> bool {
        !matches!(self.work, Work::Read { .. })
    }
}

/// A queue pair.
pub(super) struct QueuePair {
    pub(super) endpoint: EndpointId,
    pub(super) port: u32,
    pub(super) process: u32,
    pub(super) role: Role,
    /// To itself, with all rights on its own process's regions.
    pub(super) loopback: bool,
    pub(super) stage: Stage,
    pub(super) peer: Option<u32>,
    pub(super) send_depth: u32,
    /// Receives that are posted now.
    pub(super) receives: u32,
    /// Work requests whose `Done` was not polled yet.
    pub(super) in_flight: u32,
    /// The requests that have not been answered, oldest first.
    pub(super) requests: VecDeque<Request>,
    /// Serial number of the oldest.
    pub(super) first: u64,
    /// Serial number of the next one to arrive at the peer.
    pub(super) next_start: u64,
    /// Whether a request is on its way, or holds the others.
    pub(super) busy: bool,
    pub(super) messages: BTreeMap<u32, Vec<u8>>,
    pub(super) next_slot: u32,
    /// The region of its staging ring.
    pub(super) staging: Option<u32>,
}

impl QueuePair {
    pub(super) fn request(&mut self, serial: u64) -> Option<&mut Request> {
        let at = usize::try_from(serial.checked_sub(self.first)?).ok()?;
        self.requests.get_mut(at)
    }

    /// Serial number behind the last one.
    pub(super) fn end(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    pub(super) fn room(&self) -> usize {
        if self.stage == Stage::Ready { self.send_depth.saturating_sub(self.in_flight) as usize } else { 0 }
    }

    /// Whether this verb may be posted here.
    pub(super) fn allows(&self, verb: &Verb<'_>) -> bool {
        let one_sided = matches!(verb, Verb::Read { .. } | Verb::FetchAdd { .. } | Verb::CompareSwap { .. });
        match self.role {
            Role::Reader => one_sided,
            Role::ReadTarget => false,
            Role::Writer => matches!(verb, Verb::Write { .. } | Verb::WriteImm { .. }),
            Role::WriteTarget { .. } | Role::Beat => matches!(verb, Verb::Send { .. }),
        }
    }
}

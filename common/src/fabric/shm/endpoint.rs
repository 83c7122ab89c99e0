//! One end of a connection: its state, and what it may post.

use super::lanes::Lanes;
use super::ledger::Invitation;
use super::ring::Misbehaved;
use crate::fabric::{EndpointId, PostError, Role, Verb, WorkRequest};
use crate::limits::MESSAGE_BYTES;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::cell::Cell;
use std::os::fd::OwnedFd;

/// What an endpoint posts; the rest of the verbs is malformed there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Posts {
    /// Reads and atomics.
    OneSided,
    /// Writes, with and without an immediate.
    Writes,
    /// Messages.
    Messages,
    /// Nothing.
    Nothing,
}

impl Posts {
    pub(super) fn of(role: &Role) -> Self {
        match role {
            Role::Reader => Self::OneSided,
            Role::Writer => Self::Writes,
            Role::WriteTarget { .. } | Role::Beat => Self::Messages,
            Role::ReadTarget => Self::Nothing,
        }
    }
}

/// Where an endpoint is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Waits for `connect`.
    Opened,
    /// Works.
    Ready,
    /// Has failed; only `close` is left.
    Failed,
}

/// An endpoint.
pub(super) struct Endpoint {
    pub(super) id: EndpointId,
    pub(super) posts: Posts,
    pub(super) state: State,
    pub(super) send_depth: u32,
    /// `Done`s that were not polled yet.
    pub(super) queued: u32,
    /// Completions of the port that it may use up.
    pub(super) share: u32,
    pub(super) lanes: Option<Lanes>,
    /// A byte wakes the other end; its hang-up ends this one.
    pub(super) socket: Option<OwnedFd>,
    /// Server: the client's right to come.
    pub(super) invitation: Option<Invitation>,
    /// Entries that may still come out of the rings of a peer that has hung up.
    pub(super) last_entries: Option<u64>,
    /// A post was refused for want of room in the ring.
    pub(super) starved: bool,
    /// Why the peer must be cut off, found where the endpoint could not be changed.
    pub(super) suspect: Cell<Option<Misbehaved>>,
}

impl Endpoint {
    pub(super) fn new(id: EndpointId, posts: Posts, send_depth: u32, share: u32) -> Self {
        Self {
            id,
            posts,
            state: State::Opened,
            send_depth,
            queued: 0,
            share,
            lanes: None,
            socket: None,
            invitation: None,
            last_entries: None,
            starved: false,
            suspect: Cell::new(None),
        }
    }

    /// Work requests that fit now.
    pub(super) fn room(&self) -> usize {
        if self.state != State::Ready || self.posts == Posts::Nothing {
            return 0;
        }
        let depth = u64::from(self.send_depth - self.queued);
        match self.lanes.as_ref().and_then(Lanes::room) {
            None => depth as usize,
            Some(Ok(ring)) => depth.min(ring) as usize,
            Some(Err(misbehaved)) => {
                self.suspect.set(Some(misbehaved));
                0
            }
        }
    }

    /// Whether the chain can be posted now as a whole; the ring entries that it takes.
    pub(super) fn admit(&mut self, chain: &[WorkRequest<'_>]) -> Result<u64, PostError> {
        if self.state != State::Ready {
            return Err(PostError::Broken);
        }
        let mut entries = 0;
        for request in chain {
            entries += self.check(&request.verb)?;
        }
        let full = |room: usize| PostError::Full { asked: chain.len(), room };
        if chain.len() > (self.send_depth - self.queued) as usize {
            return Err(full(self.room()));
        }
        let credit = match &mut self.lanes {
            Some(Lanes { immediates_out: Some(ring), .. }) => &mut ring.credit,
            Some(Lanes { messages_out: Some(ring), .. }) => &mut ring.credit,
            _ => return Ok(0),
        };
        match credit.has(entries) {
            Ok(true) => Ok(entries),
            Ok(false) => {
                self.starved = true;
                Err(full(self.room()))
            }
            Err(misbehaved) => {
                self.suspect.set(Some(misbehaved));
                Err(PostError::Broken)
            }
        }
    }

    /// Whether the verb can be right here; the ring entries that it takes.
    #[inline]
    fn check(&self, verb: &Verb<'_>) -> Result<u64, PostError> {
        match (self.posts, verb) {
            (Posts::OneSided, Verb::Read { .. }) | (Posts::Writes, Verb::Write { .. }) => Ok(0),
            (Posts::OneSided, Verb::FetchAdd { at, .. } | Verb::CompareSwap { at, .. }) => {
                if at.addr.is_multiple_of(8) {
                    Ok(0)
                } else {
                    Err(PostError::Malformed("an atomic on a misaligned word"))
                }
            }
            (Posts::Writes, Verb::WriteImm { .. }) => Ok(1),
            (Posts::Messages, Verb::Send { bytes }) if bytes.len() <= MESSAGE_BYTES => Ok(1),
            (Posts::Messages, Verb::Send { .. }) => Err(PostError::Malformed("a message longer than MESSAGE_BYTES")),
            _ => Err(PostError::Malformed("a verb that the endpoint's role does not post")),
        }
    }

    /// After entries were published, and only then: wakes the peer if it sleeps.
    #[inline]
    pub(super) fn ring(&mut self) {
        if self.lanes.as_mut().is_some_and(|lanes| lanes.peer.must_ring()) {
            self.ring_now();
        }
    }

    #[cold]
    fn ring_now(&self) {
        if let Some(socket) = &self.socket {
            // A full buffer means that earlier bytes will wake it; a hang-up is reported by the socket itself.
            let _ = send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Takes the peer's wake-up bytes. False when it has hung up or cannot be trusted.
    pub(super) fn hear(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let mut bytes = [0u8; 64];
        match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => false,
            Ok((_, count)) => match self.lanes.as_mut().map(|lanes| lanes.rung(count as u64)) {
                Some(Err(misbehaved)) => {
                    self.suspect.set(Some(misbehaved));
                    true
                }
                // A peer with no rings has nothing to ring for.
                None => false,
                Some(Ok(())) => true,
            },
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// No more of it: the peer learns of it by the socket.
    pub(super) fn fail(&mut self) {
        self.state = State::Failed;
        if let Some(socket) = self.socket.take() {
            let _ = shutdown(&socket, Shutdown::Both);
        }
        self.invitation = None;
    }
}

//! Post and poll. A work request is executed by the post; its completion waits for the next poll.

use super::core::{Core, HUNG_UP};
use super::dial::PATIENCE;
use super::endpoint::{Endpoint, State};
use super::execute;
use super::ring::Misbehaved;
use crate::fabric::{
    Completion, EndpointId, EndpointSpec, Event, FabricError, Opened, PeerInfo, Port, PostError, Status, Wake, Waker, WorkRequest,
};
use crate::limits::MESSAGE_BYTES;
use std::time::{Duration, Instant};

/// `Done`s of one poll, and entries of one poll.
const POLL_BATCH: usize = 256;
/// Entries of one endpoint in one poll.
const ENDPOINT_BATCH: usize = 32;
/// Polls between two looks at the clock, and time between two at the sockets, for a port that never sleeps.
const POLLS_PER_CLOCK: u32 = 32;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What host and guest do differently.
pub(super) trait Side {
    /// Opens an endpoint.
    fn open(&self, core: &mut Core, spec: &EndpointSpec) -> Result<Opened, FabricError>;
    /// Connects one.
    fn connect(&self, core: &mut Core, endpoint: EndpointId, peer: &PeerInfo) -> Result<(), FabricError>;
    /// Makes one of this process to itself.
    fn loopback(&self, core: &mut Core, send_depth: u32) -> Result<EndpointId, FabricError>;
}

/// A port of either side.
pub(super) struct ShmPort<S> {
    pub(super) core: Core,
    pub(super) side: S,
}

impl<S: Side> Port for ShmPort<S> {
    fn open(&mut self, spec: &EndpointSpec) -> Result<Opened, FabricError> {
        self.side.open(&mut self.core, spec)
    }

    fn connect(&mut self, endpoint: EndpointId, peer: &PeerInfo) -> Result<(), FabricError> {
        self.side.connect(&mut self.core, endpoint, peer)
    }

    fn set_patience(&mut self, limit: Duration) {
        self.core.patience = limit.min(PATIENCE);
    }

    fn loopback(&mut self, send_depth: u32) -> Result<EndpointId, FabricError> {
        self.side.loopback(&mut self.core, send_depth)
    }

    fn room(&self, endpoint: EndpointId) -> usize {
        self.core.peek(endpoint).map_or(0, Endpoint::room)
    }

    fn post(&mut self, endpoint: EndpointId, chain: &mut Vec<WorkRequest<'_>>) -> Result<(), PostError> {
        self.core.post(endpoint, chain)
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> usize {
        self.core.poll(out)
    }

    fn take_message(&mut self, endpoint: EndpointId, slot: u32, into: &mut [u8; MESSAGE_BYTES]) -> Result<usize, FabricError> {
        let messages = self.core.endpoint(endpoint).and_then(|endpoint| endpoint.lanes.as_mut()?.messages_in.as_mut());
        messages.and_then(|messages| messages.take(slot, into)).ok_or_else(|| FabricError::Peer {
            field: "message slot",
            value: slot.to_string(),
            expected: "one that was announced and not taken yet".into(),
        })
    }

    fn sleep(&mut self, timeout: Duration) -> Result<Wake, FabricError> {
        self.core.sleep(timeout)
    }

    fn waker(&self) -> Waker {
        self.core.waker.clone()
    }

    fn offences(&self) -> u64 {
        self.core.offences
    }

    fn close(&mut self, endpoint: EndpointId) {
        if self.core.remove(endpoint).is_some() {
            // Its `Done`s still come; nobody wants to hear that it broke.
            self.core.queue.retain(|waiting| waiting.endpoint != endpoint || waiting.event != Event::Broken);
        }
    }
}

impl Core {
    fn post(&mut self, id: EndpointId, chain: &mut Vec<WorkRequest<'_>>) -> Result<(), PostError> {
        self.regions.renew();
        let (endpoint, regions, queue) = self.for_post(id).ok_or(PostError::Unknown)?;
        let entries = match endpoint.admit(chain) {
            Ok(entries) => entries,
            Err(refused) => {
                if let Some(misbehaved) = endpoint.suspect.take() {
                    self.broken(id, misbehaved.0);
                }
                return Err(refused);
            }
        };
        endpoint.starved = false;
        endpoint.queued += chain.len() as u32;
        let mut chain = chain.drain(..);
        for request in &mut chain {
            let (status, old) = execute::run(endpoint, regions, &request.verb);
            queue.push_back(Completion { endpoint: id, event: Event::Done { id: request.id, status, old } });
            if !status.is_ok() {
                endpoint.fail();
                queue.push_back(Completion { endpoint: id, event: Event::Broken });
                break;
            }
        }
        for request in chain {
            let event = Event::Done { id: request.id, status: Status::Flushed, old: 0 };
            queue.push_back(Completion { endpoint: id, event });
        }
        if entries > 0 {
            endpoint.ring();
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> usize {
        let before = out.len();
        self.regions.renew();
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_CLOCK) && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.look_at_sockets();
        }
        self.receive(out);
        for _ in 0..POLL_BATCH {
            let Some(completion) = self.queue.pop_front() else { break };
            if let (Event::Done { .. }, Some(endpoint)) = (completion.event, self.endpoint(completion.endpoint)) {
                endpoint.queued -= 1;
            }
            out.push(completion);
        }
        out.len() - before
    }

    /// Takes entries off the rings, a bounded number, beginning where the last poll left off.
    fn receive(&mut self, out: &mut Vec<Completion>) {
        let enough = out.len() + POLL_BATCH;
        for _ in 0..self.receivers.len() {
            if out.len() >= enough {
                break;
            }
            self.turn = if self.turn + 1 < self.receivers.len() { self.turn + 1 } else { 0 };
            let slot = self.receivers[self.turn];
            let Some(endpoint) = self.in_slot(slot).filter(|endpoint| endpoint.state == State::Ready) else { continue };
            if let Err(misbehaved) = take_entries(endpoint, out) {
                let id = endpoint.id;
                self.broken(id, misbehaved.0);
            }
        }
    }
}

/// Takes what waits on one endpoint. An error ends the endpoint.
#[inline]
fn take_entries(endpoint: &mut Endpoint, out: &mut Vec<Completion>) -> Result<(), Misbehaved> {
    if let Some(misbehaved) = endpoint.suspect.take() {
        return Err(misbehaved);
    }
    let Some(lanes) = &mut endpoint.lanes else { return Ok(()) };
    let before = out.len();
    if let Some(ring) = &mut lanes.immediates_in {
        while let Some((imm, bytes)) = (out.len() - before < ENDPOINT_BATCH).then(|| ring.next()).flatten() {
            if bytes > lanes.staging_bytes {
                return Err(Misbehaved("an immediate announces more than the staging ring holds"));
            }
            out.push(Completion { endpoint: endpoint.id, event: Event::Written { imm, bytes } });
        }
        if out.len() > before {
            ring.release();
        }
    }
    if let Some(ring) = &mut lanes.messages_in {
        while let Some(slot) = (out.len() - before < ENDPOINT_BATCH).then(|| ring.next()).flatten() {
            out.push(Completion { endpoint: endpoint.id, event: Event::Message { slot: slot? } });
        }
    }
    let taken = (out.len() - before) as u64;
    lanes.consumed(taken);
    match &mut endpoint.last_entries {
        // A peer that has hung up gets out what it had published, and no more.
        Some(_) if taken == 0 => Err(Misbehaved(HUNG_UP)),
        Some(left) if *left < taken => Err(Misbehaved("the peer has hung up and goes on")),
        Some(left) => {
            *left -= taken;
            Ok(())
        }
        None => Ok(()),
    }
}

//! What both sides' ports have: the endpoints, what they may use up, and the queue of what has happened.

use super::bell::Sleeper;
use super::call_failed;
use super::endpoint::{Endpoint, Posts, State};
use super::table::{Snapshot, Table};
use crate::fabric::{Completion, EndpointId, Event, FabricError, PortSpec, Waker};
use rustix::event::epoll;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// epoll's name for the waker; endpoints have their own ids.
pub(super) const WAKER: u64 = u64::MAX;
/// Why an endpoint broke whose peer has merely gone.
pub(super) const HUNG_UP: &str = "the peer has hung up";
/// Slot (16 bits) and generation (16 bits) of an endpoint's id. A slot whose generations are used up retires.
const SLOT_BITS: u32 = 16;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
const GENERATION_MAX: u32 = u32::MAX >> SLOT_BITS;

/// A port without what the two sides do differently.
pub(super) struct Core {
    name: String,
    /// How long a connect may wait.
    pub(super) patience: Duration,
    limit: u32,
    promised: u32,
    pub(super) regions: Snapshot,
    endpoints: Vec<Option<Endpoint>>,
    generations: Vec<u32>,
    vacant: Vec<u32>,
    /// Slots of the endpoints that have something to receive, in no order.
    pub(super) receivers: Vec<u32>,
    pub(super) turn: usize,
    /// `Done` and `Broken`, in the order in which they happened.
    pub(super) queue: VecDeque<Completion>,
    pub(super) epoll: OwnedFd,
    pub(super) events: Vec<epoll::Event>,
    pub(super) waker: Waker,
    /// Server: the word of the whole port.
    pub(super) sleeper: Option<Sleeper>,
    /// Endpoints broken for anything but a hang-up.
    pub(super) offences: u64,
    pub(super) polls: u32,
    /// When the sockets were last looked at by a poll.
    pub(super) looked: Instant,
}

impl Core {
    pub(super) fn new(spec: PortSpec, table: Arc<Table>) -> Result<Self, FabricError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| call_failed("epoll_create", e))?;
        let waker = Waker::new().map_err(|e| call_failed("eventfd", e))?;
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)
            .map_err(|e| call_failed("epoll_ctl", e))?;
        Ok(Self {
            name: spec.name,
            patience: super::dial::PATIENCE,
            limit: spec.completions,
            promised: 0,
            regions: Snapshot::new(table),
            endpoints: Vec::new(),
            generations: Vec::new(),
            vacant: Vec::new(),
            receivers: Vec::new(),
            turn: 0,
            queue: VecDeque::new(),
            epoll,
            events: Vec::with_capacity(64),
            waker,
            sleeper: None,
            offences: 0,
            polls: 0,
            looked: Instant::now(),
        })
    }

    /// Makes room for an endpoint, or says why there is none.
    pub(super) fn vacancy(&mut self, posts: Posts, send_depth: u32, recv_depth: u32) -> Result<Endpoint, FabricError> {
        let share = send_depth.saturating_add(recv_depth);
        let asked = self.promised.saturating_add(share);
        if asked > self.limit {
            let (asked, limit) = (u64::from(asked), u64::from(self.limit));
            return Err(FabricError::Limit { what: "completions outstanding on a port", asked, limit });
        }
        let slot = match self.vacant.last() {
            Some(&slot) => slot,
            None if self.generations.len() > SLOT_MASK as usize => {
                let limit = u64::from(SLOT_MASK) + 1;
                return Err(FabricError::Limit { what: "endpoints on a port", asked: limit + 1, limit });
            }
            None => self.generations.len() as u32,
        };
        let generation = self.generations.get(slot as usize).copied().unwrap_or(0);
        Ok(Endpoint::new(EndpointId((generation << SLOT_BITS) | slot), posts, send_depth, share))
    }

    /// Moves an endpoint in that was made for the vacancy.
    pub(super) fn insert(&mut self, endpoint: Endpoint) -> Result<(), FabricError> {
        let slot = endpoint.id.0 & SLOT_MASK;
        if let Some(socket) = &endpoint.socket {
            self.watch_socket(endpoint.id, socket)?;
        }
        if slot as usize == self.generations.len() {
            self.generations.push(0);
            self.endpoints.push(None);
        } else {
            self.vacant.pop();
        }
        self.promised += endpoint.share;
        if endpoint.lanes.is_some() {
            self.receivers.push(slot);
        }
        self.endpoints[slot as usize] = Some(endpoint);
        Ok(())
    }

    fn watch_socket(&self, id: EndpointId, socket: &OwnedFd) -> Result<(), FabricError> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        let data = epoll::EventData::new_u64(u64::from(id.0));
        epoll::add(&self.epoll, socket, data, flags).map_err(|e| call_failed("epoll_ctl", e))
    }

    /// Lets epoll watch the endpoint's socket, if it has one.
    pub(super) fn watch(&self, id: EndpointId) -> Result<(), FabricError> {
        match self.peek(id).and_then(|endpoint| endpoint.socket.as_ref()) {
            Some(socket) => self.watch_socket(id, socket),
            None => Ok(()),
        }
    }

    /// The endpoint's rings can be looked at from now on.
    pub(super) fn receives(&mut self, endpoint: EndpointId) {
        self.receivers.push(endpoint.0 & SLOT_MASK);
    }

    #[inline]
    pub(super) fn endpoint(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        self.endpoints.get_mut((id.0 & SLOT_MASK) as usize)?.as_mut().filter(|endpoint| endpoint.id == id)
    }

    #[inline]
    pub(super) fn in_slot(&mut self, slot: u32) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(slot as usize)?.as_mut()
    }

    /// Fails an endpoint and tells so, once.
    #[cold]
    pub(super) fn broken(&mut self, id: EndpointId, why: &str) {
        let name = self.name.clone();
        let Some(endpoint) = self.endpoint(id).filter(|endpoint| endpoint.state != State::Failed) else { return };
        endpoint.fail();
        tracing::debug!(port = name, endpoint = id.0, why, "endpoint broken");
        self.offences += u64::from(why != HUNG_UP);
        self.queue.push_back(Completion { endpoint: id, event: Event::Broken });
    }

    /// Takes an endpoint out, with all that it holds.
    pub(super) fn remove(&mut self, id: EndpointId) -> Option<Endpoint> {
        let slot = id.0 & SLOT_MASK;
        self.endpoint(id)?;
        let endpoint = self.endpoints[slot as usize].take()?;
        self.receivers.retain(|&receiver| receiver != slot);
        self.promised -= endpoint.share;
        let generation = &mut self.generations[slot as usize];
        if *generation < GENERATION_MAX {
            *generation += 1;
            self.vacant.push(slot);
        }
        Some(endpoint)
    }

    pub(super) fn peek(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.get((id.0 & SLOT_MASK) as usize)?.as_ref().filter(|endpoint| endpoint.id == id)
    }

    /// The endpoint, and what a post needs beside it.
    #[inline]
    pub(super) fn for_post(&mut self, id: EndpointId) -> Option<(&mut Endpoint, &Snapshot, &mut VecDeque<Completion>)> {
        let endpoint = self.endpoints.get_mut((id.0 & SLOT_MASK) as usize)?.as_mut().filter(|endpoint| endpoint.id == id)?;
        Some((endpoint, &self.regions, &mut self.queue))
    }
}

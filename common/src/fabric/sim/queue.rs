//! Completion queues as the world sees them, and the endpoints that complete into them.

use super::endpoint::{QueuePair, Stage};
use super::state::{State, with};
use crate::fabric::{Completion, EndpointId, EndpointSpec, Event, Role};
use std::collections::{BTreeMap, VecDeque};

/// Completions of one poll.
const POLL_BATCH: usize = 64;

/// A port of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortId(pub(super) u32);

/// A port as the world sees it.
pub(super) struct PortState {
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) out: VecDeque<Completion>,
    pub(super) asleep: bool,
    pub(super) woken: bool,
    pub(super) pairs: BTreeMap<EndpointId, u32>,
    next_endpoint: u32,
    pub(super) empty_polls: u32,
}

impl PortId {
    /// Ends its sleep, or the next one.
    pub(crate) fn wake(self) {
        with(|state| {
            let Some(port) = state.ports.get_mut(&self.0) else { return };
            port.woken = true;
            if port.asleep {
                let thread = port.thread;
                state.rouse(thread);
            }
        });
    }
}

impl State {
    pub(super) fn add_port(&mut self, process: u32) -> Option<u32> {
        let thread = self.current?;
        let number = self.next_port;
        self.next_port += 1;
        let port = PortState {
            process,
            thread,
            out: VecDeque::new(),
            asleep: false,
            woken: false,
            pairs: BTreeMap::new(),
            next_endpoint: 1,
            empty_polls: 0,
        };
        self.ports.insert(number, port);
        Some(number)
    }

    pub(super) fn add_pair(&mut self, port: u32, spec: &EndpointSpec) -> Option<(u32, EndpointId)> {
        let number = self.next_pair;
        let state = self.ports.get_mut(&port)?;
        self.next_pair += 1;
        let endpoint = EndpointId(state.next_endpoint);
        state.next_endpoint += 1;
        state.pairs.insert(endpoint, number);
        let pair = QueuePair {
            endpoint,
            port,
            process: state.process,
            role: spec.role,
            loopback: false,
            stage: Stage::Fresh,
            peer: None,
            send_depth: spec.send_depth,
            receives: spec.recv_depth,
            in_flight: 0,
            requests: VecDeque::new(),
            first: 0,
            next_start: 0,
            busy: false,
            messages: BTreeMap::new(),
            next_slot: 0,
            staging: None,
        };
        self.pairs.insert(number, pair);
        Some((number, endpoint))
    }

    /// Ends a port; what peers connected to answers on for a while if the process was killed.
    pub(super) fn drop_port(&mut self, number: u32) {
        let Some(port) = self.ports.get(&number) else { return };
        let dead = self.processes[port.process as usize].dead;
        let pairs: Vec<_> = port.pairs.iter().map(|(&endpoint, &pair)| (endpoint, pair)).collect();
        for (endpoint, pair) in pairs {
            let answers = self.pairs.get(&pair).is_some_and(|p| !matches!(p.role, Role::Reader | Role::Writer));
            if !(dead && answers) {
                self.close(number, endpoint);
            }
        }
        self.ports.remove(&number);
    }

    pub(super) fn take_batch(&mut self, number: u32, out: &mut Vec<Completion>) -> usize {
        let Some(port) = self.ports.get_mut(&number) else { return 0 };
        let count = port.out.len().min(POLL_BATCH);
        let batch: Vec<_> = port.out.drain(..count).collect();
        for completion in &batch {
            let Some((_, pair)) = self.pair_of(number, completion.endpoint) else { continue };
            match completion.event {
                Event::Done { .. } => pair.in_flight = pair.in_flight.saturating_sub(1),
                Event::Written { .. } => pair.receives += 1,
                Event::Message { .. } | Event::Broken => {}
            }
        }
        out.extend(batch);
        count
    }
}

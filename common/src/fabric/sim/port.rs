//! A thread's completion queue.

use super::actor;
use super::endpoint::Stage;
use super::queue::PortId;
use super::region::described;
use super::state::with;
use crate::fabric::{
    Access, Completion, EndpointId, EndpointSpec, FabricError, FabricKind, Opened, PeerInfo, Port, PostError, Role, Staging,
    VerbsPeer, Wake, Waker, WorkRequest,
};
use crate::limits::MESSAGE_BYTES;
use crate::memory::{Mapping, View};
use std::sync::Arc;
use std::time::Duration;

/// Empty polls after which a thread gives way, so that no loop around `poll` lasts for ever.
const EMPTY_POLLS: u32 = 8;

/// A port of a process.
pub(super) struct SimPort {
    number: u32,
    process: u32,
}

fn gone() -> FabricError {
    FabricError::Unsupported { kind: FabricKind::Verbs, what: "anything: the process is dead".into() }
}

impl SimPort {
    pub(super) fn new(process: u32) -> Result<Self, FabricError> {
        let number = with(|state| state.add_port(process)).flatten().ok_or_else(gone)?;
        Ok(Self { number, process })
    }

    fn staging(&self, pair: u32, bytes: usize) -> Result<Staging, FabricError> {
        let map = Arc::new(Mapping::anonymous("simulated ring", bytes)?);
        let key = with(|state| {
            let key = state.add_ring(self.process, &map);
            if let Some(pair) = state.pairs.get_mut(&pair) {
                pair.staging = Some(key);
            }
            key
        });
        let remote = described(key.ok_or_else(gone)?, bytes, Access::RemoteRead);
        Ok(Staging { view: View::whole(map), remote })
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        with(|state| state.drop_port(self.number));
    }
}

fn info(number: u32) -> PeerInfo {
    let mut gid = [0; 16];
    gid[10..12].fill(0xff);
    gid[12..].copy_from_slice(&[10, 0, 0, 1]);
    PeerInfo::Verbs(VerbsPeer {
        qpn: number,
        psn: number,
        lid: 0,
        gid,
        mtu_bytes: 1024,
        responder_depth: 16,
        initiator_depth: 16,
    })
}

impl Port for SimPort {
    fn open(&mut self, spec: &EndpointSpec) -> Result<Opened, FabricError> {
        let (pair, endpoint) = with(|state| state.add_pair(self.number, spec)).flatten().ok_or_else(gone)?;
        let staging = match spec.role {
            Role::WriteTarget { staging_bytes } => Some(self.staging(pair, staging_bytes)?),
            _ => None,
        };
        Ok(Opened { endpoint, info: info(pair), staging })
    }

    fn connect(&mut self, endpoint: EndpointId, peer: &PeerInfo) -> Result<(), FabricError> {
        let refuse = |value: String| FabricError::Peer { field: "qpn", value, expected: "a queue pair of this world".into() };
        let PeerInfo::Verbs(peer) = peer else { return Err(refuse(format!("{peer:?}"))) };
        with(|state| {
            let (_, pair) = state.pair_of(self.number, endpoint)?;
            pair.peer = Some(peer.qpn);
            pair.stage = Stage::Ready;
            Some(())
        })
        .flatten()
        .ok_or_else(|| refuse(peer.qpn.to_string()))
    }

    fn loopback(&mut self, send_depth: u32) -> Result<EndpointId, FabricError> {
        let spec = EndpointSpec { role: Role::Reader, send_depth, recv_depth: 0 };
        with(|state| {
            let (number, endpoint) = state.add_pair(self.number, &spec)?;
            let pair = state.pairs.get_mut(&number)?;
            (pair.loopback, pair.peer, pair.stage) = (true, Some(number), Stage::Ready);
            Some(endpoint)
        })
        .flatten()
        .ok_or_else(gone)
    }

    fn room(&self, endpoint: EndpointId) -> usize {
        with(|state| state.pair_of(self.number, endpoint).map_or(0, |(_, pair)| pair.room())).unwrap_or(0)
    }

    fn post(&mut self, endpoint: EndpointId, chain: &mut Vec<WorkRequest<'_>>) -> Result<(), PostError> {
        if actor::is_dead() {
            return Err(PostError::Broken);
        }
        let ponder = with(|state| if state.dice.one_in(4) { state.dice.thought() } else { 0 }).unwrap_or(0);
        if ponder > 0 {
            actor::sleep(Duration::from_nanos(ponder));
        }
        with(|state| state.post(self.number, endpoint, chain)).unwrap_or(Err(PostError::Broken))
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> usize {
        let count = with(|state| state.take_batch(self.number, out)).unwrap_or(0);
        let ponder = with(|state| {
            let port = state.ports.get_mut(&self.number)?;
            port.empty_polls = if count > 0 { EMPTY_POLLS } else { port.empty_polls + 1 };
            if port.empty_polls < EMPTY_POLLS {
                return None;
            }
            port.empty_polls = 0;
            Some(state.dice.thought())
        });
        // The process may be stopped right here: between the arrival of data and the look at the lease.
        if let Some(ponder) = ponder.flatten() {
            actor::sleep(Duration::from_nanos(ponder));
        }
        count
    }

    fn take_message(&mut self, endpoint: EndpointId, slot: u32, into: &mut [u8; MESSAGE_BYTES]) -> Result<usize, FabricError> {
        let message = with(|state| {
            let (_, pair) = state.pair_of(self.number, endpoint)?;
            let message = pair.messages.remove(&slot)?;
            pair.receives += 1;
            Some(message)
        });
        let message = message.flatten().ok_or_else(|| FabricError::Peer {
            field: "message slot",
            value: slot.to_string(),
            expected: "one that was announced and not taken yet".into(),
        })?;
        into[..message.len()].copy_from_slice(&message);
        Ok(message.len())
    }

    fn sleep(&mut self, timeout: Duration) -> Result<Wake, FabricError> {
        let look = |asleep: bool| {
            with(|state| {
                let port = state.ports.get_mut(&self.number)?;
                port.asleep = asleep && port.out.is_empty() && !port.woken;
                Some(match (port.out.is_empty(), std::mem::take(&mut port.woken)) {
                    (false, _) => Wake::Ready,
                    (true, true) => Wake::Woken,
                    (true, false) => Wake::TimedOut,
                })
            })
            .flatten()
            .unwrap_or(Wake::TimedOut)
        };
        match look(true) {
            Wake::TimedOut => {
                actor::sleep(timeout);
                Ok(look(false))
            }
            at_once => Ok(at_once),
        }
    }

    fn waker(&self) -> Waker {
        Waker::simulated(PortId(self.number))
    }

    fn close(&mut self, endpoint: EndpointId) {
        with(|state| {
            let staging = state.pair_of(self.number, endpoint).and_then(|(_, pair)| pair.staging);
            state.close(self.number, endpoint);
            staging.and_then(|key| state.regions.remove(&key))
        });
    }
}

//! What workers ask of the rest of the server.

use sidewire_common::cluster::MemberId;
use sidewire_common::cluster::change::Change;
use sidewire_common::fabric::{EndpointId, PeerInfo};
use std::time::Duration;

/// A link that a worker wants to another server's worker. It is answered by
/// [`Command::LinkAnswered`](crate::worker::Command::LinkAnswered).
#[derive(Clone, Debug)]
pub struct LinkAsk {
    /// This server.
    pub me: MemberId,
    /// The worker that asks.
    pub worker: u32,
    /// The other server.
    pub member: MemberId,
    /// Its worker.
    pub to_worker: u32,
    /// Its control plane.
    pub address: String,
    /// This side.
    pub peer: PeerInfo,
    /// This side's endpoint.
    pub endpoint: EndpointId,
}

/// What workers ask. No call may wait.
pub trait Hands: Send + Sync {
    /// A change of the map is wanted. It is made, or not: the next map tells, and workers ask again. The map that results
    /// from one is handed on to the workers before any later one.
    fn wish(&self, wish: Change);
    /// A link is wanted.
    fn ask_link(&self, ask: LinkAsk);
    /// What is left of this server's own lease; `None` when it needs none.
    fn lease_left(&self) -> Option<Duration> {
        None
    }
    /// Whether this server's own lease lasts, for whoever goes by the map of this epoch: one that was taken after another had
    /// run out is none by an earlier map.
    fn holds_lease(&self, _epoch: u32) -> bool {
        true
    }
    /// Which member of its cluster this server is; `None` when it runs alone. Asked after `lease_left`, it is whose lease
    /// that is, or a later one.
    fn member(&self) -> Option<MemberId> {
        None
    }
    /// Epoch of the map; 0 without one.
    fn map_epoch(&self) -> u32 {
        0
    }
    /// Epoch of the map that every client has to know before a shard that was handed over takes writes; 0 = none.
    fn awaited_epoch(&self) -> u32 {
        0
    }
    /// Every client knows this epoch, or its lease is over.
    fn clients_know(&self, _epoch: u32) {}
}

/// A server that runs alone.
pub struct Alone;

impl Hands for Alone {
    fn wish(&self, _: Change) {}
    fn ask_link(&self, _: LinkAsk) {}
}

//! A server for each member of the cluster that somebody needed.

use super::map_slot::MapSlot;
use crate::address::Address;
use crate::attach::Wishes;
use crate::attached::Attached;
use crate::control::{Control, Plane};
use crate::error::Error;
use crate::server::Server;
use crate::shared::Shared;
use crate::stats::AllStats;
use parking_lot::Mutex;
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_common::id::Incarnation;
use sidewire_proto::{cluster_map, v1};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What a server is within its cluster.
#[derive(Debug)]
pub(crate) struct Membership {
    pub id: MemberId,
    /// Its life; `None` in a static map, which knows no lives.
    pub incarnation: Option<Incarnation>,
    pub hash_seed: u64,
    pub map: Arc<MapSlot>,
    pub members: Weak<Members>,
}

/// How all servers of a client are reached and attached to.
#[derive(Clone)]
pub(crate) struct Manner {
    pub plane: Plane,
    pub wishes: Wishes,
    pub deadline: Duration,
    pub spin: Duration,
    pub packs: bool,
    pub stats: Arc<AllStats>,
}

/// The members of a cluster.
pub(crate) struct Members {
    pub map: Arc<MapSlot>,
    manner: Manner,
    /// Servers that the client was told of; asked when no member answers.
    pub(super) seeds: Vec<Control>,
    servers: Mutex<BTreeMap<MemberId, Arc<Server>>>,
    pub(super) me: Weak<Members>,
    /// The client ends: nothing is attached to any more.
    stopping: AtomicBool,
    /// Questions for a map that wait for their answers.
    pub(super) asking: AtomicU32,
    pub(super) asked_at: AtomicU64,
    pub(super) turn: AtomicUsize,
}

impl Members {
    /// Of a cluster with this map, to which nothing is attached yet.
    pub fn new(map: ClusterMap, manner: Manner, seeds: Vec<Control>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            map: Arc::new(MapSlot::new(map)),
            manner,
            seeds,
            servers: Mutex::default(),
            me: Weak::clone(me),
            stopping: AtomicBool::new(false),
            asking: AtomicU32::new(0),
            asked_at: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
        })
    }

    /// A member's control plane.
    pub fn control(&self, id: MemberId) -> Result<Control, Error> {
        if let Some(server) = self.servers.lock().get(&id) {
            return Ok(server.shared.control.clone());
        }
        let map = self.map.map();
        let Some(member) = map.members.get(&id) else {
            return Err(Error::ServerGone { server: id.to_string(), reason: "it is no member of the cluster".into() });
        };
        self.manner.plane.server(Address::parse(&member.address)?)
    }

    /// What a member is to those who attach to it.
    pub fn membership(&self, id: MemberId) -> Option<Membership> {
        let map = self.map.map();
        Some(Membership {
            id,
            incarnation: map.members.get(&id)?.incarnation,
            hash_seed: map.hash_seed,
            map: Arc::clone(&self.map),
            members: Weak::clone(&self.me),
        })
    }

    fn shared(&self, id: MemberId, attached: Option<Attached>) -> Option<Result<Arc<Shared>, Error>> {
        let membership = self.membership(id)?;
        Some(self.control(id).map(|control| Arc::new(Shared::new(control, &self.manner, attached, Some(membership)))))
    }

    /// A member to which the client has just attached.
    ///
    /// # Errors
    /// When its heartbeat cannot be connected within `limit`.
    pub fn joined(&self, id: MemberId, attached: Attached, limit: Duration) -> Result<(), Error> {
        let gone = || Error::ServerGone { server: id.to_string(), reason: "it is no member of the cluster any more".into() };
        let server = Server::begin(self.shared(id, Some(attached)).ok_or_else(gone)??, limit)?;
        self.servers.lock().insert(id, server);
        Ok(())
    }

    /// A member's server. One that nobody has needed yet begins to attach in the background.
    pub fn server(&self, id: MemberId) -> Option<Arc<Server>> {
        if let Some(server) = self.servers.lock().get(&id) {
            return Some(Arc::clone(server));
        }
        if self.stopping.load(Ordering::Acquire) {
            return None;
        }
        let begun = self.shared(id, None)?.and_then(|shared| Server::begin(shared, Duration::ZERO));
        match begun {
            // Another session may have needed it at the same moment: the first one stays.
            Ok(server) => Some(Arc::clone(self.servers.lock().entry(id).or_insert(server))),
            Err(error) => {
                tracing::warn!(%error, member = %id, "a member of the cluster cannot be attached to");
                None
            }
        }
    }

    /// The server of a member that somebody has needed.
    pub fn known(&self, id: MemberId) -> Option<Arc<Server>> {
        self.servers.lock().get(&id).cloned()
    }

    /// Whether what was sent to a member over its attachment `life` can be asked after no more, and never will be: it is
    /// attached to anew, and so has swept what this client was; or its map knows no lives.
    pub fn is_another_life(&self, id: MemberId, life: u64) -> bool {
        let is_static = self.map.map().members.get(&id).is_some_and(|member| member.incarnation.is_none());
        is_static || self.known(id).is_some_and(|server| server.shared.life() > life)
    }

    /// The client ends.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// The first server that the client was told of.
    pub fn seed(&self) -> Control {
        self.seeds[0].clone()
    }

    /// All servers that anybody has needed, the ids in order.
    pub fn all(&self) -> Vec<Arc<Server>> {
        self.servers.lock().values().cloned().collect()
    }

    /// A server told this map. Taken if it is later than the one that is known.
    pub fn offer(&self, told: v1::ClusterMap) {
        let taken = cluster_map::from_wire(told).map_err(|e| e.to_string());
        match taken.and_then(|map| self.map.offer(map).map_err(|e| e.to_string())) {
            Ok(true) => self.follow(),
            Ok(false) => {}
            Err(reason) => tracing::warn!(reason, "a server told a map of the cluster that cannot be right"),
        }
    }

    /// A later map was taken: what was attached to members that have left it ends, and whoever waits looks again.
    fn follow(&self) {
        let map = self.map.map();
        tracing::debug!(epoch = map.epoch, "a later map of the cluster");
        let mut departed = Vec::new();
        {
            let mut servers = self.servers.lock();
            servers.retain(|id, server| {
                let stays = map.members.contains_key(id);
                if !stays {
                    departed.push(Arc::clone(server));
                }
                stays
            });
        }
        departed.iter().for_each(|server| server.leave());
        for server in self.all() {
            server.shared.wake_sessions();
            let id = server.shared.member();
            if map.shards.iter().any(|shard| shard.waits_for.is_some() && shard.waits_for == id) {
                // Shards that it had are acked by nobody until its clients have acknowledged this map.
                server.shared.suspect();
            }
        }
    }
}

//! What the rest of a server asks of its membership, and tells it.

use super::store::Revision;
use super::{Hands, LinkAsk, Links};
use crate::worker::{Command, Workers};
use crossbeam::channel::{Sender, unbounded};
use parking_lot::{Mutex, RwLock};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::change::{Change, NodeChange};
use sidewire_common::cluster::{ClusterMap, MapError, MemberId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What the `kv-cluster` thread is told.
pub enum Event {
    /// A primary wants the map changed.
    Wish(Change),
    /// All clients of this server know this epoch, or their leases are over.
    ClientsKnow(u32),
    /// An operator wants a node changed; told the epoch of the map that has it.
    Node {
        /// The node's name.
        name: String,
        /// What of it.
        change: NodeChange,
        /// Told when it is in the map, or why not.
        reply: Sender<Result<u32, NodeError>>,
    },
    /// Something may have changed in the store.
    Nudge {
        /// Perhaps a member or the leader has gone.
        gone: bool,
    },
    /// Give the membership back and end.
    Stop,
}

/// Why a node was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The map does not allow it.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The store cannot be changed now.
    #[error("the map cannot be changed now: {0}; try again")]
    Store(String),
    /// The map comes from a file.
    #[error("this cluster's map is a file: change that, the same on all servers, and start them again")]
    Static,
}

/// Who lives and who leads, as this server last heard.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Members whose leases run.
    pub live: BTreeSet<MemberId>,
    /// Who plans.
    pub leader: Option<MemberId>,
}

type Listener = Box<dyn Fn(&Arc<ClusterMap>) + Send + Sync>;

/// A server's place in its cluster.
pub struct View {
    map: RwLock<(Arc<ClusterMap>, Revision)>,
    me: AtomicU32,
    /// Nanoseconds of the boot clock.
    lease_until: AtomicU64,
    /// Epoch that clients must know before shards that were handed over may be written to; 0 = none.
    /// Epoch of the map by which the lease was taken.
    entered_epoch: AtomicU32,
    awaited_epoch: AtomicU32,
    is_static: bool,
    standing: Mutex<Standing>,
    events: Sender<Event>,
    listeners: Mutex<Vec<Listener>>,
    workers: OnceLock<Arc<Workers>>,
    links: OnceLock<Links>,
}

impl View {
    /// Of a server that is about to enter the cluster of this map, and what it will be told.
    #[must_use]
    pub fn new(map: ClusterMap, revision: Revision) -> (Arc<Self>, crossbeam::channel::Receiver<Event>) {
        let (events, inbox) = unbounded();
        (Arc::new(Self::make(map, revision, events, None)), inbox)
    }

    /// Of a server with a map that never changes.
    #[must_use]
    pub fn fixed(map: ClusterMap, me: MemberId) -> Arc<Self> {
        Arc::new(Self::make(map, 0, unbounded().0, Some(me)))
    }

    fn make(map: ClusterMap, revision: Revision, events: Sender<Event>, fixed: Option<MemberId>) -> Self {
        let live = if fixed.is_some() { map.members.keys().copied().collect() } else { BTreeSet::new() };
        Self {
            map: RwLock::new((Arc::new(map), revision)),
            me: AtomicU32::new(fixed.map_or(0, |id| id.0)),
            lease_until: AtomicU64::new(if fixed.is_some() { u64::MAX } else { 0 }),
            entered_epoch: AtomicU32::new(0),
            awaited_epoch: AtomicU32::new(0),
            is_static: fixed.is_some(),
            standing: Mutex::new(Standing { live, leader: None }),
            events,
            listeners: Mutex::new(Vec::new()),
            workers: OnceLock::new(),
            links: OnceLock::new(),
        }
    }

    /// The map.
    #[must_use]
    pub fn map(&self) -> Arc<ClusterMap> {
        Arc::clone(&self.map.read().0)
    }

    pub(super) fn map_and_revision(&self) -> (Arc<ClusterMap>, Revision) {
        self.map.read().clone()
    }

    /// This server, once it has entered.
    #[must_use]
    pub fn my_id(&self) -> Option<MemberId> {
        Some(self.me.load(Ordering::Acquire)).filter(|&id| id != 0).map(MemberId)
    }

    /// Until when this server may answer for what it holds.
    #[must_use]
    pub fn lease_until(&self) -> BootInstant {
        BootInstant::from_nanos(self.lease_until.load(Ordering::Acquire))
    }

    /// Whether the map comes from a file.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.is_static
    }

    /// Who lives and who leads.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing.lock().clone()
    }

    /// Tells the thread. False when there is none, or it has ended.
    pub fn tell(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }

    /// Has `listener` called with each new map.
    pub fn listen(&self, listener: impl Fn(&Arc<ClusterMap>) + Send + Sync + 'static) {
        self.listeners.lock().push(Box::new(listener));
    }

    /// Nobody listens any more: the server is stopping.
    pub fn close(&self) {
        self.listeners.lock().clear();
    }

    /// The server's workers, which follow the map from here on, and how links to others are asked for.
    pub fn serve(&self, workers: Arc<Workers>, links: Links) {
        let _ = self.links.set(links);
        let _ = self.workers.set(workers);
        self.tell_workers();
    }

    pub(super) fn set_lease_until(&self, until: BootInstant) {
        self.lease_until.store(until.as_nanos(), Ordering::Release);
    }

    pub(super) fn set_awaited_epoch(&self, epoch: u32) {
        self.awaited_epoch.store(epoch, Ordering::Release);
    }

    pub(super) fn set_standing(&self, standing: Standing) {
        *self.standing.lock() = standing;
    }

    /// Takes a map that is later than the one known.
    pub(super) fn take(&self, map: ClusterMap, revision: Revision) {
        let map = Arc::new(map);
        *self.map.write() = (Arc::clone(&map), revision);
        self.tell_workers();
        for listener in &*self.listeners.lock() {
            listener(&map);
        }
    }

    /// This server is this member from now on, by the map of `epoch`.
    pub(super) fn become_member(&self, me: MemberId, epoch: u32) {
        self.entered_epoch.store(epoch, Ordering::Release);
        self.me.store(me.0, Ordering::Release);
    }

    fn tell_workers(&self) {
        let (Some(workers), Some(me)) = (self.workers.get(), self.my_id()) else { return };
        let map = self.map();
        for worker in 0..workers.count() {
            // One that has ended follows nothing.
            let _ = workers.send(worker, Command::Map { map: Arc::clone(&map), me });
        }
    }
}

impl Hands for View {
    fn wish(&self, wish: Change) {
        self.tell(Event::Wish(wish));
    }

    fn ask_link(&self, ask: LinkAsk) {
        if let (Some(links), Some(workers)) = (self.links.get(), self.workers.get()) {
            links.ask(workers, ask);
        }
    }

    fn lease_left(&self) -> Option<Duration> {
        (!self.is_static).then(|| self.lease_until().since(BootInstant::now()))
    }

    fn holds_lease(&self, epoch: u32) -> bool {
        // The lease first: one that was taken by a later map than the caller's comes with the epoch of that.
        let is_valid = self.is_static || !self.lease_until().since(BootInstant::now()).is_zero();
        is_valid && epoch >= self.entered_epoch.load(Ordering::Acquire)
    }

    fn member(&self) -> Option<MemberId> {
        self.my_id()
    }

    fn map_epoch(&self) -> u32 {
        self.map.read().0.epoch
    }

    fn awaited_epoch(&self) -> u32 {
        self.awaited_epoch.load(Ordering::Acquire)
    }

    fn clients_know(&self, epoch: u32) {
        self.tell(Event::ClientsKnow(epoch));
    }
}

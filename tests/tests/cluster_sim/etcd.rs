//! The store of the map in a simulated world: it compares and swaps, leases run out on the world's clock, and nodes can
//! be cut off from it.

use kv_server::cluster::store::{KeepError, MapStore, Revision, StoreError, SwapError};
use parking_lot::Mutex;
use sidewire_common::cluster::change::{NodeChange, change_node};
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_common::fabric::sim::time;
use sidewire_common::host;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Longest way there and back, microseconds.
const WAY_US_MAX: u64 = 1500;
/// How long a call waits that is not answered.
const SILENCE: Duration = Duration::from_millis(40);
/// One answer in so many is lost.
const LOST_ONE_IN: u32 = 60;

type Nudge = Box<dyn Fn(bool) + Send + Sync>;

#[derive(Default)]
struct State {
    map: Option<(ClusterMap, Revision)>,
    revision: Revision,
    /// Until when each member's key lives.
    keys: BTreeMap<MemberId, u64>,
    leader: Option<MemberId>,
    cut: BTreeSet<usize>,
    nudges: BTreeMap<usize, Nudge>,
    /// Epochs that were put, and calls that came here, for figures.
    swaps: u64,
    asks: u64,
}

/// The store.
#[derive(Clone, Default)]
pub struct Etcd(Arc<Mutex<State>>);

/// One node's way to it.
pub struct Way {
    etcd: Etcd,
    node: usize,
    me: Mutex<Option<MemberId>>,
    lease: Mutex<Duration>,
}

impl Etcd {
    /// A node's way.
    pub fn way(&self, node: usize) -> Arc<Way> {
        Arc::new(Way { etcd: self.clone(), node, me: Mutex::default(), lease: Mutex::default() })
    }

    /// Nothing gets through between a node and the store, or everything again.
    pub fn cut(&self, node: usize, cut: bool) {
        let mut state = self.0.lock();
        if cut {
            state.cut.insert(node);
        } else {
            state.cut.remove(&node);
        }
    }

    /// What an operator changes, by way of some server.
    pub fn drain(&self, node: &str, draining: bool) {
        let mut state = self.0.lock();
        let Some((map, _)) = state.map.clone() else { return };
        if let Ok(Some(next)) = change_node(&map, node, NodeChange::Draining(draining)) {
            state.put(&next);
        }
    }

    /// What a leader wished that knew another state of things: every shard is to go to its first backup.
    pub fn name_heirs(&self) {
        let mut state = self.0.lock();
        let Some((mut map, _)) = state.map.clone() else { return };
        for shard in map.shards.iter_mut().filter(|s| s.waits_for.is_none()) {
            shard.heir = shard.heir.or(shard.backups().first().copied());
        }
        map.epoch += 1;
        state.put(&map);
    }

    /// The map and who lives.
    pub fn look(&self) -> Option<(ClusterMap, BTreeSet<MemberId>)> {
        let mut state = self.0.lock();
        state.expire();
        let live = state.keys.keys().copied().collect();
        state.map.clone().map(|(map, _)| (map, live))
    }

    /// How many calls have come here.
    pub fn asks(&self) -> u64 {
        self.0.lock().asks
    }

    /// How often the map has changed.
    pub fn swaps(&self) -> u64 {
        self.0.lock().swaps
    }
}

impl State {
    fn expire(&mut self) {
        let (now, before) = (time(), self.keys.len());
        self.keys.retain(|_, until| *until > now);
        if self.keys.len() < before {
            self.nudges.values().for_each(|nudge| nudge(true));
        }
        self.leader = self.leader.filter(|leader| self.keys.contains_key(leader));
    }

    fn put(&mut self, map: &ClusterMap) -> Revision {
        self.revision += 1;
        self.swaps += 1;
        self.map = Some((map.clone(), self.revision));
        self.nudges.values().for_each(|nudge| nudge(false));
        self.revision
    }
}

fn unreachable(what: &'static str) -> StoreError {
    StoreError { what, reason: "no answer".into(), is_final: false }
}

impl Way {
    /// Asks the store; the answer may be lost after the deed.
    fn ask<T>(&self, what: &'static str, deed: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        host::sleep(Duration::from_micros(host::random_in(20..WAY_US_MAX)));
        if self.etcd.0.lock().cut.contains(&self.node) {
            host::sleep(SILENCE);
            return Err(unreachable(what));
        }
        let done = {
            let mut state = self.etcd.0.lock();
            state.asks += 1;
            state.expire();
            deed(&mut state)
        };
        host::sleep(Duration::from_micros(host::random_in(20..WAY_US_MAX)));
        if host::random_in(0..LOST_ONE_IN) == 0 {
            host::sleep(SILENCE);
            return Err(unreachable(what));
        }
        Ok(done)
    }
}

impl MapStore for Way {
    fn load(&self) -> Result<Option<(ClusterMap, Revision)>, StoreError> {
        self.ask("load", |state| state.map.clone())
    }

    fn create(&self, map: &ClusterMap) -> Result<Revision, SwapError> {
        self.ask("create", |state| if state.map.is_some() { Err(SwapError::Conflict) } else { Ok(state.put(map)) })?
    }

    fn enter(
        &self,
        map: &ClusterMap,
        revision: Revision,
        me: MemberId,
        lease: Duration,
    ) -> Result<(Revision, Duration), SwapError> {
        let entered = self.ask("enter", |state| {
            if state.map.as_ref().is_none_or(|(_, there)| *there != revision) {
                return Err(SwapError::Conflict);
            }
            state.keys.insert(me, time() + lease.as_nanos() as u64);
            Ok((state.put(map), lease))
        });
        let entered = entered??;
        (*self.me.lock(), *self.lease.lock()) = (Some(me), lease);
        Ok(entered)
    }

    fn swap(&self, map: &ClusterMap, revision: Revision) -> Result<Revision, SwapError> {
        let me = *self.me.lock();
        self.ask("swap", |state| {
            if me.is_none_or(|me| !state.keys.contains_key(&me)) {
                return Err(SwapError::Gone);
            }
            if state.map.as_ref().is_none_or(|(_, there)| *there != revision) {
                return Err(SwapError::Conflict);
            }
            Ok(state.put(map))
        })?
    }

    fn keep_alive(&self) -> Result<Duration, KeepError> {
        let (me, lease) = (*self.me.lock(), *self.lease.lock());
        self.ask("keep alive", |state| match me.and_then(|me| state.keys.get_mut(&me)) {
            Some(until) => {
                *until = time() + lease.as_nanos() as u64;
                Ok(lease)
            }
            None => Err(KeepError::Gone),
        })?
    }

    fn live(&self) -> Result<BTreeSet<MemberId>, StoreError> {
        self.ask("live", |state| state.keys.keys().copied().collect())
    }

    fn lead(&self) -> Result<Option<MemberId>, StoreError> {
        let me = *self.me.lock();
        self.ask("lead", |state| {
            if state.leader.is_none() {
                state.leader = me.filter(|me| state.keys.contains_key(me));
            }
            state.leader
        })
    }

    fn leave(&self) -> Result<(), StoreError> {
        let me = *self.me.lock();
        self.ask("leave", |state| me.and_then(|me| state.keys.remove(&me))).map(drop)
    }

    fn watch(&self, nudge: Nudge) {
        self.etcd.0.lock().nudges.insert(self.node, nudge);
    }
}

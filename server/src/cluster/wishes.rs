//! Changes of the map that this server wants and that are not made yet.

use super::view::NodeError;
use crossbeam::channel::Sender;
use sidewire_common::cluster::change::{Change, NodeChange, apply, change_node};
use sidewire_common::cluster::{ClusterMap, MemberId, Reign};
use std::collections::BTreeMap;

/// Wishes that wait at once; workers repeat those that are left out.
const WISHES_MAX: usize = 4096;

struct Node {
    name: String,
    change: NodeChange,
    reply: Sender<Result<u32, NodeError>>,
    /// Whether it is in the map that is being swapped in.
    applied: bool,
}

/// What waits to be made.
#[derive(Default)]
pub(super) struct Wishes {
    changes: Vec<Change>,
    nodes: Vec<Node>,
    /// Shards that wait for this server's clients, with the epoch at which that was first seen: at or after the one in
    /// which it began.
    waiting: BTreeMap<(u32, Reign), u32>,
    clients_know: u32,
}

impl Wishes {
    pub(super) fn wish(&mut self, change: Change) {
        if self.changes.len() < WISHES_MAX && !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    pub(super) fn clients_know(&mut self, epoch: u32) {
        self.clients_know = self.clients_know.max(epoch);
        self.release();
    }

    pub(super) fn node(&mut self, name: String, change: NodeChange, reply: Sender<Result<u32, NodeError>>) {
        self.nodes.push(Node { name, change, reply, applied: false });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.nodes.is_empty()
    }

    /// Notes which shards wait for clients of `me`; tells the epoch that those have to know, 0 = none.
    pub(super) fn follow(&mut self, map: &ClusterMap, me: MemberId) -> u32 {
        let waits: BTreeMap<(u32, Reign), u32> = (0..)
            .zip(&map.shards)
            .filter(|(_, s)| s.waits_for == Some(me))
            .map(|(shard, s)| ((shard, s.reign), self.waiting.get(&(shard, s.reign)).copied().unwrap_or(map.epoch)))
            .collect();
        self.waiting = waits;
        self.release();
        self.waiting.values().copied().max().unwrap_or(0)
    }

    fn release(&mut self) {
        let known = self.clients_know;
        let shards: Vec<(u32, Reign)> = self.waiting.iter().filter(|(_, epoch)| **epoch <= known).map(|(&key, _)| key).collect();
        let change = Change::ClientsKnow { shards };
        if change != (Change::ClientsKnow { shards: Vec::new() }) && !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    /// The map with everything that it allows; the rest is dropped. `None` when nothing is left to be made.
    pub(super) fn applied_to(&mut self, map: &ClusterMap, me: MemberId) -> Option<ClusterMap> {
        let mut next = map.clone();
        self.changes.retain(|change| match apply(&next, me, change) {
            Ok(Some(changed)) => {
                next = changed;
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::debug!(%error, "a wish is not granted");
                false
            }
        });
        self.nodes.retain_mut(|node| match change_node(&next, &node.name, node.change) {
            Ok(changed) => {
                node.applied = true;
                next = changed.unwrap_or_else(|| next.clone());
                true
            }
            Err(error) => {
                let _ = node.reply.try_send(Err(error.into()));
                false
            }
        });
        if next == *map {
            self.made(map.epoch);
            return None;
        }
        // Many changes, one step.
        next.epoch = map.epoch + 1;
        Some(next)
    }

    /// What was applied is in the map of this epoch.
    pub(super) fn made(&mut self, epoch: u32) {
        self.changes.clear();
        for node in self.nodes.drain(..).filter(|node| node.applied) {
            let _ = node.reply.try_send(Ok(epoch));
        }
    }

    /// Nothing was made, or that is not known.
    pub(super) fn failed(&mut self, error: &NodeError) {
        self.changes.clear();
        self.release();
        for node in self.nodes.drain(..) {
            let _ = node.reply.try_send(Err(error.clone()));
        }
    }

    /// This server is another member: what the one before wished is void.
    pub(super) fn forget(&mut self) {
        self.changes.clear();
        self.waiting.clear();
        self.clients_know = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidewire_common::cluster::Member;
    use sidewire_common::cluster::change::join;
    use sidewire_common::cluster::plan::{Pace, plan};
    use std::collections::BTreeSet;

    const ME: MemberId = MemberId(1);

    /// Two members with two copies of each shard; the first waits for nothing yet.
    fn map() -> ClusterMap {
        let mut map = ClusterMap::new("demo".into(), 7, 2);
        for name in ["a", "b"] {
            let member = Member { name: name.into(), address: "h:1".into(), incarnation: None, weight: 100, draining: false };
            map = join(&map, member).unwrap().0;
        }
        let mut map = plan(&map, &map.members.keys().copied().collect(), &BTreeSet::new(), Pace::default()).unwrap();
        for shard in &mut map.shards {
            let (MemberId(first), _) = (shard.in_sync[0], shard.syncing.clear());
            shard.in_sync.push(MemberId(3 - first));
        }
        map
    }

    #[test]
    fn clients_release_only_what_was_handed_over_by_then() {
        let mut map = map();
        let mut wishes = Wishes::default();
        map.shards[0].waits_for = Some(ME);
        map.shards[0].in_sync = vec![MemberId(2), ME];
        map.epoch = 10;
        assert_eq!(wishes.follow(&map, ME), 10);
        map.shards[1].waits_for = Some(ME);
        map.shards[1].in_sync = vec![MemberId(2), ME];
        map.epoch = 11;
        assert_eq!(wishes.follow(&map, ME), 11, "shard 0 is still the one of epoch 10");
        wishes.clients_know(9);
        assert!(wishes.is_empty());
        wishes.clients_know(10);
        let next = wishes.applied_to(&map, ME).unwrap();
        assert_eq!((next.shards[0].waits_for, next.shards[1].waits_for), (None, Some(ME)));
        assert_eq!(next.epoch, 12);
        wishes.made(next.epoch);
        assert_eq!(wishes.follow(&next, ME), 11);
        assert!(wishes.is_empty());
    }

    #[test]
    fn wishes_of_another_time_go_and_the_rest_is_one_step() {
        let map = map();
        let mut wishes = Wishes::default();
        let mine: Vec<u32> = (0..256).filter(|&s| map.shard(s).primary() == Some(ME)).collect();
        for &shard in &mine[..3] {
            wishes.wish(Change::Drop { shard, reign: 1, member: MemberId(2) });
        }
        wishes.wish(Change::Drop { shard: mine[0], reign: 7, member: MemberId(2) });
        let (reply, told) = crossbeam::channel::bounded(1);
        wishes.node("b".into(), NodeChange::Draining(true), reply);
        let next = wishes.applied_to(&map, ME).unwrap();
        assert_eq!(next.epoch, map.epoch + 1);
        assert_eq!(next.shards.iter().filter(|s| s.in_sync.len() == 1).count(), 3);
        wishes.made(next.epoch);
        assert_eq!(told.recv().unwrap(), Ok(next.epoch));
        assert!(wishes.is_empty());
    }

    #[test]
    fn operators_hear_of_what_failed() {
        let mut wishes = Wishes::default();
        let (reply, told) = crossbeam::channel::bounded(2);
        wishes.node("nobody".into(), NodeChange::Draining(true), reply.clone());
        assert!(wishes.applied_to(&map(), ME).is_none());
        assert!(matches!(told.try_recv().unwrap(), Err(NodeError::Map(_))));
        wishes.node("a".into(), NodeChange::Weight(5), reply);
        wishes.failed(&NodeError::Static);
        assert_eq!(told.try_recv().unwrap(), Err(NodeError::Static));
    }
}

//! The map that all sessions of a client share.

use parking_lot::RwLock;
use sidewire_common::cluster::{ClusterMap, MemberId, Reign};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The latest map, and its epoch for a look without a lock.
#[derive(Debug)]
pub(crate) struct MapSlot {
    map: RwLock<Arc<ClusterMap>>,
    epoch: AtomicU32,
}

/// Why a map is not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the map of another cluster: {0}")]
pub(crate) struct Foreign(String);

impl MapSlot {
    /// With a first map.
    pub fn new(map: ClusterMap) -> Self {
        Self { epoch: AtomicU32::new(map.epoch), map: RwLock::new(Arc::new(map)) }
    }

    /// The epoch of the map by which operations begin from now on.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The map.
    pub fn map(&self) -> Arc<ClusterMap> {
        Arc::clone(&self.map.read())
    }

    /// Takes a later map; true when it is one.
    ///
    /// # Errors
    /// When it is another cluster's.
    pub fn offer(&self, map: ClusterMap) -> Result<bool, Foreign> {
        let mut slot = self.map.write();
        if map.name != slot.name {
            return Err(Foreign(format!("its name is {}, not {}", map.name, slot.name)));
        }
        if map.hash_seed != slot.hash_seed {
            return Err(Foreign(format!("{} with another hash seed", map.name)));
        }
        if map.epoch <= slot.epoch {
            return Ok(false);
        }
        let epoch = map.epoch;
        *slot = Arc::new(map);
        // Whoever sees a heartbeat that tells this epoch can be sure: operations that begin from here on see it.
        self.epoch.store(epoch, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Ok(true)
    }

    /// Whether this is still the primary of `shard`, in the same reign.
    pub fn is_primary(&self, shard: u32, member: MemberId, reign: Reign) -> bool {
        let map = self.map.read();
        let shard = map.shard(shard);
        shard.primary() == Some(member) && shard.reign == reign
    }

    /// Whether `shard` is in a later reign.
    pub fn is_later(&self, shard: u32, reign: Reign) -> bool {
        self.map.read().shard(shard).reign > reign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(name: &str, epoch: u32) -> ClusterMap {
        ClusterMap { epoch, ..ClusterMap::new(name.into(), 7, 1) }
    }

    #[test]
    fn later_maps_of_the_same_cluster_are_taken() {
        let slot = MapSlot::new(map("demo", 4));
        assert_eq!(slot.offer(map("demo", 4)), Ok(false));
        assert_eq!(slot.offer(map("demo", 3)), Ok(false));
        assert_eq!(slot.offer(map("demo", 6)), Ok(true));
        assert_eq!((slot.epoch(), slot.map().epoch), (6, 6));
        assert!(slot.offer(map("other", 9)).is_err());
        assert!(slot.offer(ClusterMap { hash_seed: 8, ..map("demo", 9) }).is_err());
        assert_eq!(slot.epoch(), 6);
    }
}

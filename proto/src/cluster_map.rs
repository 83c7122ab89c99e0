//! The cluster map between its wire form and the strict one.

use crate::convert::ConvertError;
use crate::v1;
use sidewire_common::cluster::{Assignment, ClusterMap, MEMBERS_MAX, MapError, Member, MemberId, REPLICAS_MAX};
use sidewire_common::id::Incarnation;
use sidewire_common::key::SHARD_COUNT;

impl From<MapError> for ConvertError {
    fn from(error: MapError) -> Self {
        Self::new(error.field, error.value, error.expected)
    }
}

/// A map that a peer or a store told, checked.
///
/// # Errors
/// At the first field that cannot be accepted.
pub fn from_wire(wire: v1::ClusterMap) -> Result<ClusterMap, ConvertError> {
    if wire.members.len() > MEMBERS_MAX {
        return Err(ConvertError::new("members", wire.members.len(), "at most 256"));
    }
    if wire.shards.len() != SHARD_COUNT as usize {
        return Err(ConvertError::new("shards", wire.shards.len(), "exactly 256"));
    }
    let mut map = ClusterMap::new(wire.name, wire.hash_seed, wire.replicas);
    (map.epoch, map.next_member, map.lost) = (wire.epoch, wire.next_member, wire.lost);
    for member in wire.members {
        let id = MemberId(member.id);
        let incarnation = (member.incarnation != 0).then_some(Incarnation(member.incarnation));
        let v1::ClusterMember { name, address, weight, draining, .. } = member;
        if map.members.insert(id, Member { name, address, incarnation, weight, draining }).is_some() {
            return Err(ConvertError::new("member.id", id, "each member once"));
        }
    }
    map.shards = wire.shards.into_iter().map(assignment).collect::<Result<_, _>>()?;
    map.check()?;
    Ok(map)
}

fn assignment(wire: v1::ShardAssignment) -> Result<Assignment, ConvertError> {
    // Whoever is filled may come besides all that are wanted, when a shard moves.
    if wire.in_sync.len() + wire.syncing.len() > 2 * REPLICAS_MAX as usize {
        return Err(ConvertError::new("shard.holders", wire.in_sync.len() + wire.syncing.len(), "at most 6"));
    }
    let ids = |list: Vec<u32>| list.into_iter().map(MemberId).collect();
    let some = |id: u32| (id != 0).then_some(MemberId(id));
    Ok(Assignment {
        reign: wire.reign,
        in_sync: ids(wire.in_sync),
        syncing: ids(wire.syncing),
        heir: some(wire.heir),
        waits_for: some(wire.waits_for),
    })
}

/// The wire form.
#[must_use]
pub fn to_wire(map: &ClusterMap) -> v1::ClusterMap {
    let members = map.members.iter().map(|(id, member)| v1::ClusterMember {
        id: id.0,
        name: member.name.clone(),
        address: member.address.clone(),
        incarnation: member.incarnation.map_or(0, |i| i.0),
        weight: member.weight,
        draining: member.draining,
    });
    let ids = |list: &[MemberId]| list.iter().map(|id| id.0).collect();
    let shards = map.shards.iter().map(|shard| v1::ShardAssignment {
        reign: shard.reign,
        in_sync: ids(&shard.in_sync),
        syncing: ids(&shard.syncing),
        heir: shard.heir.map_or(0, |id| id.0),
        waits_for: shard.waits_for.map_or(0, |id| id.0),
    });
    v1::ClusterMap {
        name: map.name.clone(),
        epoch: map.epoch,
        hash_seed: map.hash_seed,
        replicas: map.replicas,
        members: members.collect(),
        next_member: map.next_member,
        shards: shards.collect(),
        lost: map.lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> ClusterMap {
        let mut map = ClusterMap::new("demo".into(), 7, 2);
        let member = Member {
            name: "a".into(),
            address: "127.0.0.1:7400".into(),
            incarnation: Some(Incarnation(9)),
            weight: 100,
            draining: true,
        };
        map.members.insert(MemberId(1), member.clone());
        map.members.insert(MemberId(2), Member { name: "b".into(), incarnation: None, draining: false, ..member });
        map.next_member = 3;
        map.shards[3] = Assignment {
            reign: 2,
            in_sync: vec![MemberId(1), MemberId(2)],
            syncing: vec![],
            heir: Some(MemberId(2)),
            waits_for: None,
        };
        map
    }

    #[test]
    fn a_map_comes_back() {
        assert_eq!(from_wire(to_wire(&map())), Ok(map()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let refused = |change: fn(&mut v1::ClusterMap)| {
            let mut wire = to_wire(&map());
            change(&mut wire);
            from_wire(wire).unwrap_err().field
        };
        assert_eq!(refused(|w| drop(w.shards.pop())), "shards");
        assert_eq!(refused(|w| w.members[1].id = 1), "member.id");
        assert_eq!(refused(|w| w.shards[3].in_sync = (1..8).collect()), "shard.holders");
        assert_eq!(refused(|w| w.shards[3].heir = 7), "shard.heir");
        assert_eq!(refused(|w| w.epoch = 0), "epoch");
    }
}

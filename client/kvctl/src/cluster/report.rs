//! What a map comes to.

use sidewire::v1::StatusReply;
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_proto::cluster_map::from_wire;
use sidewire_proto::convert::ConvertError;

/// A member, and what it has.
pub struct MemberReport {
    pub id: MemberId,
    pub name: String,
    pub address: String,
    pub weight: u32,
    pub draining: bool,
    pub is_live: bool,
    pub leads: bool,
    pub primaries: usize,
    pub backups: usize,
    pub syncing: usize,
}

impl MemberReport {
    /// Shards of which it has anything.
    pub fn holds(&self) -> usize {
        self.primaries + self.backups + self.syncing
    }
}

/// A cluster.
pub struct Report {
    pub map: ClusterMap,
    pub members: Vec<MemberReport>,
    /// Who answered.
    pub told_by: u32,
    pub lease_left_ms: u64,
    pub static_map: bool,
    pub settled: bool,
    /// Shards with fewer copies in sync than are wanted.
    pub lacking: Vec<usize>,
    /// Shards that are being filled or handed over.
    pub moving: usize,
}

impl Report {
    /// # Errors
    /// When the map told is none.
    pub fn of(status: &StatusReply) -> Result<Self, ConvertError> {
        let map = from_wire(status.map.clone().unwrap_or_default())?;
        let count = |of: &dyn Fn(&sidewire_common::cluster::Assignment) -> bool| map.shards.iter().filter(|s| of(s)).count();
        let members = map.members.iter().map(|(&id, member)| MemberReport {
            id,
            name: member.name.clone(),
            address: member.address.clone(),
            weight: member.weight,
            draining: member.draining,
            is_live: status.live.contains(&id.0),
            leads: status.leader == id.0,
            primaries: count(&|s| s.primary() == Some(id)),
            backups: count(&|s| s.backups().contains(&id)),
            syncing: count(&|s| s.syncing.contains(&id)),
        });
        let members = members.collect();
        let lacks = |at: &usize| map.shards[*at].in_sync.len() < map.replicas as usize;
        let lacking = (0..map.shards.len()).filter(lacks).collect();
        let moves = |s: &sidewire_common::cluster::Assignment| !s.syncing.is_empty() || s.heir.is_some() || s.waits_for.is_some();
        let moving = count(&moves);
        Ok(Self {
            members,
            told_by: status.member,
            lease_left_ms: status.lease_left_ms,
            static_map: status.static_map,
            settled: status.settled,
            lacking,
            moving,
            map,
        })
    }

    /// A member's name with its number.
    pub fn name(&self, id: MemberId) -> String {
        self.map.members.get(&id).map_or_else(|| id.to_string(), |member| format!("{}{id}", member.name))
    }
}

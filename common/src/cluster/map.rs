//! The map itself and what makes one acceptable.

use crate::id::Incarnation;
use crate::key::SHARD_COUNT;
use std::collections::BTreeMap;
use std::fmt;

/// Copies of a shard at most.
pub const REPLICAS_MAX: u32 = 3;
/// Members of a cluster at most.
pub const MEMBERS_MAX: usize = 256;
/// Bytes of a cluster's or node's name at most.
pub const NAME_BYTES_MAX: usize = 63;
/// Largest weight of a member.
pub const WEIGHT_MAX: u32 = 1000;

/// One life of one server in a cluster. A server that starts again is another member: it comes empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MemberId(pub u32);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// How often a shard's primary has changed. Rises with each change; 0 is none.
pub type Reign = u32;

/// A server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The node's name; two lives of a node share it.
    pub name: String,
    /// Its control plane, `host:port`.
    pub address: String,
    /// The life; `None` in a static map, which knows no lives.
    pub incarnation: Option<Incarnation>,
    /// Its share of the shards, relative to the others'.
    pub weight: u32,
    /// Its shards are to go elsewhere.
    pub draining: bool,
}

/// Who has a shard.
///
/// | | |
/// | --- | --- |
/// | `in_sync[0]` | the primary: alone in taking writes and answering reads |
/// | `in_sync[1..]` | backups that have every acked write |
/// | `syncing` | backups that are being filled; nothing waits for them |
/// | `heir` | the in-sync backup to which the primary is to hand the shard over |
/// | `waits_for` | who was primary in the reign before, and whose clients may not know of this one: until this is cleared the primary acks nothing. It may be the primary itself |
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Assignment {
    /// How often the primary has changed or begun again.
    pub reign: Reign,
    /// The primary first. Empty only in a cluster that has no server.
    pub in_sync: Vec<MemberId>,
    /// Being filled.
    pub syncing: Vec<MemberId>,
    /// Who is to be primary next.
    pub heir: Option<MemberId>,
    /// Whose clients must have learnt of this reign first.
    pub waits_for: Option<MemberId>,
}

impl Assignment {
    /// The primary.
    #[must_use]
    pub fn primary(&self) -> Option<MemberId> {
        self.in_sync.first().copied()
    }

    /// In-sync replicas besides the primary.
    #[must_use]
    pub fn backups(&self) -> &[MemberId] {
        self.in_sync.get(1..).unwrap_or_default()
    }

    /// Everybody who has or gets a copy.
    pub fn holders(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.in_sync.iter().chain(&self.syncing).copied()
    }
}

/// The map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterMap {
    /// The cluster's name.
    pub name: String,
    /// Rises by one with each change.
    pub epoch: u32,
    /// Seed of the key hash, the same in all servers.
    pub hash_seed: u64,
    /// Copies of each shard that are wanted.
    pub replicas: u32,
    /// Servers.
    pub members: BTreeMap<MemberId, Member>,
    /// The id that the next member gets.
    pub next_member: u32,
    /// By shard; exactly [`SHARD_COUNT`].
    pub shards: Vec<Assignment>,
    /// Shards that were begun anew since the last in-sync copy was gone, since the cluster was made.
    pub lost: u64,
}

/// Why a map is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cluster map: {field} is {value}: {expected}")]
pub struct MapError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub expected: &'static str,
}

fn refuse(field: &'static str, value: impl ToString, expected: &'static str) -> Result<(), MapError> {
    Err(MapError { field, value: value.to_string(), expected })
}

/// Checks a cluster's or node's name: 1 to 63 of `a-z 0-9 . - _`.
///
/// # Errors
/// When it is another.
pub fn check_name(field: &'static str, name: &str) -> Result<(), MapError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_');
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain) {
        Ok(())
    } else {
        refuse(field, format!("{name:?}"), "1 to 63 characters out of a-z, 0-9, dot, dash and underscore")
    }
}

impl ClusterMap {
    /// A cluster without servers.
    #[must_use]
    pub fn new(name: String, hash_seed: u64, replicas: u32) -> Self {
        let shards = vec![Assignment::default(); SHARD_COUNT as usize];
        Self { name, epoch: 1, hash_seed, replicas, members: BTreeMap::new(), next_member: 1, shards, lost: 0 }
    }

    /// The assignment of a shard.
    #[must_use]
    pub fn shard(&self, shard: u32) -> &Assignment {
        &self.shards[shard as usize]
    }

    /// A shard's primary and its server.
    #[must_use]
    pub fn primary(&self, shard: u32) -> Option<(MemberId, &Member)> {
        let id = self.shards.get(shard as usize)?.primary()?;
        Some((id, self.members.get(&id)?))
    }

    /// The member of this life.
    #[must_use]
    pub fn member_of(&self, incarnation: Incarnation) -> Option<MemberId> {
        self.members.iter().find(|(_, m)| m.incarnation == Some(incarnation)).map(|(&id, _)| id)
    }

    /// Checks everything that a reader leans on.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), MapError> {
        check_name("name", &self.name)?;
        if self.epoch == 0 {
            refuse("epoch", 0, "at least 1")?;
        }
        if !(1..=REPLICAS_MAX).contains(&self.replicas) {
            refuse("replicas", self.replicas, "1 to 3")?;
        }
        if self.members.len() > MEMBERS_MAX {
            refuse("members", self.members.len(), "at most 256")?;
        }
        if self.shards.len() != SHARD_COUNT as usize {
            refuse("shards", self.shards.len(), "exactly 256")?;
        }
        for (id, member) in &self.members {
            self.check_member(*id, member)?;
        }
        self.shards.iter().try_for_each(|shard| self.check_shard(shard))
    }

    fn check_member(&self, id: MemberId, member: &Member) -> Result<(), MapError> {
        check_name("member.name", &member.name)?;
        if id.0 == 0 || id.0 >= self.next_member {
            refuse("member.id", id, "from 1 to below next_member")?;
        }
        if !(1..=WEIGHT_MAX).contains(&member.weight) {
            refuse("member.weight", member.weight, "1 to 1000")?;
        }
        let address = &member.address;
        if address.is_empty() || address.len() > 300 || !address.bytes().all(|b| b.is_ascii_graphic()) {
            refuse("member.address", format!("{address:?}"), "host:port, at most 300 printable characters")?;
        }
        Ok(())
    }

    fn check_shard(&self, shard: &Assignment) -> Result<(), MapError> {
        let holders: Vec<MemberId> = shard.holders().collect();
        for (at, id) in holders.iter().enumerate() {
            if !self.members.contains_key(id) {
                refuse("shard.holder", id, "a member of the map")?;
            }
            if holders[..at].contains(id) {
                refuse("shard.holder", id, "each member once")?;
            }
        }
        if (shard.reign == 0) != shard.in_sync.is_empty() || (shard.in_sync.is_empty() && !shard.syncing.is_empty()) {
            refuse("shard.reign", shard.reign, "0 if and only if nobody holds the shard")?;
        }
        if let Some(heir) = shard.heir
            && !shard.backups().contains(&heir)
        {
            refuse("shard.heir", heir, "an in-sync backup")?;
        }
        if let Some(former) = shard.waits_for
            && !self.members.contains_key(&former)
        {
            refuse("shard.waits_for", former, "a member of the map")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> ClusterMap {
        let mut map = ClusterMap::new("demo".into(), 7, 2);
        for id in 1..=2 {
            let member = Member {
                name: format!("node-{id}"),
                address: format!("127.0.0.1:740{id}"),
                incarnation: None,
                weight: 100,
                draining: false,
            };
            map.members.insert(MemberId(id), member);
        }
        map.next_member = 3;
        map.shards[0] = Assignment { reign: 1, in_sync: vec![MemberId(1), MemberId(2)], ..Assignment::default() };
        map
    }

    fn refused(change: impl FnOnce(&mut ClusterMap)) -> &'static str {
        let mut map = map();
        change(&mut map);
        map.check().unwrap_err().field
    }

    #[test]
    fn each_field_is_checked() {
        assert_eq!(map().check(), Ok(()));
        assert_eq!(refused(|m| m.name = "Demo".into()), "name");
        assert_eq!(refused(|m| m.epoch = 0), "epoch");
        assert_eq!(refused(|m| m.replicas = 4), "replicas");
        assert_eq!(refused(|m| drop(m.shards.pop())), "shards");
        assert_eq!(refused(|m| m.next_member = 2), "member.id");
        assert_eq!(refused(|m| m.members.get_mut(&MemberId(1)).unwrap().weight = 0), "member.weight");
        assert_eq!(refused(|m| m.members.get_mut(&MemberId(1)).unwrap().address = "a b".into()), "member.address");
        assert_eq!(refused(|m| m.shards[0].syncing.push(MemberId(2))), "shard.holder");
        assert_eq!(refused(|m| m.shards[0].syncing.push(MemberId(9))), "shard.holder");
        assert_eq!(refused(|m| m.shards[0].reign = 0), "shard.reign");
        assert_eq!(refused(|m| m.shards[0].heir = Some(MemberId(1))), "shard.heir");
        assert_eq!(refused(|m| m.shards[0].waits_for = Some(MemberId(9))), "shard.waits_for");
    }
}

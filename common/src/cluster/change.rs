//! What members change in the map: a primary in its own shards, a server that comes, an operator.
//!
//! Each is made on the map as it is now and refuses when that does not allow it any more: what a primary wished in one
//! reign must not come true in another.

use super::map::{Assignment, ClusterMap, MEMBERS_MAX, MapError, Member, MemberId, Reign, WEIGHT_MAX, check_name};
use crate::id::Incarnation;
use crate::key::SHARD_COUNT;

/// A primary's change of one of its shards, or a former primary's word on its clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A backup that was being filled has everything.
    InSync {
        /// The shard.
        shard: u32,
        /// The primary's reign.
        reign: Reign,
        /// Who.
        member: MemberId,
    },
    /// A backup does not follow: no write waits for it any more.
    Drop {
        /// The shard.
        shard: u32,
        /// The primary's reign.
        reign: Reign,
        /// Who.
        member: MemberId,
    },
    /// The primary has closed the shard and handed it to the heir.
    HandedOver {
        /// The shard.
        shard: u32,
        /// The primary's reign, which ends.
        reign: Reign,
        /// The heir that has everything; another may be named by now.
        to: MemberId,
    },
    /// A promoted primary found that a backup has more than itself: that one is to be primary.
    Cede {
        /// The shard.
        shard: u32,
        /// The primary's reign, which ends.
        reign: Reign,
        /// The backup with the longer log.
        to: MemberId,
    },
    /// The heir that the primary has closed the shard for is named no more: it reigns anew, since what clients held in this
    /// reign was taken from them.
    BeginAgain {
        /// The shard.
        shard: u32,
        /// The primary's reign, which ends.
        reign: Reign,
    },
    /// All clients of a former primary know of the hand-overs that ended in these reigns.
    ClientsKnow {
        /// Shards, each with the reign in which it waits.
        shards: Vec<(u32, Reign)>,
    },
}

/// Why a change is not made. None of these is worth trying again: the map has gone another way.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no such shard.
    #[error("shard is {0}, at most 255")]
    Shard(u32),
    /// The member is not the shard's primary.
    #[error("shard {shard}: {by} is not its primary, {}", primary.map_or_else(|| "nobody is".into(), |id| format!("{id} is")))]
    NotPrimary {
        /// The shard.
        shard: u32,
        /// Who wished.
        by: MemberId,
        /// Who is.
        primary: Option<MemberId>,
    },
    /// The shard is in another reign.
    #[error("shard {shard}: reign is {now}, the change was for {given}")]
    Reign {
        /// The shard.
        shard: u32,
        /// The map's.
        now: Reign,
        /// The change's.
        given: Reign,
    },
    /// The member named has not the part that the change takes it for.
    #[error("shard {shard}: {member} is not {expected}")]
    Part {
        /// The shard.
        shard: u32,
        /// Who.
        member: MemberId,
        /// What it should be.
        expected: &'static str,
    },
    /// There is no heir any more.
    #[error("shard {0}: no heir is named")]
    NoHeir(u32),
    /// Clients of a former primary may still read there.
    #[error("shard {shard}: clients of {former} may still read there")]
    Waits {
        /// The shard.
        shard: u32,
        /// Who was primary.
        former: MemberId,
    },
}

/// The map with a change of `by`; `None` when it is there already.
///
/// # Errors
/// When the map does not allow it.
pub fn apply(map: &ClusterMap, by: MemberId, change: &Change) -> Result<Option<ClusterMap>, ChangeError> {
    let mut next = map.clone();
    match *change {
        Change::InSync { shard, reign, member } => in_sync(own(&mut next, shard, reign, by)?, shard, member)?,
        Change::Drop { shard, reign, member } => drop_backup(own(&mut next, shard, reign, by)?, shard, member)?,
        Change::HandedOver { shard, reign, to } => hand_over(own(&mut next, shard, reign, by)?, shard, by, to)?,
        Change::BeginAgain { shard, reign } => begin_again(own(&mut next, shard, reign, by)?, shard, by)?,
        Change::Cede { shard, reign, to } => cede(own(&mut next, shard, reign, by)?, shard, to)?,
        Change::ClientsKnow { ref shards } => {
            for &(shard, reign) in shards {
                let assignment = next.shards.get_mut(shard as usize).ok_or(ChangeError::Shard(shard))?;
                if assignment.waits_for == Some(by) && assignment.reign == reign {
                    assignment.waits_for = None;
                }
            }
        }
    }
    if next == *map {
        return Ok(None);
    }
    next.epoch += 1;
    Ok(Some(next))
}

/// The assignment of a shard that `by` is primary of in `reign`.
fn own(map: &mut ClusterMap, shard: u32, reign: Reign, by: MemberId) -> Result<&mut Assignment, ChangeError> {
    if shard >= SHARD_COUNT {
        return Err(ChangeError::Shard(shard));
    }
    let assignment = &mut map.shards[shard as usize];
    if assignment.reign != reign {
        return Err(ChangeError::Reign { shard, now: assignment.reign, given: reign });
    }
    let primary = assignment.primary();
    if primary == Some(by) { Ok(assignment) } else { Err(ChangeError::NotPrimary { shard, by, primary }) }
}

fn in_sync(assignment: &mut Assignment, shard: u32, member: MemberId) -> Result<(), ChangeError> {
    if assignment.backups().contains(&member) {
        return Ok(());
    }
    let at = assignment.syncing.iter().position(|id| *id == member);
    let at = at.ok_or(ChangeError::Part { shard, member, expected: "being filled" })?;
    assignment.syncing.remove(at);
    assignment.in_sync.push(member);
    Ok(())
}

fn drop_backup(assignment: &mut Assignment, shard: u32, member: MemberId) -> Result<(), ChangeError> {
    if assignment.primary() == Some(member) {
        return Err(ChangeError::Part { shard, member, expected: "a backup" });
    }
    if assignment.waits_for == Some(member) {
        return Err(ChangeError::Waits { shard, former: member });
    }
    assignment.in_sync.retain(|id| *id != member);
    assignment.syncing.retain(|id| *id != member);
    assignment.heir = assignment.heir.filter(|heir| *heir != member);
    Ok(())
}

fn hand_over(assignment: &mut Assignment, shard: u32, by: MemberId, to: MemberId) -> Result<(), ChangeError> {
    let heir = assignment.heir.ok_or(ChangeError::NoHeir(shard))?;
    if heir != to {
        return Err(ChangeError::Part { shard, member: to, expected: "the heir" });
    }
    if let Some(former) = assignment.waits_for {
        return Err(ChangeError::Waits { shard, former });
    }
    enthrone(assignment, heir);
    assignment.waits_for = Some(by);
    Ok(())
}

fn begin_again(assignment: &mut Assignment, shard: u32, by: MemberId) -> Result<(), ChangeError> {
    if let Some(former) = assignment.waits_for {
        return Err(ChangeError::Waits { shard, former });
    }
    assignment.reign += 1;
    assignment.waits_for = Some(by);
    Ok(())
}

fn cede(assignment: &mut Assignment, shard: u32, to: MemberId) -> Result<(), ChangeError> {
    if !assignment.backups().contains(&to) {
        return Err(ChangeError::Part { shard, member: to, expected: "an in-sync backup" });
    }
    enthrone(assignment, to);
    Ok(())
}

/// Makes an in-sync backup the primary; whoever was it is the first backup.
fn enthrone(assignment: &mut Assignment, next: MemberId) {
    assignment.in_sync.retain(|id| *id != next);
    assignment.in_sync.insert(0, next);
    assignment.reign += 1;
    assignment.heir = None;
}

/// The map with a member more, and its id.
///
/// # Errors
/// When there are as many as there may be, or a field of the member is refused.
pub fn join(map: &ClusterMap, member: Member) -> Result<(ClusterMap, MemberId), MapError> {
    if map.members.len() >= MEMBERS_MAX {
        return Err(MapError { field: "members", value: map.members.len().to_string(), expected: "fewer than 256" });
    }
    let mut next = map.clone();
    let id = MemberId(next.next_member);
    next.next_member += 1;
    next.epoch += 1;
    next.members.insert(id, member);
    next.check()?;
    Ok((next, id))
}

/// The map with a member in it again whose lease had run out, the life of it that it was; `None` when it is in it no more.
/// Whatever the map still gives it is as it left it: others have taken nothing of that without a change of the map. A later
/// epoch says that there was a time in which it did not live.
#[must_use]
pub fn come_back(map: &ClusterMap, id: MemberId, life: Option<Incarnation>) -> Option<ClusterMap> {
    let is_in_it = life.is_some() && map.members.get(&id)?.incarnation == life;
    is_in_it.then(|| ClusterMap { epoch: map.epoch + 1, ..map.clone() })
}

/// The map without a member that holds nothing; with it when it holds something, since the leader has to see to that
/// first.
#[must_use]
pub fn leave(map: &ClusterMap, id: MemberId) -> Option<ClusterMap> {
    let is_named = |s: &Assignment| s.waits_for == Some(id) || s.holders().any(|holder| holder == id);
    if map.shards.iter().any(is_named) || !map.members.contains_key(&id) {
        return None;
    }
    let mut next = map.clone();
    next.members.remove(&id);
    next.epoch += 1;
    Some(next)
}

/// What an operator changes of a node: all its lives that are in the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeChange {
    /// Whether its shards are to go elsewhere.
    Draining(bool),
    /// Its share, relative to the others'.
    Weight(u32),
}

/// The map with a node changed; `None` when it is so already.
///
/// # Errors
/// When there is no such node, or the weight is none.
pub fn change_node(map: &ClusterMap, name: &str, change: NodeChange) -> Result<Option<ClusterMap>, MapError> {
    check_name("node", name)?;
    if let NodeChange::Weight(weight) = change
        && !(1..=WEIGHT_MAX).contains(&weight)
    {
        return Err(MapError { field: "weight", value: weight.to_string(), expected: "1 to 1000" });
    }
    let mut next = map.clone();
    let mut lives = next.members.values_mut().filter(|m| m.name == name).peekable();
    if lives.peek().is_none() {
        return Err(MapError { field: "node", value: format!("{name:?}"), expected: "the name of a member" });
    }
    for member in lives {
        match change {
            NodeChange::Draining(draining) => member.draining = draining,
            NodeChange::Weight(weight) => member.weight = weight,
        }
    }
    if next == *map {
        return Ok(None);
    }
    next.epoch += 1;
    Ok(Some(next))
}

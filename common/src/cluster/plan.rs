//! The leader's next step: one new map that brings many shards nearer to where they should be.
//!
//! | what is found | what is done |
//! | --- | --- |
//! | a member is gone | it leaves every list; nobody waits for it; it leaves the map when nothing names it |
//! | a primary is gone | a live in-sync backup becomes primary, reign + 1; with none, the shard begins empty, reign + 1, lost + 1, unless one of them is hoped for |
//! | a shard has too few copies, or others than it should | the missing members are set to be filled, so many at a time |
//! | another member should be primary | once that is in sync and nobody waits, it becomes *heir* |
//! | all copies that should be there are, and more | the others leave |
//!
//! A step is taken from the map alone: whoever leads next goes on with the same plan.

use super::map::{Assignment, ClusterMap, MemberId};
use super::placement::place;
use std::collections::{BTreeMap, BTreeSet};

/// How much may be under way at once. Each move costs memory traffic and, when it hands over, a pause of its shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Shards that one member receives at once, and that one member sends.
    pub fills: u32,
    /// Shards that one member hands over at once.
    pub hand_overs: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { fills: 16, hand_overs: 16 }
    }
}

/// The next map, or `None` when all is as it should be, or waits for a primary. `live` holds every member whose lease
/// has not run out, `hoped_for` those that may yet come back as they were: while no in-sync copy of a shard lives, and one
/// is hoped for, nothing is done with it.
#[must_use]
pub fn plan(map: &ClusterMap, live: &BTreeSet<MemberId>, hoped_for: &BTreeSet<MemberId>, pace: Pace) -> Option<ClusterMap> {
    let mut next = map.clone();
    let weights = eligible(map, live);
    let left = left_alone(map, live, hoped_for);
    next.shards.iter_mut().zip(&left).filter(|(_, left)| !**left).for_each(|(shard, _)| bury(shard, live));
    let mut wanted = place(&next.shards, &weights, map.replicas);
    wanted.iter_mut().zip(&left).filter(|(_, left)| **left).for_each(|(wanted, _)| wanted.clear());
    for (shard, wanted) in next.shards.iter_mut().zip(&wanted) {
        next.lost += u64::from(enthrone(shard, wanted, live));
    }
    let mut budget = Budget::of(&next, pace);
    // Shards that lack copies come before those that merely move.
    for lacking in [true, false] {
        for (shard, wanted) in next.shards.iter_mut().zip(&wanted) {
            if !wanted.is_empty() && (shard.in_sync.len() < wanted.len()) == lacking {
                fill(shard, wanted, &mut budget);
            }
        }
    }
    for (shard, wanted) in next.shards.iter_mut().zip(&wanted) {
        name_heir(shard, wanted, &mut budget);
        trim(shard, wanted);
    }
    let named = named(&next);
    next.members.retain(|id, _| live.contains(id) || named.contains(id));
    if next == *map {
        return None;
    }
    next.epoch += 1;
    Some(next)
}

/// Whether every shard is where it should be, with all its copies, and nothing is under way.
#[must_use]
pub fn is_settled(map: &ClusterMap, live: &BTreeSet<MemberId>) -> bool {
    let quiet = |s: &Assignment| s.syncing.is_empty() && s.heir.is_none() && s.waits_for.is_none();
    map.shards.iter().all(quiet) && plan(map, live, &BTreeSet::new(), Pace::default()).is_none()
}

/// Shards that wait for a copy to come back.
fn left_alone(map: &ClusterMap, live: &BTreeSet<MemberId>, hoped_for: &BTreeSet<MemberId>) -> Vec<bool> {
    let is_left =
        |s: &Assignment| s.in_sync.iter().any(|id| hoped_for.contains(id)) && !s.in_sync.iter().any(|id| live.contains(id));
    map.shards.iter().map(is_left).collect()
}

/// Members that shards may go to, with their weights: not those that drain, nor an earlier life of a node that lives
/// again. When that leaves nobody, whoever lives keeps what it has.
fn eligible(map: &ClusterMap, live: &BTreeSet<MemberId>) -> BTreeMap<MemberId, u32> {
    let alive = || map.members.iter().filter(|(id, _)| live.contains(id));
    let is_latest = |id: MemberId, name: &str| !alive().any(|(&other, m)| other > id && m.name == name);
    let chosen = alive().filter(|(id, m)| !m.draining && is_latest(**id, &m.name));
    let chosen: BTreeMap<MemberId, u32> = chosen.map(|(&id, m)| (id, m.weight)).collect();
    if chosen.is_empty() { alive().map(|(&id, m)| (id, m.weight)).collect() } else { chosen }
}

/// Takes the dead out of every list but the primary's place.
fn bury(shard: &mut Assignment, live: &BTreeSet<MemberId>) {
    let primary = shard.primary();
    shard.in_sync.retain(|id| Some(*id) == primary || live.contains(id));
    shard.syncing.retain(|id| live.contains(id));
    shard.heir = shard.heir.filter(|id| live.contains(id));
    // Its clients' leases ended before its own did.
    shard.waits_for = shard.waits_for.filter(|id| live.contains(id));
}

/// Gives a shard without a live primary another one; true when its data was lost.
fn enthrone(shard: &mut Assignment, wanted: &[MemberId], live: &BTreeSet<MemberId>) -> bool {
    let Some(&first) = wanted.first() else { return false };
    let Some(primary) = shard.primary() else {
        *shard = Assignment { reign: shard.reign + 1, in_sync: vec![first], ..Assignment::default() };
        return false;
    };
    if live.contains(&primary) {
        return false;
    }
    shard.in_sync.retain(|id| *id != primary);
    let is_lost = shard.in_sync.is_empty();
    if is_lost {
        shard.in_sync.push(first);
        shard.syncing.clear();
    } else if let Some(at) = shard.in_sync.iter().position(|id| *id == first) {
        shard.in_sync[..=at].rotate_right(1);
    }
    shard.reign += 1;
    shard.heir = None;
    is_lost
}

/// What may still be begun.
struct Budget {
    pace: Pace,
    receiving: BTreeMap<MemberId, u32>,
    sending: BTreeMap<MemberId, u32>,
    handing: BTreeMap<MemberId, u32>,
}

impl Budget {
    fn of(map: &ClusterMap, pace: Pace) -> Self {
        let mut budget = Self { pace, receiving: BTreeMap::new(), sending: BTreeMap::new(), handing: BTreeMap::new() };
        for shard in &map.shards {
            let Some(primary) = shard.primary() else { continue };
            for id in &shard.syncing {
                *budget.receiving.entry(*id).or_default() += 1;
                *budget.sending.entry(primary).or_default() += 1;
            }
            if let Some(from) = shard.heir.map(|_| primary).or(shard.waits_for) {
                *budget.handing.entry(from).or_default() += 1;
            }
        }
        budget
    }

    fn may_fill(&mut self, from: MemberId, to: MemberId) -> bool {
        let (sends, receives) = (self.sending.entry(from).or_default(), self.receiving.entry(to).or_default());
        let may = *sends < self.pace.fills && *receives < self.pace.fills;
        *sends += u32::from(may);
        *receives += u32::from(may);
        may
    }

    fn may_hand_over(&mut self, from: MemberId) -> bool {
        let hands = self.handing.entry(from).or_default();
        let may = *hands < self.pace.hand_overs;
        *hands += u32::from(may);
        may
    }
}

fn fill(shard: &mut Assignment, wanted: &[MemberId], budget: &mut Budget) {
    let Some(primary) = shard.primary() else { return };
    shard.syncing.retain(|id| wanted.contains(id));
    for id in wanted {
        if !shard.holders().any(|holder| holder == *id) && budget.may_fill(primary, *id) {
            shard.syncing.push(*id);
        }
    }
}

fn name_heir(shard: &mut Assignment, wanted: &[MemberId], budget: &mut Budget) {
    let (Some(primary), Some(&first)) = (shard.primary(), wanted.first()) else { return };
    if first == primary {
        shard.heir = None;
        return;
    }
    // Another heir than was named costs no further hand-over.
    let may = match shard.heir {
        Some(heir) => heir != first,
        None => shard.waits_for.is_none() && budget.may_hand_over(primary),
    };
    if shard.backups().contains(&first) && may {
        shard.heir = Some(first);
    }
}

/// Whoever is waited for stays: its clients may still read there.
fn trim(shard: &mut Assignment, wanted: &[MemberId]) {
    if wanted.is_empty() || !wanted.iter().all(|id| shard.in_sync.contains(id)) {
        return;
    }
    let (primary, waits_for) = (shard.primary(), shard.waits_for);
    shard.in_sync.retain(|id| wanted.contains(id) || Some(*id) == primary || Some(*id) == waits_for);
}

fn named(map: &ClusterMap) -> BTreeSet<MemberId> {
    map.shards.iter().flat_map(|shard| shard.holders().chain(shard.waits_for)).collect()
}

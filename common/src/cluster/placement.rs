//! Who is to have which shard: exact shares by weight, and of all such placements one that moves little.
//!
//! Primaries are settled first: a primary stays where it is unless its member has too many, and goes to a member that
//! has a copy already if that helps. Then the copies around them: those that are there stay, surplus ones leave where there
//! is most, and missing ones come where there is least. The result depends on the arguments alone, and what is
//! placed already comes back unchanged.

use super::map::{Assignment, MemberId};
use super::quota::quotas;
use crate::key::SHARD_COUNT;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// For each shard its holders, the primary first. `weights` names the members that may hold anything.
#[must_use]
pub fn place(shards: &[Assignment], weights: &BTreeMap<MemberId, u32>, replicas: u32) -> Vec<Vec<MemberId>> {
    if weights.is_empty() {
        return vec![Vec::new(); shards.len()];
    }
    let copies = replicas.min(weights.len() as u32);
    let mut primaries = Loads::new(quotas(weights, SHARD_COUNT, SHARD_COUNT));
    let chosen = place_primaries(shards, &mut primaries);
    let loads = Loads::new(quotas(weights, SHARD_COUNT * copies, SHARD_COUNT));
    Copies::around(shards, chosen, loads, copies as usize).settle()
}

/// What each member has, and what it is due.
struct Loads {
    due: BTreeMap<MemberId, i64>,
    has: BTreeMap<MemberId, i64>,
}

impl Loads {
    fn new(quotas: BTreeMap<MemberId, u32>) -> Self {
        let has = quotas.keys().map(|&id| (id, 0)).collect();
        Self { due: quotas.into_iter().map(|(id, quota)| (id, i64::from(quota))).collect(), has }
    }

    fn members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.due.keys().copied()
    }

    fn knows(&self, id: MemberId) -> bool {
        self.due.contains_key(&id)
    }

    fn add(&mut self, id: MemberId, by: i64) {
        *self.has.entry(id).or_default() += by;
    }

    /// Above zero: it has more than it is due.
    fn surplus(&self, id: MemberId) -> i64 {
        self.has[&id] - self.due[&id]
    }

    /// Who has most above what it is due, if anybody has.
    fn fullest(&self) -> Option<MemberId> {
        self.members().filter(|&id| self.surplus(id) > 0).max_by_key(|&id| (self.surplus(id), Reverse(id)))
    }

    fn emptiest(&self, among: impl Iterator<Item = MemberId>) -> Option<MemberId> {
        among.min_by_key(|&id| (self.surplus(id), id))
    }
}

fn place_primaries(shards: &[Assignment], loads: &mut Loads) -> Vec<MemberId> {
    let mut chosen: Vec<Option<MemberId>> = shards.iter().map(|s| s.primary().filter(|&id| loads.knows(id))).collect();
    for id in chosen.iter().flatten() {
        loads.add(*id, 1);
    }
    // Whoever has everything comes before whoever would begin empty.
    for has_copies in [true, false] {
        for (shard, primary) in shards.iter().zip(&mut chosen).filter(|(_, primary)| primary.is_none()) {
            let copies = shard.backups().iter().copied().filter(|&id| loads.knows(id));
            let found = if has_copies { loads.emptiest(copies) } else { begin_at(shard, loads) };
            if let Some(id) = found {
                loads.add(id, 1);
                *primary = Some(id);
            }
        }
    }
    let mut chosen: Vec<MemberId> = chosen.into_iter().flatten().collect();
    while let Some(from) = loads.fullest() {
        let path = path(loads, from, |x| {
            let of = shards.iter().zip(&chosen).enumerate().filter(move |(_, (_, primary))| **primary == x);
            of.flat_map(|(at, (shard, _))| shard.in_sync.iter().map(move |&id| (at, id))).collect()
        });
        let path = path.unwrap_or_else(|| {
            let at = chosen.iter().position(|&id| id == from).unwrap_or_default();
            loads.emptiest(loads.members()).map(|to| (at, from, to)).into_iter().collect()
        });
        for (at, from, to) in path {
            chosen[at] = to;
            loads.add(from, -1);
            loads.add(to, 1);
        }
    }
    chosen
}

/// Where a shard without copies begins: not where it was being filled, if that can be, since half a copy lies there.
fn begin_at(shard: &Assignment, loads: &Loads) -> Option<MemberId> {
    let elsewhere = loads.members().filter(|id| !shard.syncing.contains(id));
    loads.emptiest(elsewhere).or_else(|| loads.emptiest(loads.members()))
}

/// The shortest way from a member with too much to one with too little, over steps (shard, to) that `steps` of a member
/// tells, cheapest first: the shards that change hands.
fn path(
    loads: &Loads,
    from: MemberId,
    steps: impl Fn(MemberId) -> Vec<(usize, MemberId)>,
) -> Option<Vec<(usize, MemberId, MemberId)>> {
    let mut came: BTreeMap<MemberId, (usize, MemberId, u32)> = BTreeMap::from([(from, (0, from, 0))]);
    let mut queue = VecDeque::from([from]);
    let mut best: Option<(u32, i64, MemberId)> = None;
    while let Some(x) = queue.pop_front() {
        let depth = came[&x].2 + 1;
        if best.is_some_and(|(found, ..)| depth > found) {
            break;
        }
        for (shard, to) in steps(x) {
            if loads.knows(to) && !came.contains_key(&to) {
                came.insert(to, (shard, x, depth));
                queue.push_back(to);
                let surplus = loads.surplus(to);
                if surplus < 0 {
                    let this = (depth, surplus, to);
                    best = Some(best.map_or(this, |best| best.min(this)));
                }
            }
        }
    }
    let (_, _, mut at) = best?;
    let mut path = Vec::new();
    while at != from {
        let (shard, x, _) = came[&at];
        path.push((shard, x, at));
        at = x;
    }
    Some(path)
}

/// Holders of all shards while they are being settled.
struct Copies<'a> {
    shards: &'a [Assignment],
    holders: Vec<Vec<MemberId>>,
    loads: Loads,
    /// Copies of each shard.
    count: usize,
    /// How many shards a primary and a backup share: a member's death then loads the others evenly.
    pairs: BTreeMap<(MemberId, MemberId), u32>,
}

impl<'a> Copies<'a> {
    fn around(shards: &'a [Assignment], primaries: Vec<MemberId>, mut loads: Loads, count: usize) -> Self {
        let mut pairs = BTreeMap::new();
        let mut holders = Vec::with_capacity(shards.len());
        for (shard, primary) in shards.iter().zip(primaries) {
            let others = shard.holders().filter(|&id| id != primary && loads.knows(id));
            let all: Vec<MemberId> = std::iter::once(primary).chain(others).collect();
            for &id in &all {
                loads.add(id, 1);
            }
            for &id in &all[1..] {
                *pairs.entry((primary, id)).or_default() += 1;
            }
            holders.push(all);
        }
        Self { shards, holders, loads, count, pairs }
    }

    fn settle(mut self) -> Vec<Vec<MemberId>> {
        // Whoever has too much gives first; then any.
        for only_surplus in [true, false] {
            for at in 0..self.holders.len() {
                while self.holders[at].len() > self.count && self.trim(at, only_surplus) {}
            }
        }
        for at in 0..self.holders.len() {
            while self.holders[at].len() < self.count && self.fill(at) {}
        }
        while let Some(from) = self.loads.fullest() {
            let Some(path) = path(&self.loads, from, |x| self.steps(x)) else { break };
            for (at, from, to) in path {
                self.holders[at].retain(|&id| id != from);
                self.holders[at].push(to);
                self.loads.add(from, -1);
                self.loads.add(to, 1);
            }
        }
        self.holders
    }

    fn trim(&mut self, at: usize, only_surplus: bool) -> bool {
        let holders = &self.holders[at];
        let Some(most) = (1..holders.len()).max_by_key(|&n| (self.loads.surplus(holders[n]), n)) else { return false };
        let id = holders[most];
        if only_surplus && self.loads.surplus(id) <= 0 {
            return false;
        }
        self.holders[at].remove(most);
        self.loads.add(id, -1);
        true
    }

    fn fill(&mut self, at: usize) -> bool {
        let holders = &self.holders[at];
        let primary = holders[0];
        let shared = |id| self.pairs.get(&(primary, id)).copied().unwrap_or(0);
        let others = self.loads.members().filter(|id| !holders.contains(id));
        let Some(id) = others.min_by_key(|&id| (self.loads.surplus(id), shared(id), id)) else { return false };
        *self.pairs.entry((primary, id)).or_default() += 1;
        self.loads.add(id, 1);
        self.holders[at].push(id);
        true
    }

    /// Shards of which `x` could give its copy, and to whom: copies that are not there yet first, whole ones last.
    fn steps(&self, x: MemberId) -> Vec<(usize, MemberId)> {
        let cost = |at: usize| match &self.shards[at] {
            shard if shard.in_sync.contains(&x) => 2,
            shard if shard.syncing.contains(&x) => 1,
            _ => 0,
        };
        let mut mine: Vec<usize> = (0..self.holders.len()).filter(|&at| self.holders[at][1..].contains(&x)).collect();
        mine.sort_by_key(|&at| (cost(at), at));
        let free = |at: usize| self.loads.members().filter(move |id| !self.holders[at].contains(id)).map(move |id| (at, id));
        mine.into_iter().flat_map(free).collect()
    }
}

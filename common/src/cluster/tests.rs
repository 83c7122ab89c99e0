//! The map's life as a whole: members come, die and drain at any moment, the leader plans, primaries answer late or
//! not at all. Whatever the order, no step loses what a living member has, and when things calm down every member has
//! exactly its share.

use super::change::{Change, ChangeError, NodeChange, apply, change_node, come_back, join, leave};
use super::placement::place;
use super::plan::{Pace, is_settled, plan};
use super::quota::quotas;
use super::{Assignment, ClusterMap, Member, MemberId};
use crate::id::Incarnation;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds of plan and answers after which a calm cluster must be settled: each moves at least one shard of 256 a step,
/// and a move takes four.
const ROUNDS_MAX: usize = 1200;

struct World {
    map: ClusterMap,
    live: BTreeSet<MemberId>,
    pace: Pace,
    /// Whether the dead are hoped for.
    hopes: bool,
}

fn member(name: &str, weight: u32) -> Member {
    Member { name: name.into(), address: "127.0.0.1:7400".into(), incarnation: Some(Incarnation(5)), weight, draining: false }
}

impl World {
    fn new(replicas: u32, pace: Pace) -> Self {
        Self { map: ClusterMap::new("demo".into(), 7, replicas), live: BTreeSet::new(), pace, hopes: false }
    }

    fn settled(replicas: u32, weights: &[u32]) -> Self {
        let mut world = Self::new(replicas, Pace::default());
        for (n, &weight) in weights.iter().enumerate() {
            world.join(&format!("node-{n}"), weight);
        }
        world.settle();
        world
    }

    fn join(&mut self, name: &str, weight: u32) -> MemberId {
        let (map, id) = join(&self.map, member(name, weight)).unwrap();
        self.live.insert(id);
        self.step(map);
        id
    }

    fn plan(&mut self) -> bool {
        let dead = self.map.members.keys().filter(|id| self.hopes && !self.live.contains(id)).copied().collect();
        let next = plan(&self.map, &self.live, &dead, self.pace);
        let is_new = next.is_some();
        if let Some(next) = next {
            let whole = |s: &Assignment| s.in_sync.iter().filter(|id| self.live.contains(id)).count();
            for (was, is) in self.map.shards.iter().zip(&next.shards) {
                let enough = whole(was).min(self.map.replicas as usize).min(self.homes());
                assert!(whole(is) >= enough, "a copy given up too early: {was:?} became {is:?}");
            }
            self.step(next);
        }
        is_new
    }

    /// Nodes that shards may stay at.
    fn homes(&self) -> usize {
        let alive = || self.map.members.iter().filter(|(id, _)| self.live.contains(id));
        let staying = alive().filter(|(_, m)| !m.draining).map(|(_, m)| &m.name).collect::<BTreeSet<_>>().len();
        if staying == 0 { alive().count() } else { staying }
    }

    fn change(&mut self, by: MemberId, change: &Change) {
        if let Ok(Some(next)) = apply(&self.map, by, change) {
            self.step(next);
        }
    }

    /// What the shard's primary and its former one have to say, if they live.
    fn answer(&mut self, shard: u32) {
        let now = self.map.shard(shard).clone();
        let Some(primary) = now.primary() else { return };
        if let Some(former) = now.waits_for.filter(|id| self.live.contains(id)) {
            self.change(former, &Change::ClientsKnow { shards: vec![(shard, now.reign)] });
        }
        if !self.live.contains(&primary) {
            return;
        }
        for member in now.syncing {
            if self.live.contains(&member) {
                self.change(primary, &Change::InSync { shard, reign: now.reign, member });
            }
        }
        if let Some(to) = now.heir {
            self.change(primary, &Change::HandedOver { shard, reign: now.reign, to });
        }
    }

    fn settle(&mut self) -> usize {
        for round in 0..ROUNDS_MAX {
            self.plan();
            (0..256).for_each(|shard| self.answer(shard));
            if is_settled(&self.map, &self.live) {
                return round;
            }
        }
        panic!("not settled after {ROUNDS_MAX} rounds: {:?}", self.map.shards);
    }

    /// Takes a new map after it was held against the old one.
    fn step(&mut self, next: ClusterMap) {
        next.check().unwrap();
        assert_eq!(next.epoch, self.map.epoch + 1);
        for (shard, (was, is)) in self.map.shards.iter().zip(&next.shards).enumerate() {
            self.compare(shard, was, is, next.lost);
        }
        self.map = next;
    }

    fn compare(&self, shard: usize, was: &Assignment, is: &Assignment, lost: u64) {
        let context = || format!("shard {shard}: {was:?} became {is:?}, alive {:?}", self.live);
        assert!(is.reign >= was.reign, "{}", context());
        assert!(is.reign != was.reign || is.primary() == was.primary(), "a reign is one primary's: {}", context());
        let begins_again = is.waits_for.is_some() && is.waits_for == is.primary();
        assert!(is.reign == was.reign || is.primary() != was.primary() || begins_again, "a reign for nothing: {}", context());
        let had = || was.in_sync.iter().filter(|id| self.live.contains(id));
        if had().next().is_some() {
            assert!(had().any(|id| is.in_sync.contains(id)), "the last live copy was dropped: {}", context());
            let whole = |id: &MemberId| was.in_sync.contains(id) || was.syncing.contains(id);
            assert!(is.in_sync.iter().all(whole), "in sync out of nothing: {}", context());
            assert!(was.in_sync.contains(&is.in_sync[0]), "a primary without everything: {}", context());
        } else if !was.in_sync.is_empty() && is.primary() != was.primary() {
            assert!(lost > self.map.lost, "lost without a word: {}", context());
        }
        if let Some(former) = is.waits_for {
            assert!(is.in_sync.contains(&former) || !self.live.contains(&former), "its clients read there: {}", context());
        }
        if was.waits_for.is_some_and(|id| self.live.contains(&id)) && is.reign != was.reign {
            assert!(is.waits_for == was.waits_for, "nobody waits any more for clients that do not know: {}", context());
        }
    }

    fn shares(&self) -> (Vec<u32>, Vec<u32>) {
        let count = |of: &dyn Fn(&Assignment, MemberId) -> bool| {
            let shards = |id| self.map.shards.iter().filter(|s| of(s, id)).count() as u32;
            self.map.members.keys().map(|&id| shards(id)).collect()
        };
        (count(&|s, id| s.primary() == Some(id)), count(&|s, id| s.in_sync.contains(&id)))
    }

    fn check_shares(&self) {
        let weights: BTreeMap<MemberId, u32> =
            self.map.members.iter().filter(|(_, m)| !m.draining).map(|(&id, m)| (id, m.weight)).collect();
        if weights.is_empty() {
            return;
        }
        let copies = self.map.replicas.min(weights.len() as u32);
        for (id, due) in quotas(&weights, 256, 256) {
            let has = self.map.shards.iter().filter(|s| s.primary() == Some(id)).count();
            assert_eq!(has, due as usize, "primaries of {id}");
        }
        for (id, due) in quotas(&weights, 256 * copies, 256) {
            let has = self.map.shards.iter().filter(|s| s.in_sync.contains(&id)).count();
            assert_eq!(has, due as usize, "copies of {id}");
        }
        assert!(self.map.shards.iter().all(|s| s.in_sync.len() == copies as usize));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Join { node: u8, weight: u32 },
    Die(usize),
    ComeBack(usize),
    Drain(usize, bool),
    Plan,
    Answer(u32),
    AnswerAll,
    Drop { shard: u32, which: usize },
    Cede { shard: u32, which: usize },
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0u8..6, prop_oneof![Just(100u32), 1u32..=1000]).prop_map(|(node, weight)| Step::Join { node, weight }),
        2 => any::<usize>().prop_map(Step::Die),
        2 => any::<usize>().prop_map(Step::ComeBack),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(which, on)| Step::Drain(which, on)),
        8 => Just(Step::Plan),
        3 => (0u32..256).prop_map(Step::Answer),
        4 => Just(Step::AnswerAll),
        1 => (0u32..256, any::<usize>()).prop_map(|(shard, which)| Step::Drop { shard, which }),
        1 => (0u32..256, any::<usize>()).prop_map(|(shard, which)| Step::Cede { shard, which }),
        1 => any::<usize>().prop_map(Step::Leave),
    ];
    proptest::collection::vec(step, 1..60)
}

fn pick<T: Copy>(from: &[T], which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[which % from.len()])
}

fn take(world: &mut World, step: &Step) {
    let living: Vec<MemberId> = world.live.iter().copied().collect();
    match *step {
        Step::Join { node, weight } if living.len() < 8 => drop(world.join(&format!("node-{node}"), weight)),
        Step::Join { .. } => {}
        Step::Die(which) => drop(pick(&living, which).map(|id| world.live.remove(&id))),
        Step::ComeBack(which) => {
            let dead: Vec<MemberId> = world.map.members.keys().filter(|id| !living.contains(id)).copied().collect();
            if living.len() < 8
                && let Some(id) = pick(&dead, which)
                && let Some(next) = come_back(&world.map, id, world.map.members[&id].incarnation)
            {
                world.live.insert(id);
                world.step(next);
            }
        }
        Step::Drain(which, on) => {
            let Some(id) = pick(&living, which) else { return };
            let name = world.map.members[&id].name.clone();
            if let Ok(Some(next)) = change_node(&world.map, &name, NodeChange::Draining(on)) {
                world.step(next);
            }
        }
        Step::Plan => drop(world.plan()),
        Step::Answer(shard) => world.answer(shard),
        Step::AnswerAll => (0..256).for_each(|shard| world.answer(shard)),
        Step::Drop { shard, which } | Step::Cede { shard, which } => {
            let now = world.map.shard(shard).clone();
            let holders: Vec<MemberId> = now.holders().collect();
            let (Some(primary), Some(member)) = (now.primary(), pick(&holders, which)) else { return };
            let reign = now.reign;
            let change = match step {
                Step::Cede { .. } => Change::Cede { shard, reign, to: member },
                _ => Change::Drop { shard, reign, member },
            };
            if world.live.contains(&primary) && world.live.contains(&member) {
                world.change(primary, &change);
            }
        }
        Step::Leave(which) => {
            if let Some(id) = pick(&living, which)
                && let Some(next) = leave(&world.map, id)
            {
                world.live.remove(&id);
                world.step(next);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_history_loses_nothing_that_lives_and_ends_balanced(
        replicas in 1u32..=3,
        fills in 1u32..=16,
        hand_overs in 1u32..=16,
        hopes in any::<bool>(),
        steps in steps(),
    ) {
        let mut world = World::new(replicas, Pace { fills, hand_overs });
        world.hopes = hopes;
        for step in &steps {
            take(&mut world, step);
        }
        if world.live.is_empty() {
            world.join("last", 100);
        }
        // Lives of one node that are over by now.
        let latest: BTreeMap<String, MemberId> = world.map.members.iter().filter(|(id, _)| world.live.contains(id)).map(|(&id, m)| (m.name.clone(), id)).collect();
        world.live = latest.into_values().collect();
        world.hopes = false;
        world.settle();
        world.check_shares();
        prop_assert_eq!(world.map.members.keys().copied().collect::<BTreeSet<_>>(), world.live.clone());
    }

    #[test]
    fn shares_are_exact_and_what_is_placed_stays(
        weights in proptest::collection::vec(prop_oneof![Just(100u32), 1u32..=1000], 1..12),
        replicas in 1u32..=3,
    ) {
        let weights: BTreeMap<MemberId, u32> = (1..).map(MemberId).zip(weights).collect();
        let placed = place(&vec![Assignment::default(); 256], &weights, replicas);
        let shards: Vec<Assignment> =
            placed.iter().map(|all| Assignment { reign: 1, in_sync: all.clone(), ..Assignment::default() }).collect();
        prop_assert_eq!(place(&shards, &weights, replicas), placed);
    }
}

#[test]
fn a_third_server_gets_its_third_and_nothing_else_moves() {
    for replicas in 1..=3u32 {
        let mut world = World::settled(replicas, &[100, 100]);
        let before = world.map.shards.clone();
        let third = world.join("third", 100);
        world.settle();
        let shards = before.iter().zip(&world.map.shards);
        let came = |(was, is): (&Assignment, &Assignment)| -> Vec<MemberId> {
            is.in_sync.iter().filter(|id| !was.in_sync.contains(id)).copied().collect()
        };
        let moved: Vec<MemberId> = shards.flat_map(came).collect();
        assert!(moved.iter().all(|id| *id == third), "RF {replicas}: old members exchanged shards: {moved:?}");
        let copies = replicas.min(3) * 256;
        let ideal = if replicas == 3 { 256.0 } else { f64::from(copies) / 3.0 };
        let off = (moved.len() as f64 - ideal).abs() / ideal;
        assert!(off < 0.1, "RF {replicas}: {} copies moved, {ideal:.1} is ideal", moved.len());
        world.check_shares();
    }
}

#[test]
fn one_death_loads_the_others_evenly() {
    let mut world = World::settled(2, &[100; 4]);
    world.live.remove(&MemberId(2));
    world.plan();
    let (primaries, _) = world.shares();
    let left: Vec<u32> = primaries.into_iter().filter(|&n| n > 0).collect();
    assert_eq!(left.len(), 3);
    assert!(left.iter().all(|n| (84..=87).contains(n)), "{left:?}");
    assert_eq!(world.map.lost, 0);
}

#[test]
fn the_last_copy_gone_is_counted() {
    let mut world = World::settled(1, &[100, 100]);
    world.live.remove(&MemberId(1));
    world.settle();
    assert_eq!(world.map.lost, 128);
    assert!(world.map.shards.iter().all(|s| s.in_sync == [MemberId(2)]));
}

#[test]
fn copies_that_may_come_back_are_waited_for() {
    let mut world = World::settled(2, &[100; 3]);
    let before = world.map.clone();
    world.hopes = true;
    world.live = BTreeSet::from([MemberId(3)]);
    world.plan();
    let of_others = |s: &Assignment| !s.in_sync.contains(&MemberId(3));
    let (was, is) = (&before.shards, &world.map.shards);
    assert!(was.iter().zip(is).filter(|(was, _)| of_others(was)).all(|(was, is)| was == is), "what nobody has is left alone");
    assert!(is.iter().filter(|s| !of_others(s)).all(|s| s.primary() == Some(MemberId(3))), "the rest has a primary");
    assert_eq!(world.map.members.len(), 3, "whoever is named stays");
    // One of them comes back: what only it has goes on where it was.
    world.live.insert(MemberId(1));
    world.plan();
    assert_eq!((world.map.lost, world.map.shards.iter().all(|s| s.primary() != Some(MemberId(2)))), (0, true));
    world.settle();
    assert_eq!(world.map.lost, 0);
    // And without hope.
    let mut world = World::settled(2, &[100; 3]);
    world.live = BTreeSet::from([MemberId(3)]);
    world.settle();
    assert!(world.map.lost > 0);
}

#[test]
fn a_member_comes_back_as_the_life_that_it_was_or_not_at_all() {
    let life = Some(Incarnation(7));
    let (map, id) = join(&ClusterMap::new("demo".into(), 7, 2), Member { incarnation: life, ..member("a", 100) }).unwrap();
    let back = come_back(&map, id, life).unwrap();
    assert_eq!((back.epoch, &back.members, &back.shards), (map.epoch + 1, &map.members, &map.shards));
    assert_eq!(come_back(&map, id, Some(Incarnation(8))), None, "another life has nothing");
    assert_eq!(come_back(&map, MemberId(9), life), None, "it was taken out");
    assert_eq!(come_back(&map, id, None), None);
}

#[test]
fn a_drained_node_ends_empty_and_comes_back() {
    let mut world = World::settled(2, &[100; 3]);
    let drain = |world: &mut World, on| {
        let next = change_node(&world.map, "node-0", NodeChange::Draining(on)).unwrap().unwrap();
        world.step(next);
        world.settle();
    };
    drain(&mut world, true);
    assert!(world.map.shards.iter().all(|s| s.holders().all(|id| id != MemberId(1))));
    assert!(world.map.members[&MemberId(1)].draining && world.map.lost == 0);
    drain(&mut world, false);
    world.check_shares();
}

#[test]
fn no_more_is_under_way_than_the_pace_allows() {
    let mut world = World::settled(1, &[100]);
    world.join("second", 100);
    world.pace = Pace { fills: 4, hand_overs: 2 };
    world.plan();
    let syncing = |w: &World| w.map.shards.iter().filter(|s| !s.syncing.is_empty()).count();
    assert_eq!(syncing(&world), 4);
    (0..256).for_each(|shard| {
        if world.map.shard(shard).heir.is_none() {
            world.answer(shard)
        }
    });
    world.plan();
    assert_eq!(world.map.shards.iter().filter(|s| s.heir.is_some()).count(), 2);
    assert_eq!(syncing(&world), 4);
}

#[test]
fn a_change_of_another_time_is_refused_by_name() {
    let world = World::settled(2, &[100, 100]);
    let map = &world.map;
    let primary = map.shard(0).primary().unwrap();
    let backup = map.shard(0).backups()[0];
    let refused = |by, change| apply(map, by, &change).unwrap_err();
    let drop = |shard, reign, member| Change::Drop { shard, reign, member };
    assert_eq!(refused(primary, drop(256, 1, backup)), ChangeError::Shard(256));
    assert_eq!(refused(primary, drop(0, 2, backup)), ChangeError::Reign { shard: 0, now: 1, given: 2 });
    assert_eq!(refused(backup, drop(0, 1, backup)), ChangeError::NotPrimary { shard: 0, by: backup, primary: Some(primary) });
    assert_eq!(refused(primary, drop(0, 1, primary)), ChangeError::Part { shard: 0, member: primary, expected: "a backup" });
    assert_eq!(refused(primary, Change::HandedOver { shard: 0, reign: 1, to: backup }), ChangeError::NoHeir(0));
    let stranger = MemberId(9);
    let in_sync = Change::InSync { shard: 0, reign: 1, member: stranger };
    assert_eq!(refused(primary, in_sync), ChangeError::Part { shard: 0, member: stranger, expected: "being filled" });
    let mut waiting = map.clone();
    waiting.shards[0].waits_for = Some(backup);
    let waits = ChangeError::Waits { shard: 0, former: backup };
    assert_eq!(apply(&waiting, primary, &drop(0, 1, backup)), Err(waits.clone()));
    waiting.shards[0].heir = Some(backup);
    assert_eq!(apply(&waiting, primary, &Change::HandedOver { shard: 0, reign: 1, to: backup }), Err(waits));
    let to_another = Change::HandedOver { shard: 0, reign: 1, to: stranger };
    assert_eq!(
        apply(&waiting, primary, &to_another),
        Err(ChangeError::Part { shard: 0, member: stranger, expected: "the heir" })
    );
    assert_eq!(apply(map, primary, &Change::InSync { shard: 0, reign: 1, member: backup }), Ok(None));
    assert!(change_node(map, "nobody", NodeChange::Draining(true)).is_err());
    assert!(change_node(map, "node-0", NodeChange::Weight(0)).is_err());
}

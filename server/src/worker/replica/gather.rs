//! A new primary asks the other in-sync copies how far they are, before it takes anything.
//!
//! The one with the longest log must reign: what it has may have been acked. The others are told what they lack.

use super::super::poll_loop::Worker;
use super::fill::Join;
use super::send::Message;
use super::{Follower, Phase, Primary};
use sidewire_common::cluster::change::Change as Wanted;
use sidewire_common::cluster::{Assignment, MemberId};
use sidewire_common::layout::record::Version;
use sidewire_common::layout::replica_entry::{Entry, What};
use std::collections::BTreeMap;

impl Worker {
    /// The map names this server as a shard's primary.
    pub(super) fn begin_reign(&mut self, number: u32, assignment: &Assignment) {
        let shard = self.replication.shards.entry(number).or_default();
        let backups = assignment.backups().to_vec();
        // A copy that is not whole serves nobody: the map names it only when no other is left.
        let phase = if shard.copy.whole { Phase::Gathering } else { Phase::Emptying };
        if phase == Phase::Emptying {
            shard.copy.position = 0;
        }
        shard.copy.fence = shard.copy.fence.max(assignment.reign);
        let follower = |member| (member, Follower { in_map: true, position: None, join: Join::Asked });
        let followers: BTreeMap<MemberId, Follower> = backups.iter().copied().map(follower).collect();
        shard.role =
            super::Role::Primary(Primary { closes_for: None, reign: assignment.reign, phase, followers, fills: BTreeMap::new() });
        tracing::info!(shard = number, reign = assignment.reign, ?phase, backups = backups.len(), "begins to reign");
        for member in backups {
            self.tell(member, Message::Plain(Entry::new(What::Ask, number, assignment.reign)));
        }
        self.gathered(number);
    }

    /// A copy has told its position.
    pub(super) fn position_told(&mut self, shard: u32, member: MemberId, [behind, position]: [u64; 2]) {
        let Some(primary) = self.replication.primary(shard) else { return };
        let Some(follower) = primary.followers.get_mut(&member) else { return };
        match (primary.phase, follower.join) {
            (Phase::Gathering | Phase::Emptying, Join::Asked) => {
                follower.position = Some(position);
                self.gathered(shard);
            }
            _ => self.marker_answered(shard, member, behind != 0),
        }
    }

    /// Goes on once every copy has answered.
    pub(super) fn gathered(&mut self, shard: u32) {
        let Some(of) = self.replication.shards.get(&shard) else { return };
        let super::Role::Primary(primary) = &of.role else { return };
        if primary.phase != Phase::Gathering || primary.followers.values().any(|f| f.in_map && f.position.is_none()) {
            return;
        }
        let (reign, own) = (primary.reign, of.copy.position);
        let positions: Vec<(MemberId, u64)> = primary
            .followers
            .iter()
            .filter(|(_, f)| f.join == Join::Asked)
            .filter_map(|(&m, f)| Some((m, f.position?)))
            .collect();
        if let Some(&(to, _)) = positions.iter().filter(|(_, p)| *p > own).max_by_key(|(_, p)| *p) {
            return self.store.cluster().wish(Wanted::Cede { shard, reign, to });
        }
        for (member, position) in positions {
            if !self.tell_suffix(shard, reign, member, position, own) {
                self.give_up_copy(shard, member);
            }
        }
        self.all_adopted(shard);
    }

    /// Tells a copy what it lacks, and whose it is from then on. False when what it lacks is not known any more.
    fn tell_suffix(&mut self, shard: u32, reign: u32, member: MemberId, position: u64, own: u64) -> bool {
        let Some(primary) = self.replication.primary(shard) else { return false };
        let Some(follower) = primary.followers.get_mut(&member) else { return false };
        follower.join = Join::Adopting;
        let Some(of) = self.replication.shards.get(&shard) else { return false };
        let first = of.recent.front().map_or(own + 1, |(first, _)| *first);
        if position < own && first > position + 1 {
            return false;
        }
        let keys: Vec<Box<[u8]>> = of.recent.iter().filter(|(at, _)| *at > position).map(|(_, key)| key.clone()).collect();
        for key in keys {
            self.tell(member, Message::Key { shard, key });
        }
        self.tell_outcomes(shard, reign, member);
        let adopt = Entry { position: own, ..Entry::new(What::Adopt, shard, reign) };
        self.tell(member, Message::Plain(adopt));
        true
    }

    /// Tells a copy how the writes of this shard have ended that clients may ask after.
    pub(super) fn tell_outcomes(&mut self, shard: u32, reign: u32, member: MemberId) {
        for (origin, ended) in self.replication.outcomes.of_shard(shard) {
            let entry = Entry {
                origin: Some(origin),
                version: Version::from_raw(ended.version),
                figure: ended.figure,
                ..Entry::new(What::Outcome, shard, reign)
            };
            self.tell(member, Message::Plain(entry));
        }
    }

    /// A copy follows this reign.
    pub(super) fn follower_ready(&mut self, shard: u32, member: MemberId) {
        let Some(primary) = self.replication.primary(shard) else { return };
        if let Some(follower) = primary.followers.get_mut(&member) {
            follower.join = Join::Follows;
        }
        self.all_adopted(shard);
    }

    /// When all copies follow, the primary makes itself at home.
    pub(super) fn all_adopted(&mut self, shard: u32) {
        let Some(primary) = self.replication.primary(shard) else { return };
        if primary.phase == Phase::Gathering && primary.followers.values().all(|f| !f.in_map || f.join == Join::Follows) {
            let reign = primary.reign;
            self.enter(shard, Phase::Renewing(Self::beginning_of(shard)));
            if let Some(of) = self.replication.shards.get_mut(&shard) {
                (of.copy.reign, of.copy.whole) = (reign, true);
            }
        }
    }
}

//! What the map makes of this worker.

use super::super::poll_loop::Worker;
use super::close::Step;
use super::fill::{Fill, Join};
use super::{Phase, Role};
use sidewire_common::cluster::{Assignment, ClusterMap, MemberId};
use std::sync::Arc;

impl Worker {
    /// Another map, or another name in it.
    pub(in super::super) fn follow(&mut self, map: Arc<ClusterMap>, me: MemberId) {
        let later = self.replication.map.as_ref().is_none_or(|known| map.epoch > known.epoch);
        let renamed = self.replication.me.is_some_and(|known| known != me);
        if !later && !renamed {
            return;
        }
        if renamed {
            // Another member has no data: what lies here is of a time that the cluster has ended.
            self.begin_anew();
        }
        (self.replication.map, self.replication.me) = (Some(Arc::clone(&map)), Some(me));
        for number in self.index.shard_numbers() {
            // A primary may have heard of a later map than this one, and filled the copy here by it.
            if self.replication.shards.get(&number).is_none_or(|shard| shard.told_epoch <= map.epoch) {
                self.assign(number, map.shard(number), me);
            }
        }
        self.drop_links();
        self.replication.moving = true;
    }

    fn begin_anew(&mut self) {
        for number in self.index.shard_numbers() {
            self.abandon_writes(number);
            self.leave(number);
        }
    }

    fn assign(&mut self, number: u32, assignment: &Assignment, me: MemberId) {
        let reigns = self.replication.reign(number);
        if assignment.primary() == Some(me) {
            match reigns {
                Some(reign) if reign == assignment.reign => self.same_reign(number, assignment),
                _ => {
                    self.abandon_writes(number);
                    self.begin_reign(number, assignment);
                    self.same_reign(number, assignment);
                }
            }
        } else if assignment.holders().any(|holder| holder == me) {
            self.step_down(number, assignment, me);
        } else {
            if reigns.is_some() {
                self.abandon_writes(number);
            }
            self.leave(number);
        }
    }

    /// Still, or from now on, one copy among others.
    fn step_down(&mut self, number: u32, assignment: &Assignment, me: MemberId) {
        if self.replication.reign(number).is_some() {
            self.abandon_writes(number);
        }
        let shard = self.replication.shards.entry(number).or_default();
        shard.role = Role::Backup;
        // Whoever is being filled has nothing yet, whatever it had before.
        if assignment.syncing.contains(&me) && shard.copy.reign < assignment.reign {
            shard.copy.whole = false;
        }
    }

    /// The shard is others'.
    fn leave(&mut self, number: u32) {
        let shard = self.replication.shards.entry(number).or_default();
        let had = !matches!(shard.role, Role::Elsewhere) || shard.copy.reign != 0;
        shard.role = Role::Elsewhere;
        shard.copy.whole = false;
        shard.recent.clear();
        if had && shard.emptying.is_none() {
            shard.emptying = Some(Self::beginning_of(number));
            shard.copy.reign = 0;
        }
    }

    /// The reign goes on, with other copies perhaps.
    fn same_reign(&mut self, number: u32, assignment: &Assignment) {
        let Some(primary) = self.replication.primary(number) else { return };
        for &member in assignment.backups() {
            if let Some(follower) = primary.followers.get_mut(&member) {
                follower.in_map = true;
                if follower.join == Join::Wished {
                    follower.join = Join::Follows;
                }
            }
        }
        let gone: Vec<MemberId> = primary
            .followers
            .iter()
            .filter(|(member, f)| {
                let named = assignment.in_sync.contains(member);
                let joins = !f.in_map && assignment.syncing.contains(member);
                !named && !joins
            })
            .map(|(&member, _)| member)
            .collect();
        for member in &gone {
            primary.followers.remove(member);
        }
        primary.fills.retain(|member, _| assignment.syncing.contains(member));
        for &member in &assignment.syncing {
            if !primary.followers.contains_key(&member) {
                primary.fills.entry(member).or_insert(Fill::New);
            }
        }
        let (phase, closes_for) = (primary.phase, primary.closes_for);
        for member in gone {
            tracing::info!(shard = number, member = %member, "a copy has left");
            self.forget_messages(number, member);
            self.no_longer_awaited(number, member);
        }
        self.gathered(number);
        self.all_adopted(number);
        match (phase, assignment.heir) {
            (Phase::Open, Some(_)) => self.begin_close(number),
            (Phase::Closing(step), None) => self.reopen(number, step),
            // What was told to the one before is told to this one, who is asked in its turn.
            (Phase::Closing(_), heir) if heir != closes_for => self.begin_close(number),
            _ => self.try_to_open(number),
        }
    }

    /// The heir is named no more. What was taken from the clients is theirs again in another reign only: guards of locks go
    /// by that, and this one has ended them.
    fn reopen(&mut self, number: u32, step: Step) {
        let next = match step {
            Step::Ending => Phase::Open,
            Step::Withdrawn | Step::Over => return,
            _ => Phase::Closing(Step::Withdrawn),
        };
        if let Some(primary) = self.replication.primary(number) {
            primary.closes_for = None;
        }
        self.enter(number, next);
    }

    /// What was to be told to a copy that has left.
    fn forget_messages(&mut self, shard: u32, member: MemberId) {
        for (_, link) in self.replication.links.iter_mut().filter(|((of, _), _)| *of == member) {
            link.queue.retain(|message| message.shard() != shard);
        }
    }
}

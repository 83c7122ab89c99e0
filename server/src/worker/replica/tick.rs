//! What is done now and then: clocks and token floors are told, and copies that do not follow leave.

use super::super::poll_loop::Worker;
use super::close::Step;
use super::fill::Join;
use super::link::LinkName;
use super::send::Message;
use super::{Phase, Role};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::change::Change as Wanted;
use sidewire_common::layout::replica_entry::{Entry, What};
use std::time::Duration;

/// Ticks in a lease.
const TICKS_PER_LEASE: u32 = 8;
/// Part of a lease in which a copy must answer; one that does not leaves the shard, so that writes go on.
const PATIENCE_PART: u32 = 2;

impl Worker {
    /// One round of replication; true when there was something to do.
    pub(in super::super) fn replicate(&mut self) -> bool {
        if self.replication.map.is_none() {
            return false;
        }
        self.tick();
        let mut busy = self.dial();
        busy |= self.take_waiting();
        self.retry_stuck();
        if self.replication.moving {
            busy |= self.move_phases();
            busy |= self.move_fills();
            busy |= self.move_joins();
            self.replication.moving = self.replication.moves();
        }
        busy |= self.pump_links();
        busy
    }

    /// How long the worker may sleep on behalf of replication.
    pub(in super::super) fn replication_naps(&self) -> Duration {
        match self.replication.map {
            None => Duration::MAX,
            Some(_) if self.replication.is_quiet() => self.tick_period(),
            // Something waits that no completion announces: memory, a pause before a link is tried again.
            Some(_) => Duration::from_millis(1),
        }
    }

    fn tick_period(&self) -> Duration {
        self.store.settings().lease / TICKS_PER_LEASE
    }

    fn tick(&mut self) {
        let now = BootInstant::now();
        if self.replication.tick_at.is_some_and(|at| now < at) {
            return;
        }
        self.replication.tick_at = Some(now.plus(self.tick_period()));
        self.replication.outcomes.age(now);
        if self.number == 0 {
            self.store.settle_clock();
            self.store.raise_token_floor(self.store.cells().highest_token());
        }
        self.tell_clocks();
        self.judge_followers(now);
        self.repeat_wishes();
        self.ask_late_clocks();
        for shard in self.index.shard_numbers() {
            self.try_to_open(shard);
        }
    }

    /// Each link hears the clock and the token floor now and then.
    fn tell_clocks(&mut self) {
        let idle: Vec<LinkName> = self
            .replication
            .links
            .iter()
            .filter(|(_, link)| link.queue.is_empty() && link.unanswered.is_empty())
            .map(|(&name, _)| name)
            .collect();
        for name in idle {
            let shard = self.replication.shards.iter().find(|&(&number, shard)| {
                self.replication.serves(name, number)
                    && matches!(&shard.role, Role::Primary(p) if p.followers.contains_key(&name.0))
            });
            let Some((&shard, _)) = shard else { continue };
            let Some(reign) = self.replication.reign(shard) else { continue };
            self.tell(name.0, Message::Plain(Entry::new(What::Beat, shard, reign)));
        }
    }

    /// Copies that do not answer leave by the map.
    fn judge_followers(&mut self, now: BootInstant) {
        let patience = self.store.settings().lease / PATIENCE_PART;
        let late: Vec<LinkName> = self
            .replication
            .links
            .iter()
            .filter(|(_, link)| link.owes_since().is_some_and(|since| now.since(since) > patience))
            .map(|(&name, _)| name)
            .collect();
        for name in late {
            self.restart_fills(name);
            let mut shards = Vec::new();
            for (&number, shard) in &self.replication.shards {
                if let Role::Primary(primary) = &shard.role
                    && self.replication.serves(name, number)
                    && primary.followers.get(&name.0).is_some_and(|f| f.in_map || f.join == Join::Wished)
                {
                    shards.push(number);
                }
            }
            for shard in shards {
                self.give_up_copy(shard, name.0);
            }
        }
    }

    /// Wishes may be lost with the server that was to grant them.
    fn repeat_wishes(&mut self) {
        let mut wishes = Vec::new();
        for (&shard, of) in &self.replication.shards {
            let Role::Primary(primary) = &of.role else { continue };
            let reign = primary.reign;
            match (primary.phase, primary.closes_for) {
                (Phase::Closing(Step::Done), Some(to)) => wishes.push(Wanted::HandedOver { shard, reign, to }),
                (Phase::Closing(Step::Over), _) => wishes.push(Wanted::BeginAgain { shard, reign }),
                _ => {}
            }
            let joining = primary.followers.iter().filter(|(_, f)| f.join == Join::Wished);
            wishes.extend(joining.map(|(&member, _)| Wanted::InSync { shard, reign, member }));
        }
        wishes.into_iter().for_each(|wish| self.store.cluster().wish(wish));
    }
}

//! A backup that begins empty is filled while writes go on.
//!
//! ```text
//!   Clear ─▶ every key, by the order of hashes ─▶ outcomes ─▶ Whole ─▶ writes from before are published ─▶ marker ─▶ the map
//!            keys that change meanwhile are told again            new writes wait for it from here on
//! ```
//! A key is told as it is when its entry is sent, on one link in order, so that the last word about each is the latest.

use super::super::ScanCursor;
use super::super::poll_loop::Worker;
use super::send::Message;
use super::{Follower, Phase, Role};
use sidewire_common::cluster::MemberId;
use sidewire_common::cluster::change::Change as Wanted;
use sidewire_common::layout::replica_entry::{Entry, What};

/// Messages in a link's queue above which no more keys are gathered for it.
const QUEUE_LOW: usize = 48;
/// Messages in a link's queue above which a fill begins anew: its backup does not follow.
const QUEUE_MAX: usize = 1 << 16;

/// How far the filling of a copy is.
#[derive(Clone, Copy, Default, Debug)]
pub(super) enum Fill {
    /// Nothing was told yet.
    #[default]
    New,
    /// It empties itself; the number tells this attempt from earlier ones.
    Clearing(u64),
    /// Keys from here on are to be told.
    Walking(ScanCursor),
}

impl Fill {
    /// Whether changes must be told.
    pub fn has_begun(self) -> bool {
        !matches!(self, Self::New)
    }
}

/// How far a follower is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Join {
    /// A new primary has asked it for its position.
    Asked,
    /// It is told what it lacks.
    Adopting,
    /// Writes up to this position must be published before it can be in sync.
    Settling(u64),
    /// A last entry was sent behind all that they changed.
    Marked,
    /// It has all, but its clock is behind, and named now it might reign before its clients know. It is asked again.
    Behind,
    /// The map is to name it.
    Wished,
    /// It follows.
    Follows,
}

impl Worker {
    /// Brings all fills on; true when something was told.
    pub(super) fn move_fills(&mut self) -> bool {
        let mut work = Vec::new();
        for (&number, shard) in &self.replication.shards {
            let Role::Primary(primary) = &shard.role else { continue };
            if !matches!(primary.phase, Phase::Open | Phase::Waiting) {
                continue;
            }
            work.extend(primary.fills.iter().map(|(&member, &fill)| (number, member, fill)));
        }
        let mut any = false;
        for (shard, member, fill) in work {
            any |= self.move_fill(shard, member, fill);
        }
        any
    }

    fn move_fill(&mut self, shard: u32, member: MemberId, fill: Fill) -> bool {
        let Some(reign) = self.replication.reign(shard) else { return false };
        let Some(name) = self.link_of(member, shard) else { return false };
        let queued = self.replication.links.get(&name).map_or(0, |link| link.queue.len());
        match fill {
            Fill::New => {
                let attempt = self.next_work();
                self.set_fill(shard, member, Fill::Clearing(attempt));
                self.tell(member, Message::Plain(Entry { position: attempt, ..Entry::new(What::Clear, shard, reign) }));
                true
            }
            Fill::Clearing(_) => false,
            Fill::Walking(_) if queued > QUEUE_MAX => {
                tracing::warn!(shard, member = %member, "a backup is too slow to be filled; it begins anew");
                self.set_fill(shard, member, Fill::New);
                true
            }
            Fill::Walking(_) if queued > QUEUE_LOW => false,
            Fill::Walking(at) => {
                let (keys, next) = self.keys_at(at);
                for (_, key, _) in keys {
                    self.tell(member, Message::Key { shard, key: key.into() });
                }
                match next {
                    Some(next) => self.set_fill(shard, member, Fill::Walking(next)),
                    None => self.join(shard, reign, member),
                }
                true
            }
        }
    }

    fn set_fill(&mut self, shard: u32, member: MemberId, to: Fill) {
        if let Some(fill) = self.replication.primary(shard).and_then(|primary| primary.fills.get_mut(&member)) {
            *fill = to;
        }
    }

    /// The copy is empty.
    pub(super) fn fill_cleared(&mut self, shard: u32, member: MemberId, attempt: u64) {
        let fill = self.replication.primary(shard).and_then(|primary| primary.fills.get_mut(&member));
        if let Some(fill) = fill.filter(|fill| matches!(fill, Fill::Clearing(of) if *of == attempt)) {
            *fill = Fill::Walking(Self::beginning_of(shard));
            self.replication.moving = true;
        }
    }

    /// Everything was told: from here on new writes wait for this copy too.
    fn join(&mut self, shard: u32, reign: u32, member: MemberId) {
        self.tell_outcomes(shard, reign, member);
        let position = self.replication.shards.get(&shard).map_or(0, |of| of.copy.position);
        self.tell(member, Message::Plain(Entry { position, ..Entry::new(What::Whole, shard, reign) }));
        let Some(primary) = self.replication.primary(shard) else { return };
        primary.fills.remove(&member);
        primary.followers.insert(member, Follower { in_map: false, position: Some(position), join: Join::Settling(position) });
    }

    /// Brings joining copies on.
    pub(super) fn move_joins(&mut self) -> bool {
        let mut settled = Vec::new();
        for (&number, shard) in &self.replication.shards {
            let Role::Primary(primary) = &shard.role else { continue };
            for (&member, follower) in &primary.followers {
                if let Join::Settling(until) = follower.join
                    && self.oldest_open(number).is_none_or(|oldest| oldest > until)
                {
                    settled.push((number, primary.reign, member));
                }
            }
        }
        self.mark(&settled);
        !settled.is_empty()
    }

    /// Copies whose clocks were behind are asked again.
    pub(super) fn ask_late_clocks(&mut self) {
        let mut late = Vec::new();
        for (&number, shard) in &self.replication.shards {
            let Role::Primary(primary) = &shard.role else { continue };
            let behind = primary.followers.iter().filter(|(_, follower)| follower.join == Join::Behind);
            late.extend(behind.map(|(&member, _)| (number, primary.reign, member)));
        }
        self.mark(&late);
    }

    /// Sends the last question to copies that join.
    fn mark(&mut self, copies: &[(u32, u32, MemberId)]) {
        for &(shard, reign, member) in copies {
            self.set_join(shard, member, Join::Marked);
            self.tell(member, Message::Plain(Entry::new(What::Ask, shard, reign)));
        }
    }

    fn set_join(&mut self, shard: u32, member: MemberId, to: Join) {
        if let Some(follower) = self.replication.primary(shard).and_then(|primary| primary.followers.get_mut(&member)) {
            follower.join = to;
        }
    }

    /// The marker was answered, and so was all before it.
    pub(super) fn marker_answered(&mut self, shard: u32, member: MemberId, behind: bool) {
        let Some(primary) = self.replication.primary(shard) else { return };
        let reign = primary.reign;
        let Some(follower) = primary.followers.get_mut(&member) else { return };
        match follower.join {
            Join::Marked if behind => follower.join = Join::Behind,
            Join::Marked => {
                follower.join = Join::Wished;
                self.store.cluster().wish(Wanted::InSync { shard, reign, member });
            }
            Join::Follows => self.heir_has_all(shard, member),
            _ => {}
        }
    }
}

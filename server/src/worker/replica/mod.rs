//! Replication: what a worker does for the shards of which it has the only copy, the first, or another.
//!
//! ```text
//!   map ─▶ roles ─┬─ primary   gather ─▶ renew ─▶ wait ─▶ open ─▶ close          a shard's life with one primary
//!                 │     write ──▶ link ──entry──▶ peer ─▶ apply   (backup)
//!                 │     publish ◀─ link ◀──ack─── peer
//!                 └─ backup, elsewhere           fill: a backup that begins empty
//! ```
//! | file | what it does |
//! | --- | --- |
//! | `roles` | follows the map |
//! | `gather`, `renew` | a new primary: positions of the others, cells of its own |
//! | `write` | writes that wait for backups |
//! | `link`, `send`, `acked` | to another server's worker: connection, entries, answers |
//! | `peer`, `apply` | from another server's worker |
//! | `fill`, `walk` | a backup is filled while traffic goes on |
//! | `close` | hand-over to the heir |
//! | `outcomes` | exactly once, over the death of a primary |
//!
//! A write is acked when every in-sync copy has it. A copy takes entries of one reign only, in the order of their
//! positions, and none of a reign before the latest that it has heard of: a primary whose time is over cannot publish.

mod acked;
mod apply;
mod close;
mod fill;
mod gather;
mod link;
mod outcomes;
mod peer;
mod renew;
mod roles;
mod send;
mod tick;
mod walk;
mod write;

pub(super) use outcomes::Outcomes;
pub(super) use peer::Peer;
pub(super) use write::Change;

use super::ScanCursor;
use super::intake::Work;
use crate::shard::Unmet;
use link::{Link, LinkName};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::{ClusterMap, MemberId, Reign};
use sidewire_common::fabric::{EndpointId, WorkId};
use sidewire_common::layout::ack::Outcome;
use sidewire_common::memory::Buffer;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use write::Replicating;

/// Keys of the latest log entries of a shard that a primary remembers, for a backup that lags when the primary dies.
/// One that lags more begins anew.
const RECENT_MAX: usize = 512;

/// A write that waits for backups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ticket(u64);

/// What a worker knows of its copy of a shard.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Copy {
    /// The reign whose entries it takes.
    reign: Reign,
    /// The latest reign heard of: earlier ones are refused.
    fence: Reign,
    /// Position of the last entry.
    position: u64,
    /// Whether it holds every acked write.
    whole: bool,
}

/// What a worker is to a shard.
#[derive(Debug, Default)]
pub(super) enum Role {
    /// Nothing, or the map is not known yet.
    #[default]
    Elsewhere,
    /// A copy that others fill.
    Backup,
    /// The one that takes writes.
    Primary(Primary),
}

/// Where a primary is in its reign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nobody has the shard's data: what lies here is of another time and goes.
    Emptying,
    /// Asks the other copies how far they are.
    Gathering,
    /// Gives locks cells of its own.
    Renewing(ScanCursor),
    /// Clients of the former primary have not all learnt of this reign.
    Waiting,
    /// Takes writes.
    Open,
    /// Takes none any more, and finishes what it had taken.
    Closing(close::Step),
    /// Another reign was heard of: nothing more is published.
    Deposed,
}

/// An in-sync backup, or one that was told everything and is about to be.
#[derive(Debug)]
pub(super) struct Follower {
    /// Whether the map says so.
    in_map: bool,
    /// Its position, once it was told.
    position: Option<u64>,
    /// How far it is with joining.
    join: fill::Join,
}

/// A primary's state.
#[derive(Debug)]
pub(super) struct Primary {
    /// The heir that a closing is for.
    pub closes_for: Option<MemberId>,
    reign: Reign,
    phase: Phase,
    followers: BTreeMap<MemberId, Follower>,
    fills: BTreeMap<MemberId, fill::Fill>,
}

/// A shard of this worker.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) role: Role,
    copy: Copy,
    /// Epoch of the map by which a primary began to fill this copy: earlier maps, which come late, say nothing of it.
    told_epoch: u32,
    /// Positions and keys of the latest entries.
    recent: VecDeque<(u64, Box<[u8]>)>,
    /// Records that are to be forgotten, and how far that is.
    emptying: Option<ScanCursor>,
}

/// All of it. Empty in a server that runs alone.
#[derive(Default)]
pub(super) struct Replication {
    pub map: Option<Arc<ClusterMap>>,
    pub me: Option<MemberId>,
    pub shards: BTreeMap<u32, Shard>,
    pub outcomes: Outcomes,
    links: BTreeMap<LinkName, Link>,
    ends: BTreeMap<EndpointId, LinkName>,
    pub peers: BTreeMap<EndpointId, Peer>,
    writes: BTreeMap<Ticket, Replicating>,
    /// Writes that all backups have, and that could not be published yet for want of memory.
    stuck: Vec<Ticket>,
    /// Buffers that posted entries hold.
    lent: BTreeMap<WorkId, Buffer>,
    buffers: Option<sidewire_common::memory::Buffers>,
    /// Workers of other members, as far as they told.
    worker_counts: BTreeMap<MemberId, u32>,
    next_ticket: u64,
    /// Whether some shard is on its way from one state to another.
    moving: bool,
    tick_at: Option<BootInstant>,
}

impl Replication {
    /// Whether the worker may begin a write of this shard; if not, what its ack says.
    pub(super) fn admits(&self, shard: u32) -> Result<(), Unmet> {
        let Some(map) = &self.map else { return Ok(()) };
        match self.shards.get(&shard).map(|s| &s.role) {
            Some(Role::Primary(primary)) if primary.phase == Phase::Open => Ok(()),
            Some(Role::Primary(primary)) if primary.phase != Phase::Deposed => Err(Unmet::plain(Outcome::Busy)),
            _ => Err(Unmet { outcome: Outcome::WrongPrimary, detail: 0, figures: [map.epoch.into(), 0] }),
        }
    }

    /// Whether counters of this cluster live in their records.
    pub(super) fn counts_in_records(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.replicas > 1)
    }

    /// The reign of a shard of which this is the primary.
    pub(super) fn reign(&self, shard: u32) -> Option<Reign> {
        match &self.shards.get(&shard)?.role {
            Role::Primary(primary) => Some(primary.reign),
            _ => None,
        }
    }

    /// To whom the map wants the shard to be handed over.
    fn heir(&self, shard: u32) -> Option<MemberId> {
        self.map.as_ref()?.shard(shard).heir
    }

    /// Whether a link is the one for this shard; each is, until its member has told how many workers it has.
    fn serves(&self, (member, worker): LinkName, shard: u32) -> bool {
        self.worker_counts.get(&member).is_none_or(|count| shard % count == worker)
    }

    fn primary(&mut self, shard: u32) -> Option<&mut Primary> {
        match &mut self.shards.get_mut(&shard)?.role {
            Role::Primary(primary) => Some(primary),
            _ => None,
        }
    }

    /// Whether nothing waits for a backup.
    pub(super) fn is_idle(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether a write of this key waits for backups.
    pub(super) fn is_open(&self, key: u64) -> bool {
        self.writes.values().any(|write| write.work.hash.raw() == key)
    }

    /// Whether an open write belongs to this client.
    pub(super) fn any_of(&self, client: sidewire_common::id::ClientId) -> bool {
        self.writes.values().any(|write| write.work.session.0 == client)
    }

    /// Whether a shard is on its way by itself, without waiting for an answer.
    fn moves(&self) -> bool {
        self.shards.values().any(|shard| match &shard.role {
            Role::Primary(primary) => {
                let own = matches!(primary.phase, Phase::Emptying | Phase::Renewing(_) | Phase::Closing(_));
                let fills = primary.fills.values().any(|fill| !matches!(fill, fill::Fill::Clearing(_)));
                own || fills || primary.followers.values().any(|f| matches!(f.join, fill::Join::Settling(_)))
            }
            Role::Elsewhere => shard.emptying.is_some(),
            Role::Backup => false,
        })
    }

    /// Whether nothing is to be done before something comes.
    fn is_quiet(&self) -> bool {
        let links = self.links.values().all(|link| matches!(link.state, link::State::Up(_)));
        links && !self.moving && self.stuck.is_empty() && self.peers.values().all(|peer| peer.is_idle())
    }

    /// Whether the endpoint leads to another server's worker.
    pub(super) fn is_link(&self, endpoint: EndpointId) -> bool {
        self.ends.contains_key(&endpoint)
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }
}

impl Shard {
    /// Remembers whose key the entry at a position was.
    fn remember(&mut self, position: u64, key: &[u8]) {
        self.recent.push_back((position, key.into()));
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }
}

impl Primary {
    /// Everybody who must have a write before it is published.
    fn awaited(&self) -> Vec<MemberId> {
        self.followers.keys().copied().collect()
    }
}

fn work_key(work: &Work) -> Box<[u8]> {
    work.key.as_slice().into()
}

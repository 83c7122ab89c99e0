//! The `kv-cluster` thread: one server's part in its cluster.
//!
//! ```text
//!   beat     renews the lease; looks who lives and who leads
//!   follow   takes later maps from the store and hands them on
//!   wishes   makes what primaries, operators and the lease thread ask for, many in one swap
//!   plan     while this server leads: the next step for the whole cluster
//! ```
//! The lease is counted from the sending of what renewed it. When the store does not answer, nothing changes but that
//! the lease runs out; when the own key is gone, the server comes back as the member that it was if that is still in
//! the map, and else enters anew as another, which has nothing. So whoever leads lets no shard begin empty before its last
//! copies have been gone for a lease.

use super::store::{KeepError, MapStore, Revision, StoreError, SwapError};
use super::view::{Event, NodeError, Standing, View};
use super::wishes::Wishes;
use crossbeam::channel::{Receiver, RecvTimeoutError};
use sidewire_common::clock::{BootInstant, lease_margin};
use sidewire_common::cluster::change::{come_back, join, leave};
use sidewire_common::cluster::plan::{Pace, plan};
use sidewire_common::cluster::{ClusterMap, Member, MemberId};
use sidewire_common::host::{self, Thread};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Renewals in a lease.
const BEATS_PER_LEASE: u32 = 3;
/// After one that failed the next comes this many times sooner.
const RETRY_PART: u32 = 4;
/// Attempts to make a change while others make theirs.
const SWAP_TRIES: u32 = 16;
/// Events taken before the lease is looked after again.
const EVENTS_MAX: usize = 1024;
/// Shortest time between two attempts at a change that was not made, and between two steps of the plan.
const PLAN_PACE: Duration = Duration::from_millis(10);

/// Who this server is, and the lease it wants.
#[derive(Clone, Debug)]
pub struct Profile {
    /// As other members see it.
    pub member: Member,
    /// The lease of its clients; its own is at least as long.
    pub lease: Duration,
}

/// Why a cluster was not entered.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The store or the map.
    #[error("cannot enter the cluster: {0}")]
    Swap(#[from] SwapError),
    /// The cluster is another than the flags say.
    #[error("the cluster {name:?} was made with {made} copies of each shard, --replicas says {given}: leave it out")]
    Replicas {
        /// The cluster.
        name: String,
        /// The map's.
        made: u32,
        /// The flag's.
        given: u32,
    },
    /// No thread.
    #[error("cannot start the cluster thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl From<StoreError> for EnterError {
    fn from(error: StoreError) -> Self {
        Self::Swap(error.into())
    }
}

/// The cluster's map, made with `replicas` copies (2 unless given) if there is none yet.
///
/// # Errors
/// When the store fails, or the cluster was made with another number of copies.
pub fn found(store: &dyn MapStore, name: &str, replicas: Option<u32>) -> Result<(ClusterMap, Revision), EnterError> {
    for _ in 0..SWAP_TRIES {
        if let Some((map, revision)) = store.load()? {
            return match replicas {
                Some(given) if given != map.replicas => {
                    Err(EnterError::Replicas { name: name.into(), made: map.replicas, given })
                }
                _ => Ok((map, revision)),
            };
        }
        let map = ClusterMap::new(name.into(), host::random(), replicas.unwrap_or(REPLICAS_DEFAULT));
        map.check().map_err(SwapError::from)?;
        match store.create(&map) {
            Ok(revision) => return Ok((map, revision)),
            Err(SwapError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(SwapError::Conflict.into())
}

/// Copies of each shard in a new cluster, unless told.
pub const REPLICAS_DEFAULT: u32 = 2;

/// The running thread.
pub struct Membership {
    view: Arc<View>,
    thread: parking_lot::Mutex<Option<Thread>>,
}

impl Membership {
    /// Enters the cluster and starts the thread.
    ///
    /// # Errors
    /// When the store refuses, or there is no thread.
    pub fn start(
        store: Arc<dyn MapStore>,
        view: Arc<View>,
        inbox: Receiver<Event>,
        profile: Profile,
    ) -> Result<Self, EnterError> {
        let mut turn = Turn {
            wishes: Wishes::default(),
            lease: profile.lease,
            beat_at: BootInstant::now(),
            plan_at: BootInstant::now(),
            leads: false,
            gone: BTreeMap::new(),
            refreshed: false,
            looked_around: false,
            store,
            view: Arc::clone(&view),
            inbox,
            profile,
        };
        turn.enter()?;
        let nudged = Arc::clone(&view);
        turn.store.watch(Box::new(move |gone| {
            let _ = nudged.tell(Event::Nudge { gone });
        }));
        let thread = host::spawn("kv-cluster", move || turn.run())?;
        Ok(Self { view, thread: parking_lot::Mutex::new(Some(thread)) })
    }

    /// Gives the membership back: from now on others may take this server's place. Nobody must believe it any more.
    pub fn stop(&self) {
        self.view.tell(Event::Stop);
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
    }

    /// Whether the thread has ended before it was told to.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.lock().as_ref().is_some_and(Thread::is_finished)
    }
}

struct Turn {
    store: Arc<dyn MapStore>,
    view: Arc<View>,
    inbox: Receiver<Event>,
    profile: Profile,
    wishes: Wishes,
    /// The own lease as the store granted it.
    lease: Duration,
    beat_at: BootInstant,
    plan_at: BootInstant,
    leads: bool,
    /// Members of the map without a key, and since when this leader has known that.
    gone: BTreeMap<MemberId, BootInstant>,
    /// Whether the map was looked for since something happened to it.
    refreshed: bool,
    /// The same for who lives and who leads.
    looked_around: bool,
}

impl Turn {
    fn run(mut self) {
        loop {
            if BootInstant::now() >= self.beat_at {
                self.beat();
            }
            if !self.refreshed {
                self.refreshed = true;
                self.follow();
            }
            if !self.looked_around {
                self.looked_around = true;
                self.look_around();
            }
            self.make_changes();
            if self.leads {
                self.lead();
            }
            let due = if self.leads { self.beat_at.min(self.plan_at) } else { self.beat_at };
            let pause = due.since(BootInstant::now());
            let pause = if self.wishes.is_empty() { pause } else { pause.min(PLAN_PACE) };
            match host::receive_within(&self.inbox, pause) {
                Ok(event) => {
                    if !self.hear_all(event) {
                        return self.leave();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.leave(),
            }
        }
    }

    /// False when the thread is to end.
    fn hear_all(&mut self, first: Event) -> bool {
        let mut next = Some(first);
        for _ in 0..EVENTS_MAX {
            match next.take() {
                None => return true,
                Some(Event::Stop) => return false,
                Some(Event::Nudge { gone }) => {
                    (self.refreshed, self.plan_at) = (false, BootInstant::now());
                    self.looked_around &= !gone;
                }
                Some(Event::Wish(wish)) => self.wishes.wish(wish),
                Some(Event::ClientsKnow(epoch)) => self.wishes.clients_know(epoch),
                Some(Event::Node { name, change, reply }) => self.wishes.node(name, change, reply),
            }
            next = self.inbox.try_recv().ok();
        }
        true
    }

    /// Takes a lease and a place in the map: the one that this server had, if the map still gives it that.
    fn enter(&mut self) -> Result<(), SwapError> {
        let mut last = SwapError::Conflict;
        for _ in 0..SWAP_TRIES {
            let Some((map, revision)) = self.store.load()? else { return Err(last) };
            let before = self.view.my_id();
            let back = before.and_then(|me| Some((come_back(&map, me, self.profile.member.incarnation)?, me)));
            let is_back = back.is_some();
            let (next, me) = match back {
                Some(back) => back,
                None => join(&map, self.profile.member.clone())?,
            };
            let sent = BootInstant::now();
            match self.store.enter(&next, revision, me, self.profile.lease) {
                Ok((revision, lease)) => {
                    tracing::info!(member = %me, cluster = next.name, ?lease, is_back, "entered the cluster");
                    self.view.become_member(me, next.epoch);
                    // The map first: a lease is granted to clients by it, never by the one of the member before.
                    self.take(next, revision);
                    self.hold(sent, lease);
                    return Ok(());
                }
                Err(error @ SwapError::Conflict) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn hold(&mut self, sent: BootInstant, lease: Duration) {
        self.lease = lease;
        self.beat_at = sent.plus(lease / BEATS_PER_LEASE);
        self.view.set_lease_until(sent.plus(lease.saturating_sub(lease_margin(lease))));
    }

    fn beat(&mut self) {
        let sent = BootInstant::now();
        match self.store.keep_alive() {
            Ok(lease) => self.hold(sent, lease),
            Err(KeepError::Gone) => self.enter_anew(),
            Err(KeepError::Store(error)) => {
                tracing::warn!(%error, lease_left = ?self.view.lease_until().since(sent), "the lease was not renewed");
                self.beat_at = BootInstant::now().plus(self.lease / BEATS_PER_LEASE / RETRY_PART);
                return;
            }
        }
        (self.refreshed, self.looked_around) = (false, false);
    }

    /// What this server holds may belong to a member that is gone by now.
    fn enter_anew(&mut self) {
        tracing::warn!("this server's lease in the cluster has run out; it enters anew");
        self.view.set_lease_until(BootInstant::from_nanos(0));
        self.wishes.forget();
        // If it led, others may have led since.
        self.leads = false;
        if let Err(error) = self.enter() {
            tracing::warn!(%error, "the cluster was not entered; trying again");
            self.beat_at = BootInstant::now().plus(self.lease / BEATS_PER_LEASE / RETRY_PART);
        }
    }

    fn look_around(&mut self) {
        let seen = self.store.lead().and_then(|leader| Ok((leader, self.store.live()?)));
        match seen {
            Ok((leader, live)) => {
                let leads = leader.is_some() && leader == self.view.my_id();
                if leads != self.leads {
                    tracing::info!(leads, "who plans for the cluster has changed");
                    self.gone.clear();
                }
                self.leads = leads;
                self.view.set_standing(Standing { live, leader });
            }
            Err(error) => tracing::warn!(%error, "it is not known who lives"),
        }
    }

    fn follow(&mut self) {
        match self.store.load() {
            Ok(Some((map, revision))) if revision > self.view.map_and_revision().1 => self.take(map, revision),
            Ok(Some(_)) => {}
            Ok(None) => tracing::error!("the map is gone from the store; this server goes on with the one it knows"),
            Err(error) => tracing::warn!(%error, "the map was not read"),
        }
    }

    fn take(&mut self, map: ClusterMap, revision: Revision) {
        self.view.take(map, revision);
        if let Some(me) = self.view.my_id() {
            self.view.set_awaited_epoch(self.wishes.follow(&self.view.map(), me));
        }
        self.plan_at = BootInstant::now();
    }

    /// Makes everything that was wished for, or as much as the map still allows.
    fn make_changes(&mut self) {
        let Some(me) = self.view.my_id() else { return };
        for _ in 0..SWAP_TRIES {
            if self.wishes.is_empty() {
                return;
            }
            let (map, revision) = self.view.map_and_revision();
            let Some(next) = self.wishes.applied_to(&map, me) else { return };
            match self.swap(next, revision) {
                Ok(()) => return self.wishes.made(self.view.map().epoch),
                Err(SwapError::Conflict) => self.follow(),
                Err(error) => {
                    // Workers and the lease thread wish again; operators are told.
                    return self.wishes.failed(&NodeError::Store(error.to_string()));
                }
            }
        }
        self.wishes.failed(&NodeError::Store(SwapError::Conflict.to_string()));
    }

    fn swap(&mut self, next: ClusterMap, revision: Revision) -> Result<(), SwapError> {
        let made = self.store.swap(&next, revision);
        match &made {
            Ok(revision) => self.take(next, *revision),
            Err(SwapError::Gone) => self.beat_at = BootInstant::now(),
            Err(_) => {}
        }
        made.map(drop)
    }

    fn lead(&mut self) {
        let now = BootInstant::now();
        if now < self.plan_at {
            return;
        }
        self.plan_at = self.beat_at.max(now.plus(PLAN_PACE));
        // The map is read first: whoever is in it had a key by then, and is dead if it has none now.
        let (map, revision) = self.view.map_and_revision();
        let live = match self.store.live() {
            Ok(live) => live,
            Err(error) => return tracing::warn!(%error, "it is not known who lives; nothing is planned"),
        };
        let hoped_for = self.hoped_for(&map, &live, now);
        let next = plan(&map, &live, &hoped_for, Pace::default());
        let leader = self.view.my_id();
        self.view.set_standing(Standing { live, leader });
        let Some(next) = next else { return };
        let epoch = next.epoch;
        match self.swap(next, revision) {
            Ok(()) => tracing::debug!(epoch, "a step was planned"),
            Err(SwapError::Conflict) => self.refreshed = false,
            Err(error) => tracing::warn!(%error, "a step was planned and not made"),
        }
    }

    /// Members that are gone, but not for a lease yet: each may come back with what it has.
    fn hoped_for(&mut self, map: &ClusterMap, live: &BTreeSet<MemberId>, now: BootInstant) -> BTreeSet<MemberId> {
        let is_gone = |id: &MemberId| map.members.contains_key(id) && !live.contains(id);
        self.gone.retain(|id, _| is_gone(id));
        for &id in map.members.keys().filter(|id| is_gone(id)) {
            self.gone.entry(id).or_insert(now);
        }
        self.gone.iter().filter(|(_, since)| now.since(**since) < self.lease).map(|(&id, _)| id).collect()
    }

    /// The server answers nobody any more.
    fn leave(mut self) {
        self.view.set_lease_until(BootInstant::from_nanos(0));
        self.wishes.failed(&NodeError::Store("the server is stopping".into()));
        let (map, revision) = self.view.map_and_revision();
        if let Some(next) = self.view.my_id().and_then(|me: MemberId| leave(&map, me)) {
            // The leader does it otherwise.
            let _ = self.store.swap(&next, revision);
        }
        if let Err(error) = self.store.leave() {
            tracing::warn!(%error, "the lease was not given back; it runs out by itself");
        }
    }
}

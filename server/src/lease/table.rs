//! Who is attached, and how long their leases last. Pure: time comes in as a value.
//!
//! A client's life here: [`admit`](Table::admit) → [`beat`](Table::beat)… → a sweep begins
//! ([`judge`](Table::judge) or [`begin_sweep`](Table::begin_sweep)) → [`end_sweep`](Table::end_sweep). Until that end
//! its id, its holder id and its layout epoch stay taken: something of it may still be in flight.
//!
//! On `shm` nobody can cut off a process that is merely stopped: it has the cells mapped. So a client that was swept
//! for silence [`linger`](Table::linger)s after its sweep until its link hangs up; its holder id stays taken, and no
//! cell that it knew is used again. Then it is swept once more, for what it locked when it woke.

use super::holder_ids::HolderIds;
use super::sessions::Sessions;
use sidewire_common::clock::BootInstant;
use sidewire_common::id::ClientId;
use sidewire_common::layout::beat::{Beat, GetStats};
use std::collections::BTreeMap;
use std::time::Duration;

/// Leases that a client may stay behind the layout epoch without coming nearer.
pub const LAG_LEASES: u32 = 4;
/// A lease thread that did not run for this part of a lease judges nobody by it.
pub const STALL_PART: u32 = 4;

/// What a client told of itself, for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Program.
    pub program: String,
}

/// Why a client is swept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// No beat for a lease.
    Lapsed,
    /// Its link hung up.
    Departed,
    /// It asked for it.
    Detached,
    /// It held back the layout epoch for too long.
    Lagging,
}

/// Why a client was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmitError {
    /// That id is attached, or being swept.
    Exists,
    /// There are as many clients as there may be.
    Full {
        /// How many that is.
        limit: u32,
    },
}

/// Why a beat renews nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeatRefusal {
    /// No live client has that id.
    Unknown,
    /// Its number does not rise.
    Number {
        /// The last one.
        last: u64,
    },
    /// It claims a layout epoch that has not begun.
    Epoch {
        /// The one now.
        current: u64,
    },
}

/// Where a client is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Live,
    Sweeping,
    Lingering,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its id in lock words.
    pub holder: u32,
    /// What it told of itself.
    pub told: Told,
    /// Its sessions.
    pub sessions: Sessions,
    /// Its counts, as it last told.
    pub stats: GetStats,
    /// The layout epoch it has reached.
    pub epoch: u64,
    /// The epoch of the cluster's map that it has reached.
    pub map_epoch: u32,
    deadline: BootInstant,
    progress: BootInstant,
    /// When it was last known not to be behind the cluster's map, or came nearer to it.
    map_progress: BootInstant,
    number: u64,
    phase: Phase,
    /// It was swept for silence before and counts for cells only.
    lingered: bool,
    /// It opened an endpoint once, so its link will tell when it hangs up.
    linked: bool,
}

impl Client {
    /// It has opened an endpoint.
    pub fn set_linked(&mut self) {
        self.linked = true;
    }

    /// Time until its lease ends, zero when it is over or the client is being swept.
    #[must_use]
    pub fn lease_left(&self, now: BootInstant) -> Duration {
        if self.phase == Phase::Live { self.deadline.since(now) } else { Duration::ZERO }
    }
}

/// All clients.
#[derive(Debug)]
pub struct Table {
    lease: Duration,
    clients_max: u32,
    clients: BTreeMap<ClientId, Client>,
    holders: HolderIds,
    turned: Option<BootInstant>,
    swept: u64,
    /// Until then a client that was swept for lagging may still believe what it reads.
    lagging_until: BootInstant,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(lease: Duration, clients_max: u32) -> Self {
        Self {
            lease,
            clients_max,
            clients: BTreeMap::new(),
            holders: HolderIds::default(),
            turned: None,
            swept: 0,
            lagging_until: BootInstant::from_nanos(0),
        }
    }

    /// Admits a client that knows `epoch`; its lease begins. Returns its holder id.
    ///
    /// # Errors
    /// When the id is taken or the table is full.
    pub fn admit(&mut self, now: BootInstant, id: ClientId, told: Told, epoch: u64) -> Result<u32, AdmitError> {
        if self.clients.contains_key(&id) {
            return Err(AdmitError::Exists);
        }
        let full = AdmitError::Full { limit: self.clients_max };
        if self.clients.len() as u64 >= u64::from(self.clients_max) {
            return Err(full);
        }
        let holder = self.holders.take().ok_or(full)?;
        let client = Client {
            holder,
            told,
            sessions: Sessions::default(),
            stats: GetStats::default(),
            epoch,
            map_epoch: 0,
            deadline: now.plus(self.lease),
            progress: now,
            map_progress: now,
            number: 0,
            phase: Phase::Live,
            lingered: false,
            linked: false,
        };
        self.clients.insert(id, client);
        Ok(holder)
    }

    /// A client that is attached and not being swept.
    #[must_use]
    pub fn live(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(&id).filter(|c| c.phase == Phase::Live)
    }

    /// Numbers of its beats may start anew: it has another beat endpoint, and the earlier one is closed.
    pub fn restart_numbers(&mut self, id: ClientId) {
        if let Some(client) = self.live(id) {
            client.number = 0;
        }
    }

    /// A beat was received at `now`: the lease is counted from here.
    ///
    /// # Errors
    /// When it renews nothing.
    pub fn beat(&mut self, now: BootInstant, beat: &Beat, current_epoch: u64) -> Result<(), BeatRefusal> {
        let lease = self.lease;
        let client = self.live(beat.client).ok_or(BeatRefusal::Unknown)?;
        if beat.number <= client.number {
            return Err(BeatRefusal::Number { last: client.number });
        }
        if beat.layout_epoch > current_epoch {
            return Err(BeatRefusal::Epoch { current: current_epoch });
        }
        client.number = beat.number;
        client.stats = beat.stats;
        client.deadline = now.plus(lease);
        if beat.layout_epoch > client.epoch || beat.layout_epoch == current_epoch {
            client.progress = now;
        }
        client.epoch = client.epoch.max(beat.layout_epoch);
        if beat.map_epoch > client.map_epoch {
            client.map_epoch = beat.map_epoch;
            client.map_progress = now;
        }
        Ok(())
    }

    /// A new epoch has begun: clients that were up to date have their time for it from now.
    pub fn epoch_advanced(&mut self, now: BootInstant, current_epoch: u64) {
        for client in self.clients.values_mut().filter(|c| c.epoch + 1 == current_epoch) {
            client.progress = now;
        }
    }

    /// One turn of the lease thread: whoever is overdue begins to be swept and is named with the reason.
    ///
    /// When the thread itself did not run for a while (it was stopped, the machine paused), beats may have been
    /// lost on the way: everybody gets a full lease from now.
    #[must_use]
    pub fn judge(&mut self, now: BootInstant, current_epoch: u64, awaited_map: u32) -> Vec<(ClientId, Why)> {
        let stalled = self.turned.is_some_and(|last| now.since(last) > self.lease / STALL_PART);
        self.turned = Some(now);
        if stalled {
            self.give_all_a_lease(now);
            return Vec::new();
        }
        let patience = self.lease * LAG_LEASES;
        let mut overdue = Vec::new();
        for (id, client) in self.clients.iter_mut().filter(|(_, c)| c.phase == Phase::Live) {
            if client.map_epoch >= awaited_map {
                client.map_progress = now;
            }
            let late = client.epoch < current_epoch && now.since(client.progress) > patience;
            let why = if client.deadline <= now {
                Why::Lapsed
            } else if late || now.since(client.map_progress) > patience {
                self.lagging_until = self.lagging_until.max(client.deadline);
                Why::Lagging
            } else {
                continue;
            };
            client.phase = Phase::Sweeping;
            overdue.push((*id, why));
        }
        overdue
    }

    fn give_all_a_lease(&mut self, now: BootInstant) {
        for client in self.clients.values_mut() {
            client.deadline = client.deadline.max(now.plus(self.lease));
            client.progress = now;
            client.map_progress = now;
        }
    }

    /// The epoch of the cluster's map that every client has reached which may still believe what it reads here;
    /// the largest there is without any.
    #[must_use]
    pub fn acknowledged_map(&self, now: BootInstant) -> u32 {
        if now < self.lagging_until {
            return 0;
        }
        let live = self.clients.values().filter(|c| c.phase == Phase::Live);
        live.map(|c| c.map_epoch).min().unwrap_or(u32::MAX)
    }

    /// Begins a sweep for a reason from outside. False when the client is not known or is being swept already.
    #[must_use]
    pub fn begin_sweep(&mut self, id: ClientId) -> bool {
        match self.clients.get_mut(&id) {
            Some(client) if client.phase != Phase::Sweeping => {
                client.phase = Phase::Sweeping;
                true
            }
            _ => false,
        }
    }

    /// The holder id of a client that is being swept.
    #[must_use]
    pub fn swept_holder(&self, id: ClientId) -> Option<u32> {
        self.clients.get(&id).filter(|c| c.phase == Phase::Sweeping).map(|c| c.holder)
    }

    /// Nothing of the client is left: its ids are free.
    pub fn end_sweep(&mut self, id: ClientId, why: Why) {
        if let Some(client) = self.clients.remove(&id) {
            self.holders.give(client.holder);
            self.swept += u64::from(why != Why::Detached && !client.lingered);
        }
    }

    /// Ends a sweep for silence where the client's process may still reach the cells. False when there is nothing
    /// to wait for, and [`Table::end_sweep`] is due.
    #[must_use]
    pub fn linger(&mut self, id: ClientId, why: Why) -> bool {
        let silent = matches!(why, Why::Lapsed | Why::Lagging);
        match self.clients.get_mut(&id).filter(|c| silent && c.linked && !c.lingered) {
            Some(client) => {
                client.phase = Phase::Lingering;
                client.lingered = true;
                client.sessions = Sessions::default();
                self.swept += 1;
                true
            }
            None => false,
        }
    }

    /// The layout epoch that all clients have reached, those being swept included; `current_epoch` without any.
    #[must_use]
    pub fn acknowledged(&self, current_epoch: u64) -> u64 {
        self.clients.values().filter(|c| !c.lingered).map(|c| c.epoch).min().unwrap_or(current_epoch)
    }

    /// The same for cells, where those that linger count too.
    #[must_use]
    pub fn acknowledged_for_cells(&self, current_epoch: u64) -> u64 {
        self.clients.values().map(|c| c.epoch).min().unwrap_or(current_epoch)
    }

    /// All clients but those that linger, for people.
    pub fn clients(&self) -> impl Iterator<Item = (&ClientId, &Client)> {
        self.clients.iter().filter(|(_, c)| !c.lingered)
    }

    /// Staging rings of all clients.
    #[must_use]
    pub fn rings(&self) -> u64 {
        self.clients.values().map(|c| c.sessions.rings()).sum()
    }

    /// Clients swept so far for another reason than their own wish.
    #[must_use]
    pub fn swept(&self) -> u64 {
        self.swept
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

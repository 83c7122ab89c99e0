//! A session's way to the servers: a driver for each member that it has touched. Each operation goes to its key's
//! primary; one that cannot be carried out where it is waits in the hall until the map knows better.
//!
//! ```text
//!   key ─► hash ─► shard ─► primary by the map ─► its driver ─┬─ result
//!     ▲                          ▲                           └─ wrong primary, server gone, shard moved ─► hall ─┐
//!     │                          └────────────── routed again, with pauses, until its deadline ◄────────────────┘
//! ```
//! | file | what it does |
//! | --- | --- |
//! | `seats` | drivers, by the shards that they are for |
//! | `hall` | operations that are with no server now |
//! | `placing` | from the hall to a server again |
//! | `doubt` | what became of a write whose server is gone |
//! | `waiting` | turns all drivers, sleeps |
//!
//! With one server alone there is one driver and no hall.

mod doubt;
mod hall;
mod placing;
mod seats;
mod waiting;

pub(crate) use doubt::Doubt;
pub(crate) use hall::{Cause, Wander};

use crate::attached::Attached;
use crate::client::Inner;
use crate::cluster::Members;
use crate::driver::{Driver, WriteSpec};
use crate::error::Error;
use crate::in_flight::{Machine, Op, Sink};
use crate::lock_guard::Held;
use crate::op::{Done, Get, Lock, LockGoal};
use crate::slab::SlabKey;
use crate::stats::{ClientStats, SessionStats};
use hall::Hall;
use seats::Seat;
use sidewire_common::cluster::{ClusterMap, Reign};
use sidewire_common::key::{self, KeyHash, SHARD_COUNT};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The seat of operations that are with no server.
const HALL: u32 = u32::MAX;

/// Names an operation of a session for as long as it stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ticket {
    seat: u32,
    name: SlabKey,
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub hash: KeyHash,
    /// The reign of its shard by which the operation begins; 0 when the server is alone.
    pub reign: Reign,
}

/// What a session knows of the cluster.
struct Cluster {
    members: Arc<Members>,
    /// The map by which operations begin.
    map: Arc<ClusterMap>,
    /// By shard: the seat of its primary, or [`HALL`] when it is to be looked for.
    table: [u32; SHARD_COUNT as usize],
    hall: Hall,
    /// Where operations that a call waits for have gone.
    forwards: HashMap<Ticket, Ticket>,
    stats: Arc<SessionStats>,
    /// The next sleep while several drivers are busy.
    nap: Duration,
}

/// The drivers of a session.
pub(crate) struct Router {
    seats: Vec<Option<Seat>>,
    cluster: Option<Box<Cluster>>,
    next_id: u64,
    // The last: sessions leave before their client detaches.
    client: Arc<Inner>,
}

impl Router {
    /// Begins an operation.
    ///
    /// # Errors
    /// When the key cannot be one, or too much is in flight.
    #[inline]
    pub fn begin(&mut self, machine: Machine, key: &[u8], deadline: Duration, sink: Sink) -> Result<Ticket, Error> {
        key::check(key)?;
        let (seat, way) = self.way(key);
        match self.driver_at(seat) {
            Some(driver) => Ok(Ticket { seat, name: driver.begin(machine, key, way, deadline, sink)? }),
            None => self.wait_in_hall(machine, key, way, deadline, sink, None),
        }
    }

    /// Begins a Get.
    ///
    /// # Errors
    /// As [`Router::begin`].
    #[inline]
    pub fn begin_get(&mut self, key: &[u8], deadline: Duration, sink: Sink) -> Result<Ticket, Error> {
        key::check(key)?;
        if self.cluster.is_none()
            && let Some(Some(seat)) = self.seats.first_mut()
        {
            let way = Way { hash: KeyHash::of(key, seat.driver.attached().terms.hash_seed), reign: 0 };
            return Ok(Ticket { seat: 0, name: seat.driver.begin_get(key, way, deadline, sink)? });
        }
        let (seat, way) = self.way_by_map(key);
        match self.driver_at(seat) {
            Some(driver) => Ok(Ticket { seat, name: driver.begin_get(key, way, deadline, sink)? }),
            None => self.wait_in_hall(Machine::Get(Get::default()), key, way, deadline, sink, None),
        }
    }

    /// Begins a write.
    ///
    /// # Errors
    /// As [`Router::begin`], and when the value is too long or no buffer is to be had.
    pub fn begin_write(&mut self, key: &[u8], write: &WriteSpec<'_>, deadline: Duration, sink: Sink) -> Result<Ticket, Error> {
        key::check(key)?;
        let (seat, way) = self.way(key);
        match self.driver_at(seat) {
            Some(driver) => Ok(Ticket { seat, name: driver.begin_write(key, write, way, deadline, sink)? }),
            None => {
                let (machine, bytes, fence_token) = write.unsent(key);
                self.wait_in_hall(machine, key, way, deadline, sink, Some((bytes, fence_token)))
            }
        }
    }

    /// As `begin_write`, unless the write would have to wait for ring space or a credit.
    ///
    /// # Errors
    /// [`Error::Full`] then, and as `begin_write`.
    pub fn submit_write(&mut self, key: &[u8], write: &WriteSpec<'_>, deadline: Duration, sink: Sink) -> Result<Ticket, Error> {
        key::check(key)?;
        let (seat, way) = self.way(key);
        match self.driver_at(seat) {
            Some(driver) => Ok(Ticket { seat, name: driver.submit_write(key, write, way, deadline, sink)? }),
            None => self.begin_write(key, write, deadline, sink),
        }
    }

    /// Begins to give a lock back, at the server where it is held.
    ///
    /// # Errors
    /// [`Error::LeaseLapsed`] when it is held no more.
    pub fn begin_give_back(&mut self, held: &Held, key: &[u8], deadline: Duration, sink: Sink) -> Result<Ticket, Error> {
        let seat = self.seat_of(&held.attached).filter(|_| held.is_ours()).ok_or(Error::LeaseLapsed)?;
        let driver = self.driver_at(seat).ok_or(Error::LeaseLapsed)?;
        let machine = Machine::Lock(Lock::new(LockGoal::GiveBack(held.taken)));
        Ok(Ticket { seat, name: driver.begin(machine, key, held.way, deadline, sink)? })
    }

    /// Gives a lock back as soon as no write that carries its token is open; nobody waits for it.
    pub fn unlock_later(&mut self, held: &Held, key: &[u8]) {
        if let Some(seat) = self.seat_of(&held.attached)
            && let Some(driver) = self.driver_at(seat)
        {
            driver.unlock_later(key, held.taken, held.way);
        }
    }

    /// A name for a submitted operation.
    pub fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Where a key belongs, and the seat that it goes to.
    #[inline]
    fn way(&mut self, key: &[u8]) -> (u32, Way) {
        if self.cluster.is_none()
            && let Some(Some(seat)) = self.seats.first()
        {
            return (0, Way { hash: KeyHash::of(key, seat.driver.attached().terms.hash_seed), reign: 0 });
        }
        self.way_by_map(key)
    }

    fn way_by_map(&mut self, key: &[u8]) -> (u32, Way) {
        let Some(cluster) = &mut self.cluster else { return (HALL, Way { hash: KeyHash::from_raw(0), reign: 0 }) };
        if cluster.members.map.epoch() != cluster.map.epoch {
            self.follow_map();
        }
        let Some(cluster) = &self.cluster else { return (HALL, Way { hash: KeyHash::from_raw(0), reign: 0 }) };
        let hash = KeyHash::of(key, cluster.map.hash_seed);
        let shard = hash.shard();
        let way = Way { hash, reign: cluster.map.shard(shard).reign };
        let seat = match cluster.table[shard as usize] {
            HALL => self.seat_for(shard).unwrap_or(HALL),
            seat => seat,
        };
        (seat, way)
    }

    #[inline]
    fn driver_at(&mut self, seat: u32) -> Option<&mut Driver> {
        self.seats.get_mut(seat as usize)?.as_mut().map(|seat| &mut seat.driver)
    }

    fn drivers(&mut self) -> impl Iterator<Item = &mut Driver> {
        self.seats.iter_mut().flatten().map(|seat| &mut seat.driver)
    }

    fn seat_of(&self, attached: &Arc<Attached>) -> Option<u32> {
        let is = |seat: &Option<Seat>| seat.as_ref().is_some_and(|seat| Arc::ptr_eq(seat.driver.attached(), attached));
        self.seats.iter().position(is).map(|at| at as u32)
    }

    /// An operation for which there is no server yet.
    fn wait_in_hall(
        &mut self,
        machine: Machine,
        key: &[u8],
        way: Way,
        deadline: Duration,
        sink: Sink,
        image: Option<(Vec<u8>, u64)>,
    ) -> Result<Ticket, Error> {
        let Some(cluster) = &mut self.cluster else { return Err(Error::Full) };
        let mut op = Op::new();
        op.begin(key, way, deadline, sink);
        op.machine = machine;
        let (bytes, fence_token) = image.unzip();
        op.fence_token = fence_token.unwrap_or(0);
        let name = cluster.hall.enter(op, bytes)?;
        Ok(Ticket { seat: HALL, name })
    }

    /// The result of an operation that a call waits for, if it has ended.
    fn take(&mut self, ticket: Ticket) -> Option<Result<Done, Error>> {
        match (&mut self.cluster, ticket.seat) {
            (Some(cluster), HALL) => cluster.hall.take(ticket.name),
            (_, seat) => self.driver_at(seat)?.take(ticket.name),
        }
    }

    /// The next submitted operation that has ended, by its name.
    pub fn take_finished(&mut self) -> Option<(u64, Result<Done, Error>)> {
        if let Some(cluster) = &mut self.cluster
            && let Some(finished) = cluster.hall.take_finished()
        {
            return Some(finished);
        }
        self.drivers().find_map(Driver::take_finished)
    }

    /// Submitted operations that have not been polled.
    pub fn submitted(&self) -> usize {
        let hall = self.cluster.as_ref().map_or(0, |cluster| cluster.hall.submitted());
        hall + self.seats.iter().flatten().map(|seat| seat.driver.submitted()).sum::<usize>()
    }

    /// Whether an unresolved write carries this fencing token.
    pub fn carries(&self, token: u64) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.hall.carries(token))
            || self.seats.iter().flatten().any(|seat| seat.driver.carries(token))
    }

    /// Time until the server of a key grants locks, as far as it is known.
    pub fn locks_open_in(&mut self, key: &[u8]) -> Duration {
        let (seat, _) = self.way(key);
        self.driver_at(seat).map_or(Duration::ZERO, |driver| driver.locks_open_in())
    }

    /// The driver of the first server.
    ///
    /// # Errors
    /// When there is none at the moment.
    pub fn first_driver(&mut self) -> Result<&mut Driver, Error> {
        self.seats.iter_mut().flatten().next().map(|seat| &mut seat.driver).ok_or(Error::LeaseLapsed)
    }

    /// What this session counted.
    pub fn stats(&self) -> ClientStats {
        let own = self.cluster.as_ref().map_or_else(ClientStats::default, |cluster| cluster.stats.figures());
        self.seats.iter().flatten().fold(own, |sum, seat| sum.plus(&seat.driver.stats().figures()))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(cluster) = &self.cluster {
            self.client.stats.end(&cluster.stats);
        }
    }
}

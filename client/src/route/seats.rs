//! Drivers, by the shards that they are for.

use super::{Cluster, HALL, Router};
use crate::client::{Inner, Reach};
use crate::driver::Driver;
use crate::error::Error;
use sidewire_common::cluster::MemberId;
use sidewire_common::key::SHARD_COUNT;
use std::collections::HashMap;
use std::sync::Arc;

/// A driver and the member that it is for.
pub(super) struct Seat {
    /// Nobody's when the server is alone.
    pub member: MemberId,
    pub driver: Driver,
}

impl Seat {
    /// Of a cluster's member.
    fn new(member: MemberId, mut driver: Driver, map_epoch: u32) -> Self {
        driver.enter_map(map_epoch);
        Self { member, driver }
    }
}

/// Longest time for the first endpoints of a session in a cluster.
const OPEN_LIMIT: std::time::Duration = std::time::Duration::from_secs(1);

/// The member that a server alone is.
const ALONE: MemberId = MemberId(0);

impl Router {
    /// Opens a session: endpoints to the server, or to the first member that is attached.
    ///
    /// # Errors
    /// When there is none, the server refuses, or the fabric is short of something.
    pub fn open(client: Arc<Inner>) -> Result<Self, Error> {
        let mut seats = Vec::new();
        let cluster = match &client.reach {
            Reach::Alone(server) => {
                seats.push(Some(Seat { member: ALONE, driver: Driver::open(Arc::clone(server), client.deadline)? }));
                None
            }
            Reach::Cluster(members) => {
                let map = members.map.map();
                for server in members.all().into_iter().filter(|server| server.shared.is_attached()) {
                    let member = server.shared.member().unwrap_or(ALONE);
                    // One is enough to begin with; whoever does not answer now may later.
                    match Driver::open(server, client.deadline.min(OPEN_LIMIT)) {
                        Ok(driver) => {
                            seats.push(Some(Seat::new(member, driver, map.epoch)));
                            break;
                        }
                        Err(error) => tracing::debug!(%error, %member, "no endpoints to a member yet"),
                    }
                }
                Some(Box::new(Cluster {
                    map,
                    members: Arc::clone(members),
                    table: [HALL; SHARD_COUNT as usize],
                    hall: super::hall::Hall::default(),
                    forwards: HashMap::new(),
                    stats: client.stats.begin(),
                    nap: super::waiting::NAP_FIRST,
                }))
            }
        };
        Ok(Self { client, seats, cluster, next_id: 0 })
    }

    /// The seat of a shard's primary; opens one if its server is attached. `None` when there is nobody to go to now.
    #[cold]
    pub(super) fn seat_for(&mut self, shard: u32) -> Option<u32> {
        let cluster = self.cluster.as_ref()?;
        let (member, _) = cluster.map.primary(shard)?;
        let members = Arc::clone(&cluster.members);
        let at = match self.seats.iter().position(|s| s.as_ref().is_some_and(|s| s.member == member)) {
            Some(at) => at,
            None => {
                let server = members.server(member)?;
                if !server.shared.is_attached() {
                    server.shared.hurry();
                    return None;
                }
                let limit = self.may_block()?;
                match Driver::open(server, limit) {
                    Ok(driver) => self.sit_down(Seat::new(member, driver, self.map_epoch())),
                    Err(error) => {
                        tracing::debug!(%error, %member, "no endpoints to a member yet");
                        return None;
                    }
                }
            }
        };
        let driver = &mut self.seats[at].as_mut()?.driver;
        if !driver.is_alive() {
            // It moves to the next attachment, if there is one.
            driver.turn();
        }
        if !driver.is_alive() {
            return None;
        }
        let seat = at as u32;
        self.cluster.as_mut()?.table[shard as usize] = seat;
        Some(seat)
    }

    fn map_epoch(&self) -> u32 {
        self.cluster.as_ref().map_or(0, |cluster| cluster.map.epoch)
    }

    fn sit_down(&mut self, seat: Seat) -> usize {
        match self.seats.iter().position(Option::is_none) {
            Some(at) => {
                self.seats[at] = Some(seat);
                at
            }
            None => {
                self.seats.push(Some(seat));
                self.seats.len() - 1
            }
        }
    }

    /// There is a later map: operations that have not gone too far begin anew where their shards are now.
    #[cold]
    pub(super) fn follow_map(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        cluster.map = cluster.members.map.map();
        cluster.table = [HALL; SHARD_COUNT as usize];
        cluster.hall.hurry();
        let map = Arc::clone(&cluster.map);
        for seat in self.seats.iter_mut().flatten() {
            let member = seat.member;
            seat.driver.enter_map(map.epoch);
            seat.driver.shards_moved(&|shard, reign| {
                let now = map.shard(shard);
                now.primary() != Some(member) || now.reign != reign
            });
        }
    }

    /// Takes over what drivers could not carry out, and lets drivers of members that have left go.
    pub(super) fn collect_emigrants(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        for (at, place) in self.seats.iter_mut().enumerate() {
            let Some(seat) = place else { continue };
            let mut any = false;
            while let Some(emigrant) = seat.driver.take_emigrant() {
                any = true;
                cluster.take_in(at as u32, seat.member, emigrant);
            }
            if any && !seat.driver.is_alive() {
                // It serves no shard until it has moved to another attachment.
                cluster.table.iter_mut().filter(|seat| **seat == at as u32).for_each(|seat| *seat = HALL);
            }
            // Its place is given to another driver, whose names may be the same: nobody may still look here for an operation.
            let is_free = || seat.driver.is_idle() && cluster.forwards.keys().all(|from| from.seat != at as u32);
            if !cluster.map.members.contains_key(&seat.member) && is_free() {
                *place = None;
            }
        }
    }
}

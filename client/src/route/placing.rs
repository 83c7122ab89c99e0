//! From the hall to a server again, or to an error when the time is over.

use super::doubt::Word;
use super::hall::{Cause, Wander};
use super::{Cluster, HALL, Router, Ticket};
use crate::driver::Emigrant;
use crate::error::Error;
use crate::in_flight::Sink;
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::MemberId;
use std::time::Duration;

impl Cluster {
    /// A driver could not carry an operation out.
    pub(super) fn take_in(&mut self, seat: u32, member: MemberId, emigrant: Emigrant) {
        let Emigrant { name, mut op, bytes, cause, doubt } = emigrant;
        let wander = op.wander.get_or_insert_with(|| Box::new(Wander::new()));
        wander.last = Some((member, cause));
        wander.doubt = doubt;
        match cause {
            Cause::WrongPrimary(epoch) => {
                self.stats.rerouted_refused.add(1);
                wander.refusals += 1;
                wander.pause();
                if epoch > self.map.epoch {
                    self.members.refresh(epoch, Some(member));
                } else {
                    self.members.refresh(self.map.epoch + 1, None);
                }
            }
            Cause::Gone => {
                self.stats.rerouted_gone.add(1);
                self.members.refresh(self.map.epoch + 1, None);
            }
            Cause::Moved => self.stats.rerouted_moved.add(1),
        }
        let from = Ticket { seat, name };
        let is_call = op.sink == Sink::Call;
        // Every driver's operations are bounded, so these are.
        let name = self.hall.take_in(op, bytes);
        if is_call {
            self.forwards.insert(from, Ticket { seat: HALL, name });
        }
    }

    /// Why an operation is still here.
    fn overdue(&mut self, name: SlabKey, waited: Duration) -> Option<Error> {
        let map = std::sync::Arc::clone(&self.map);
        let op = self.hall.find(name)?;
        let (operation, shard) = (op.machine.name(), op.hash.shard());
        let wander = op.wander.as_ref()?;
        if wander.doubt.is_some() {
            return Some(Error::Indeterminate { operation });
        }
        let Some((id, member)) = map.primary(shard) else {
            let seen = format!("shard {shard} has no server by the map of epoch {}", map.epoch);
            return Some(Error::Deadline { operation, after: waited, seen });
        };
        if let Some((by, Cause::WrongPrimary(theirs))) = wander.last {
            let refusals = wander.refusals;
            let seen = format!(
                "member {by} said {refusals} times that shard {shard} is not its own, by its map of epoch {theirs}; \
                 the client's is of epoch {} and names member {id}",
                map.epoch
            );
            return Some(Error::Deadline { operation, after: waited, seen });
        }
        let reason = match self.members.known(id) {
            Some(server) => return Some(server.shared.gone_error()),
            None => "nothing could be attached to yet".into(),
        };
        Some(Error::ServerGone { server: member.address.clone(), reason })
    }
}

impl Router {
    /// Looks after all that wait in the hall. True when anything has changed.
    pub(super) fn look_after_hall(&mut self) -> bool {
        let Some(cluster) = self.cluster.as_ref().filter(|cluster| !cluster.hall.is_empty()) else { return false };
        let names = cluster.hall.names();
        let now = BootInstant::now();
        let mut any = false;
        for name in names {
            any |= self.look_after(name, now);
        }
        any
    }

    fn look_after(&mut self, name: SlabKey, now: BootInstant) -> bool {
        let Some(cluster) = self.cluster.as_mut() else { return false };
        let Some(op) = cluster.hall.find(name) else { return false };
        let waited = now.since(*op.since.get_or_insert(now));
        let (late, shard) = (waited >= op.deadline, op.hash.shard());
        if late || cluster.fails_fast(name, now) {
            if let Some(error) = cluster.overdue(name, waited) {
                cluster.hall.finish(name, Err(error));
            }
            return true;
        }
        match cluster.ask_after(name, now) {
            Word::None => {}
            Word::Awaited => return false,
            Word::Ended(result) => {
                cluster.hall.finish(name, result);
                return true;
            }
        }
        let Some(wander) = cluster.hall.find(name).and_then(|op| op.wander.as_mut()) else { return false };
        if now < wander.try_at {
            return false;
        }
        wander.pause();
        let known = cluster.table[shard as usize];
        let seat = if known == HALL { self.seat_for(shard) } else { Some(known) };
        match seat {
            Some(seat) => self.place(name, seat),
            None => {
                if let Some(cluster) = &self.cluster {
                    cluster.members.refresh(cluster.map.epoch + 1, None);
                }
                false
            }
        }
    }

    /// Gives an operation to a driver.
    fn place(&mut self, name: SlabKey, seat: u32) -> bool {
        let (Some(cluster), Some(Some(at))) = (&mut self.cluster, self.seats.get_mut(seat as usize)) else { return false };
        if !at.driver.has_room() {
            return false;
        }
        let Some(guest) = cluster.hall.leave(name) else { return false };
        let Some(mut op) = guest.op else { return false };
        op.reign = cluster.map.shard(op.hash.shard()).reign;
        let is_call = op.sink == Sink::Call;
        let placed = at.driver.admit(op, guest.bytes);
        if is_call {
            cluster.forwards.insert(Ticket { seat: HALL, name }, Ticket { seat, name: placed });
        }
        true
    }

    /// Where an operation is by now.
    pub(super) fn whereabouts(&mut self, mut ticket: Ticket) -> Ticket {
        if let Some(cluster) = &mut self.cluster {
            while let Some(next) = cluster.forwards.remove(&ticket) {
                ticket = next;
            }
        }
        ticket
    }
}

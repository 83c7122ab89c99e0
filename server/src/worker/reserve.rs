//! Long values: memory is reserved, filled in parts through the staging ring, and stored as by any other Put.
//!
//! A reservation is its connection's: what is unfinished is free again when that ends, when nothing has come for a lease, or
//! when its time is over. Its handle is the sequence of the request that made it, so no session can name another's.

use super::connection::SessionKey;
use super::intake::refuse;
use super::poll_loop::Worker;
use super::staging::Received;
use crate::refusals::Cause;
use crate::shard::{Extent, Unmet};
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::EndpointId;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::record::record_bytes;
use sidewire_common::layout::request::{Request, RequestField};
use sidewire_common::limits::{KEY_BYTES_MAX, RESERVATIONS_MAX};
use std::collections::BTreeMap;
use std::time::Duration;

/// One session may have as many bytes reserved at one worker as so many of the longest records have.
const SESSION_RECORDS: u64 = 2;
/// A value must be whole within so many leases, however steadily it comes.
const LEASES_MAX: u32 = 20;

/// A value that is being written.
struct Reservation {
    key: Vec<u8>,
    extent: Extent,
    /// Bytes counted for it.
    bytes: u64,
    idle_until: BootInstant,
    ends_at: BootInstant,
}

/// All values that are being written to one worker, by connection and handle.
#[derive(Default)]
pub(super) struct Reservations(BTreeMap<(EndpointId, u64), Reservation>);

impl Reservations {
    fn of(&self, endpoint: EndpointId) -> impl Iterator<Item = (u64, &Reservation)> {
        self.0.range((endpoint, 0)..=(endpoint, u64::MAX)).map(|(&(_, handle), reservation)| (handle, reservation))
    }

    /// Time until the first one may end; `None` when there are none.
    pub(super) fn next_in(&self, now: BootInstant) -> Option<Duration> {
        self.0.values().map(|reservation| reservation.idle_until.min(reservation.ends_at).since(now)).min()
    }
}

fn unreserved(figures: [u64; 2]) -> Unmet {
    Unmet { outcome: Outcome::Unreserved, detail: 0, figures }
}

impl Worker {
    /// A client wants to write a long value of a key of this worker.
    pub(super) fn reserve(&mut self, endpoint: EndpointId, session: SessionKey, request: &Request) {
        let made = self.try_reserve(endpoint, request);
        let unmet = match made {
            Ok(()) => Unmet { outcome: Outcome::Done, detail: 0, figures: [request.sequence, 0] },
            Err(unmet) => unmet,
        };
        if unmet.outcome == Outcome::Refused {
            self.count_refused(unmet);
        }
        self.answer(endpoint, session, request.sequence, unmet);
    }

    fn try_reserve(&mut self, endpoint: EndpointId, request: &Request) -> Result<(), Unmet> {
        let (longest, asked) = (self.store.value_bytes_max(), request.argument as u64);
        let value_len = usize::try_from(asked).ok().filter(|&bytes| bytes <= longest);
        let value_len = value_len.ok_or_else(|| refuse(RequestField::ValueLength, asked, longest as u64))?;
        let bytes = record_bytes(request.key_len.into(), value_len) as u64;
        let open = self.reservations.of(endpoint).count();
        if open >= RESERVATIONS_MAX {
            return Err(unreserved([open as u64, RESERVATIONS_MAX as u64]));
        }
        let taken: u64 = self.reservations.of(endpoint).map(|(_, reservation)| reservation.bytes).sum();
        let limit = SESSION_RECORDS * record_bytes(KEY_BYTES_MAX, longest) as u64;
        if taken + bytes > limit {
            return Err(unreserved([taken, limit]));
        }
        if !self.store.reserved().take(bytes) {
            return Err(unreserved([self.store.reserved().bytes(), self.store.reserved().limit()]));
        }
        let extent = Extent::reserve(&mut self.memory, &mut self.heap, request.key_len.into(), value_len);
        let extent = extent.inspect_err(|_| self.store.reserved().give_back(bytes))?;
        let (now, lease) = (BootInstant::now(), self.store.settings().lease);
        let key = self.scratch.key.clone();
        let reservation = Reservation { key, extent, bytes, idle_until: now.plus(lease), ends_at: now.plus(lease * LEASES_MAX) };
        self.reservations.0.insert((endpoint, request.sequence), reservation);
        Ok(())
    }

    /// The next part of a long value.
    pub(super) fn fill(&mut self, endpoint: EndpointId, session: SessionKey, received: &Received) {
        let Received { request, value_at } = received;
        let idle_until = BootInstant::now().plus(self.store.settings().lease);
        let ring = self.connections.writers.get(&endpoint).map(|connection| &connection.ring);
        let reservation = self.reservations.0.get_mut(&(endpoint, request.argument as u64));
        let outcome = match (ring, reservation) {
            (Some(ring), Some(reservation)) => {
                let (bytes, missing) = (request.value_len as usize, reservation.extent.missing());
                if bytes > missing {
                    let what = format!("a part of {bytes} bytes for a value of which {missing} are missing");
                    return self.violation(endpoint, Cause::Length, &what);
                }
                reservation.extent.fill(&mut self.memory, ring, *value_at, bytes);
                reservation.idle_until = idle_until;
                Unmet::plain(Outcome::Done)
            }
            _ => unreserved([0; 2]),
        };
        self.answer(endpoint, session, request.sequence, outcome);
    }

    /// The whole value that a commit is for. When there is none, what there is to be said is said.
    pub(super) fn claim(&mut self, endpoint: EndpointId, session: SessionKey, request: &Request) -> Option<Extent> {
        let name = (endpoint, request.argument as u64);
        let Some(reservation) = self.reservations.0.get(&name) else {
            self.answer(endpoint, session, request.sequence, unreserved([0; 2]));
            return None;
        };
        let lie = match reservation.extent.missing() {
            0 if reservation.key == self.scratch.key => None,
            0 => Some((Cause::Argument, "a reservation of another key".to_owned())),
            missing => Some((Cause::Length, format!("a value of which {missing} bytes are missing"))),
        };
        if let Some((cause, what)) = lie {
            self.violation(endpoint, cause, &what);
            return None;
        }
        let reservation = self.reservations.0.remove(&name)?;
        self.store.reserved().give_back(reservation.bytes);
        Some(reservation.extent)
    }

    /// A connection has ended: what it had not finished is free again.
    pub(super) fn drop_reservations(&mut self, endpoint: EndpointId) {
        let handles: Vec<u64> = self.reservations.of(endpoint).map(|(handle, _)| handle).collect();
        for handle in handles {
            self.drop_reservation((endpoint, handle));
        }
    }

    fn drop_reservation(&mut self, name: (EndpointId, u64)) {
        let Some(reservation) = self.reservations.0.remove(&name) else { return };
        self.store.reserved().give_back(reservation.bytes);
        reservation.extent.discard(&mut self.heap);
    }

    /// Frees what was not finished in time.
    pub(super) fn end_reservations(&mut self) {
        if self.reservations.0.is_empty() {
            return;
        }
        let now = BootInstant::now();
        let over = |reservation: &Reservation| now >= reservation.idle_until || now >= reservation.ends_at;
        let late: Vec<_> = self.reservations.0.iter().filter(|(_, r)| over(r)).map(|(&name, _)| name).collect();
        for name in late {
            tracing::debug!(worker = self.number, handle = name.1, "a long value was not finished in time");
            self.drop_reservation(name);
        }
    }
}

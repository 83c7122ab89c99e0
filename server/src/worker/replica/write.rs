//! Writes that wait for backups: told to all of them at once, published when all have answered.

use super::super::intake::Work;
use super::super::poll_loop::Worker;
use super::outcomes::Ended;
use super::send::Message;
use super::{Phase, Ticket};
use crate::shard::{Draft, Found, Unmet, discard_draft, publish_draft};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::MemberId;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::record::Version;
use sidewire_common::layout::replica_entry::Origin;
use sidewire_common::layout::request::Operation;

/// What a write changes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Change {
    /// The key gets this record, which may name a cell of its own.
    Put {
        /// The record.
        draft: Draft,
        /// A cell that is given back if the record is not published.
        cell: Option<u32>,
    },
    /// The key gets nothing, and a cell that served it alone is given back.
    Delete {
        /// The cell.
        cell: Option<u32>,
    },
}

/// A write on its way to the backups.
pub(super) struct Replicating {
    pub work: Work,
    pub change: Change,
    pub shard: u32,
    pub position: u64,
    pub origin: Origin,
    /// What the client is answered once it is published.
    outcome: Unmet,
    /// Who has not answered yet.
    pub waits: Vec<MemberId>,
    /// Who was told.
    told: Vec<MemberId>,
}

impl Replicating {
    /// What a successor must know of its outcome.
    pub fn ended(&self) -> Ended {
        ended(&self.work, self.change, self.outcome)
    }
}

fn ended(work: &Work, change: Change, outcome: Unmet) -> Ended {
    let version = match change {
        Change::Put { draft, .. } => draft.version.raw(),
        Change::Delete { .. } => 0,
    };
    Ended { version, figure: if work.request.operation == Operation::Add { outcome.figures[0] } else { 0 } }
}

impl Worker {
    /// Carries a change of what was `found` in this same turn out: at once if nobody else has the shard, else when all backups
    /// have it. The key is nobody else's until then.
    pub(in super::super) fn change(&mut self, work: Work, change: Change, outcome: Unmet, found: Option<Found>) {
        let shard = work.hash.shard();
        let waits = self.replication.primary(shard).map(|primary| primary.awaited()).unwrap_or_default();
        if waits.is_empty() {
            let outcome = match self.publish(&work, change, found) {
                Ok(()) => {
                    self.published(&work, change, outcome, &[]);
                    outcome
                }
                Err(unmet) => {
                    self.undo(change);
                    unmet
                }
            };
            return self.finish(work, outcome);
        }
        self.deferrals.mark_busy(work.hash);
        let ticket = self.replication.ticket();
        let position = self.next_position(shard, &work);
        let origin = origin(&work, self.number);
        for &member in &waits {
            self.tell(member, Message::Write { shard, ticket });
        }
        let write = Replicating { work, change, shard, position, origin, outcome, told: waits.clone(), waits };
        self.replication.writes.insert(ticket, write);
    }

    fn next_position(&mut self, shard: u32, work: &Work) -> u64 {
        let Some(of) = self.replication.shards.get_mut(&shard) else { return 0 };
        of.copy.position += 1;
        of.remember(of.copy.position, &work.key);
        of.copy.position
    }

    /// Stores what is published in place of what was found in this same turn.
    fn publish(&mut self, work: &Work, change: Change, found: Option<Found>) -> Result<(), Unmet> {
        match change {
            Change::Delete { cell } => {
                if let Some(found) = found {
                    self.remove(work.hash, &found);
                }
                if let Some(cell) = cell {
                    self.store.cells().retire(cell);
                }
            }
            Change::Put { draft, .. } => self.publish_record(work.hash, &draft, found.as_ref())?,
        }
        Ok(())
    }

    /// Publishes a record, and counts it.
    pub(super) fn publish_record(&mut self, hash: KeyHash, draft: &Draft, found: Option<&Found>) -> Result<(), Unmet> {
        let done = publish_draft(&self.store, &mut self.memory, &mut self.index, &mut self.heap, draft, found)?;
        self.count_put(hash, &done, found, draft);
        Ok(())
    }

    /// Gives back what a change would have used.
    fn undo(&mut self, change: Change) {
        if let Change::Put { draft, cell } = change {
            discard_draft(&mut self.heap, &draft);
            if let Some(cell) = cell {
                self.store.cells().retire(cell);
            }
        }
    }

    /// Tells those who are being filled, and remembers the outcome for the time after this server.
    fn published(&mut self, work: &Work, change: Change, outcome: Unmet, told: &[MemberId]) {
        if self.replication.map.is_none() {
            return;
        }
        self.key_changed(work.hash.shard(), &work.key, told);
        let origin = origin(work, self.number);
        self.replication.outcomes.add(&origin, work.hash.shard(), ended(work, change, outcome), BootInstant::now());
    }

    /// A key holds something else now: copies that were not told so learn what.
    pub(in super::super) fn key_changed(&mut self, shard: u32, key: &[u8], told: &[MemberId]) {
        let Some(primary) = self.replication.primary(shard) else { return };
        let others: Vec<MemberId> = primary
            .fills
            .iter()
            .filter(|(_, fill)| fill.has_begun())
            .map(|(&m, _)| m)
            .chain(primary.followers.keys().copied())
            .collect();
        for member in others.into_iter().filter(|member| !told.contains(member)) {
            self.tell(member, Message::Key { shard, key: key.into() });
        }
    }

    /// A backup has the write.
    pub(super) fn write_answered(&mut self, ticket: Ticket, member: MemberId) {
        if let Some(write) = self.replication.writes.get_mut(&ticket) {
            write.waits.retain(|&of| of != member);
            if write.waits.is_empty() {
                self.complete_write(ticket);
            }
        }
    }

    /// Nobody waits for this copy any more.
    pub(super) fn no_longer_awaited(&mut self, shard: u32, member: MemberId) {
        let of = |write: &Replicating| write.shard == shard && write.waits.contains(&member);
        let tickets: Vec<Ticket> = self.replication.writes.iter().filter(|(_, w)| of(w)).map(|(&ticket, _)| ticket).collect();
        for ticket in tickets {
            self.write_answered(ticket, member);
        }
    }

    /// All backups have it: it is published and answered.
    fn complete_write(&mut self, ticket: Ticket) {
        let Some(write) = self.replication.writes.remove(&ticket) else { return };
        let deposed = self.replication.primary(write.shard).is_none_or(|primary| primary.phase == Phase::Deposed);
        if deposed {
            return self.abandon_write(write);
        }
        // A split may have moved it since.
        let found = self.index.find(&mut self.memory, write.work.hash, &write.work.key);
        match self.publish(&write.work, write.change, found) {
            Ok(()) => {
                self.published(&write.work, write.change, write.outcome, &write.told);
                self.finish_and_unpark(write.work, write.outcome);
            }
            Err(unmet) if unmet.outcome == Outcome::Busy => {
                self.replication.writes.insert(ticket, write);
                self.replication.stuck.push(ticket);
            }
            Err(unmet) => {
                // The backups have what the index here has no room for: they are told what the key holds.
                self.undo(write.change);
                self.key_changed(write.shard, &write.work.key, &[]);
                self.finish_and_unpark(write.work, unmet);
            }
        }
    }

    /// Publishes what could not be published for want of memory.
    pub(super) fn retry_stuck(&mut self) {
        for ticket in std::mem::take(&mut self.replication.stuck) {
            self.complete_write(ticket);
        }
    }

    /// This server is not the primary any more: whether the write lives on is the successor's to tell, so the client is
    /// not answered.
    fn abandon_write(&mut self, write: Replicating) {
        self.undo(write.change);
        self.disconnect(write.work.endpoint);
        self.unpark(write.work.hash.raw());
    }

    /// All open writes of a shard end so.
    pub(super) fn abandon_writes(&mut self, shard: u32) {
        let tickets: Vec<Ticket> = self.replication.writes.iter().filter(|(_, w)| w.shard == shard).map(|(&t, _)| t).collect();
        for ticket in tickets {
            if let Some(write) = self.replication.writes.remove(&ticket) {
                self.abandon_write(write);
            }
        }
    }

    /// Position of the oldest open write of a shard.
    pub(super) fn oldest_open(&self, shard: u32) -> Option<u64> {
        self.replication.writes.values().filter(|write| write.shard == shard).map(|write| write.position).min()
    }

    /// A version for a record of this shard.
    pub(in super::super) fn next_version_of(&mut self, shard: u32) -> Version {
        let version = self.next_version();
        match self.replication.reign(shard) {
            Some(reign) => version.in_reign(reign),
            None => version,
        }
    }
}

fn origin(work: &Work, worker: u32) -> Origin {
    Origin {
        client: work.session.0,
        session: work.session.1,
        worker,
        sequence: work.request.sequence,
        resolved_below: work.request.resolved_below,
    }
}

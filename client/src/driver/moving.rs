//! When an attachment has ended: what was bound to it is given up, and the session moves to the next one.

use super::Driver;
use super::lane::Lane;
use super::link::{Link, writers};
use crate::attached::Attached;
use crate::error::Error;
use crate::in_flight::{Machine, Sink};
use crate::locate::CellCache;
use crate::route::Cause;
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use sidewire_common::key::KeyHash;
use sidewire_proto::v1;
use std::sync::Arc;
use std::time::Duration;

/// Longest time for the completions of a closed port.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

impl Driver {
    /// The attachment has ended: everything is given up that was bound to it, and the session moves to the next.
    #[cold]
    pub(super) fn move_on(&mut self) {
        if self.alive {
            self.alive = false;
            self.give_up_all();
        }
        let shared = Arc::clone(&self.server.shared);
        let now = BootInstant::now();
        if shared.life() == self.life || shared.gone().is_some() || now < self.move_at {
            return;
        }
        let Some(limit) = self.may_block() else { return };
        let life = shared.life();
        let Some(attached) = shared.attached() else { return };
        match Link::open(&shared, &attached, limit) {
            Ok(link) => self.enter(link, life, attached),
            Err(error) => {
                tracing::debug!(%error, "the session cannot move to the new attachment yet");
                shared.suspect();
                self.move_at = BootInstant::now().plus(self.reader.pause());
            }
        }
    }

    fn enter(&mut self, link: Link, life: u64, attached: Arc<Attached>) {
        self.server.shared.forget_session(self.waker);
        self.waker = self.server.shared.remember_session(link.port.waker());
        self.life = life;
        self.session = link.session;
        self.regions = attached.regions();
        self.regions_epoch = attached.gate.current();
        self.record_bytes_max = attached.terms.record_bytes_max();
        self.pinned = attached.gate.session();
        self.cells = CellCache::default();
        self.writers = writers(&attached);
        self.queued = 0;
        self.room = link.port.room(link.reader);
        self.reader = Lane::connected(link.reader);
        self.port = link.port;
        self.attached = attached;
        // The old buffers are registered with the old fabric.
        let old = std::mem::replace(&mut self.buffers, link.buffers);
        self.alive = true;
        for name in self.ops.keys() {
            self.bring_over(name);
        }
        self.cut_anew();
        drop(old);
    }

    /// An operation's key and image are those of the new attachment. One whose image finds no room ends: without its value
    /// there is nothing to be sent again.
    fn bring_over(&mut self, name: SlabKey) {
        let Some(op) = self.ops.find(name) else { return };
        op.hash = KeyHash::of(&op.key, self.attached.terms.hash_seed);
        let Some((old, bytes)) = op.image.take() else { return };
        match self.buffers.take(bytes) {
            Ok(mut image) => {
                image.bytes_mut()[..bytes].copy_from_slice(&old.bytes()[..bytes]);
                op.image = Some((image, bytes));
            }
            Err(error) => self.finish(name, Err(error.into())),
        }
    }

    /// Closes all endpoints, takes all work back, and ends what cannot be begun anew.
    fn give_up_all(&mut self) {
        let endpoints =
            self.reader.endpoint.take().into_iter().chain(self.writers.iter_mut().filter_map(|w| w.lane.endpoint.take()));
        for endpoint in endpoints.collect::<Vec<_>>() {
            self.port.close(endpoint);
        }
        self.room = 0;
        self.take_chain_back();
        let started = BootInstant::now();
        let limit = DRAIN_LIMIT.min(self.server.shared.deadline);
        while self.posted.len() > 0 && BootInstant::now().since(started) < limit {
            self.poll();
        }
        self.take_parts_back();
        self.unlocks.clear();
        self.events.clear();
        self.waiting.clear();
        self.delayed.clear();
        let open: Vec<SlabKey> = self.writers.iter().flat_map(|w| w.books.operations()).collect();
        for name in self.ops.keys() {
            if self.in_cluster() {
                self.give_up_here(name);
            } else {
                self.give_up(name, open.contains(&name));
            }
        }
        for slot in &mut self.writers {
            slot.queue.clear();
        }
        self.queued = 0;
    }

    /// In a cluster, what cannot be begun anew here is begun elsewhere.
    fn give_up_here(&mut self, name: SlabKey) {
        let doubt = self.doubt_of(name);
        let Some(op) = self.ops.find(name) else { return };
        op.pinned = None;
        op.must_run = false;
        if op.has_ended() {
            return self.settle(name);
        }
        let error = match &op.machine {
            Machine::Lock(m) if m.gives_back() => Some(Error::LeaseLapsed),
            // What it has posted may have counted.
            Machine::Counter(m) if m.may_have_counted() && op.posted > 0 => Some(Error::Indeterminate { operation: m.name() }),
            Machine::Raw(_) => Some(Error::LeaseLapsed),
            _ => None,
        };
        match error {
            Some(error) => {
                if let Machine::Lock(m) = &mut op.machine {
                    m.forget_attempt(&self.attached.lock_attempts);
                }
                self.finish(name, Err(error));
            }
            None => self.emigrate_in_doubt(name, Cause::Gone, doubt),
        }
    }

    fn give_up(&mut self, name: SlabKey, sent: bool) {
        let Some(op) = self.ops.find(name) else { return };
        op.request = None;
        op.queued = false;
        op.paused = false;
        op.pinned = None;
        op.must_run = false;
        if op.has_ended() {
            return self.settle(name);
        }
        let error = match &mut op.machine {
            machine if sent && machine.written().is_some() => Some(Error::Indeterminate { operation: machine.name() }),
            Machine::Counter(m) if op.posted > 0 && m.may_have_counted() => Some(Error::Indeterminate { operation: m.name() }),
            Machine::Counter(m) => {
                m.forget_attempt();
                None
            }
            Machine::Lock(m) => {
                m.forget_attempt(&self.attached.lock_attempts);
                m.gives_back().then_some(Error::LeaseLapsed)
            }
            Machine::Raw(_) => Some(Error::LeaseLapsed),
            _ => None,
        };
        match error {
            Some(error) => self.finish(name, Err(error)),
            None => self.restart_later(name),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        for name in self.ops.keys() {
            if let Some(op) = self.ops.find(name) {
                op.sink = Sink::Nobody;
                op.must_run = false;
            }
        }
        if self.alive {
            self.alive = false;
            self.give_up_all();
        }
        let shared = &self.server.shared;
        shared.forget_session(self.waker);
        shared.end_stats(&self.stats);
        if !self.attached.has_ended() {
            shared.control.close_session(v1::CloseSessionRequest {
                client_id: self.attached.terms.client.to_bytes().to_vec(),
                incarnation: self.attached.terms.incarnation.0,
                session: self.session,
            });
        }
    }
}

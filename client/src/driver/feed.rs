//! Running machines, and turning what they ask for into work.

use super::Driver;
use super::large::PIECE_BYTES;
use crate::error::Error;
use crate::in_flight::{Machine, Op, Posted, Purpose, Sink};
use crate::lock_guard::Held;
use crate::op::{Ask, CellVerb, Context, Done, Found, Input, ReadTag, Step};
use crate::route::{Cause, Way};
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{RemoteAddr, Verb, WorkId, WorkRequest};
use sidewire_common::layout::request::Operation;
use sidewire_common::memory::Buffer;
use std::sync::Arc;

/// Bytes of a cell's word.
const WORD_BYTES: usize = 8;

impl Driver {
    /// Gives a machine what has come, and carries out what it wants.
    #[inline]
    pub(super) fn feed(&mut self, name: SlabKey, input: Input) {
        let Some(op) = self.ops.find(name) else { return };
        if op.has_ended() && !op.must_run {
            return;
        }
        if !self.alive && self.server.shared.membership.is_some() {
            return match &op.machine {
                // Its verb may have been executed, whatever its completion says.
                Machine::Counter(m) if m.may_have_counted() => {
                    let operation = m.name();
                    self.finish(name, Err(Error::Indeterminate { operation }));
                }
                _ => self.emigrate(name, Cause::Gone),
            };
        }
        // Nothing is begun on an attachment that has ended; what was begun there is told how it came out.
        if !self.alive && matches!(input, Input::Resume | Input::Restart) {
            return self.restart_later(name);
        }
        if op.pinned.is_none() && !matches!(op.machine, Machine::Write(_) | Machine::Large(_) | Machine::Raw(_)) {
            let epoch = self.pinned.enter();
            op.pinned = Some(epoch);
            if epoch != self.regions_epoch {
                self.regions = self.attached.regions();
                self.regions_epoch = epoch;
                self.cells.enter(epoch);
            }
        }
        let Op { machine, key, hash, reign, pinned, .. } = op;
        let terms = &self.attached.terms;
        let mut cx = Context {
            key,
            hash: *hash,
            reign: *reign,
            locks_open_at: terms.locks_open_at,
            epoch: pinned.unwrap_or(self.regions_epoch),
            directory: &self.attached.directory,
            directories: terms.directories,
            locations: &self.attached.locations,
            cells: &mut self.cells,
            clock: &self.attached.clock,
            record_bytes_max: self.record_bytes_max,
            cell_count: terms.cell_count,
            holder: terms.holder_id,
            lock_attempts: &self.attached.lock_attempts,
            stats: &self.stats,
            asks: &mut self.asks,
        };
        let step = match machine {
            Machine::Get(m) => m.on(input, &mut cx),
            Machine::Counter(m) => m.on(input, &mut cx),
            Machine::Lock(m) => m.on(input, &mut cx),
            Machine::Write(m) => m.on(input, &mut cx),
            Machine::Large(m) => m.on(input, &mut cx),
            Machine::Raw(_) => Step::Wait,
        };
        if !self.alive {
            self.asks.clear();
            return match step {
                Step::Finished(result) => self.finish(name, result),
                _ => self.restart_later(name),
            };
        }
        while let Some(ask) = self.asks.pop() {
            self.carry_out(name, ask);
        }
        self.after(name, step);
    }

    fn after(&mut self, name: SlabKey, step: Step) {
        match step {
            Step::Wait => {}
            Step::Pause(pause) => {
                self.delayed.push((BootInstant::now().plus(pause), name));
                if let Some(op) = self.ops.find(name) {
                    op.paused = true;
                }
            }
            Step::Reconnect => self.restart_later(name),
            Step::Exhausted => {
                let Some(op) = self.ops.find(name) else { return };
                let after = op.since.map_or(std::time::Duration::ZERO, |since| BootInstant::now().since(since));
                let error = Error::Deadline { operation: op.machine.name(), after, seen: op.machine.seen() };
                self.finish(name, Err(error));
            }
            Step::Finished(result) => self.finish(name, result),
        }
    }

    /// The operation begins anew once the read endpoint is there.
    pub(super) fn restart_later(&mut self, name: SlabKey) {
        if let Some(op) = self.ops.find(name)
            && !op.restart
        {
            op.restart = true;
            self.restarts.push(name);
        }
    }

    /// An operation has brought a result. What was read counts only if the lease held when it had arrived.
    #[inline]
    pub(super) fn finish(&mut self, name: SlabKey, mut result: Result<Done, Error>) {
        let Some(op) = self.ops.find(name) else { return };
        if op.machine.reads() && result.as_ref().is_ok_and(Done::was_read) && !self.attached.lease.valid_at(BootInstant::now()) {
            self.stats.lease_discards.add(1);
            self.server.shared.suspect();
            match &mut op.machine {
                Machine::Counter(m) if m.may_have_counted() => result = Err(Error::Indeterminate { operation: m.name() }),
                _ => return self.restart_later(name),
            }
        }
        if self.map_epoch != 0
            && result.as_ref().is_ok_and(Done::needs_primary)
            && self.server.shared.has_moved(self.map_epoch, op.hash.shard(), op.reign)
        {
            return self.emigrate(name, Cause::Moved);
        }
        if let Ok(Done::Lock(Ok(taken))) = result {
            let way = Way { hash: op.hash, reign: op.reign };
            let map = self.server.shared.membership.as_ref().map(|membership| Arc::clone(&membership.map));
            result = Ok(Done::Locked(Box::new(Held { attached: Arc::clone(&self.attached), taken, way, map })));
        }
        op.must_run = false;
        if matches!(result, Ok(Done::Found(_))) {
            self.stats.gets.add(1);
        }
        match op.sink {
            Sink::Call => op.result = Some(result),
            Sink::Submitted(_) => {
                op.result = Some(result);
                self.finished.push_back(name);
            }
            Sink::Nobody => {}
        }
        self.settle(name);
    }

    #[inline]
    fn carry_out(&mut self, name: SlabKey, ask: Ask) {
        match ask {
            Ask::Request(request) if request.operation == Operation::Chunk => self.enqueue_part(name, request),
            Ask::Request(request) => self.enqueue(name, request),
            Ask::Read { .. } | Ask::Cell { .. } if self.room == 0 || self.reader.is_closed() => {
                self.waiting.push_back((name, ask));
            }
            Ask::Read { place, offset, bytes, tag } => match self.regions.at(place, offset, bytes as u64) {
                Some(from) => self.read(name, tag, from, bytes),
                None => self.events.push_back((name, Input::Unknown { tag })),
            },
            Ask::Cell { index, verb } => match self.regions.cell(index) {
                Some(at) => self.cell(name, at, verb),
                None => {
                    let reason = format!("cell {index} lies outside the server's cells");
                    self.finish(name, Err(Error::Layout { reason }));
                }
            },
        }
    }

    #[inline]
    fn read(&mut self, name: SlabKey, tag: ReadTag, from: RemoteAddr, bytes: usize) {
        match self.buffers.take(bytes) {
            Ok(buffer) if bytes > PIECE_BYTES => self.read_long(name, tag, from, bytes, buffer),
            Ok(buffer) => self.chain_read(name, Purpose::Read { tag, bytes }, buffer, from, bytes),
            Err(error) => self.finish(name, Err(error.into())),
        }
    }

    fn cell(&mut self, name: SlabKey, at: RemoteAddr, verb: CellVerb) {
        if !self.attached.lease.valid_at(BootInstant::now()) {
            // What cannot be believed is not begun.
            self.server.shared.suspect();
            return self.restart_later(name);
        }
        match verb {
            CellVerb::Read => match self.buffers.take(WORD_BYTES) {
                Ok(buffer) => self.chain_read(name, Purpose::CellRead, buffer, at, WORD_BYTES),
                Err(error) => self.finish(name, Err(error.into())),
            },
            CellVerb::Add(delta) => self.chain_up(name, Purpose::CellAtomic, Verb::FetchAdd { at, delta: delta as u64 }),
            CellVerb::Swap { expect, swap } => {
                self.chain_up(name, Purpose::CellAtomic, Verb::CompareSwap { at, expect, swap });
            }
        }
    }

    #[inline]
    pub(super) fn chain_read(&mut self, name: SlabKey, purpose: Purpose, mut buffer: Buffer, from: RemoteAddr, bytes: usize) {
        let (work, slot) = self.posted.take(|| None);
        let id = WorkId(work.raw());
        let into = buffer.lend(0..bytes, id);
        *slot = Some(Posted { op: name, purpose, buffer: Some(buffer) });
        self.chain.push(WorkRequest { id, verb: Verb::Read { into, from } });
        self.chained(name);
    }

    pub(super) fn chain_up(&mut self, name: SlabKey, purpose: Purpose, verb: Verb<'static>) {
        let (work, slot) = self.posted.take(|| None);
        *slot = Some(Posted { op: name, purpose, buffer: None });
        self.chain.push(WorkRequest { id: WorkId(work.raw()), verb });
        self.chained(name);
    }

    #[inline]
    pub(super) fn chained(&mut self, name: SlabKey) {
        self.room -= 1;
        if let Some(op) = self.ops.find(name) {
            op.posted += 1;
        }
    }

    /// Posts the chain with one doorbell, and what has been waiting for room.
    pub(super) fn flush(&mut self) {
        let Some(endpoint) = self.reader.endpoint else { return };
        while self.room > 0
            && let Some((name, ask)) = self.waiting.pop_front()
        {
            if self.ops.find(name).is_some_and(|op| !op.has_ended() || op.must_run) {
                self.carry_out(name, ask);
            }
        }
        if self.chain.is_empty() {
            return;
        }
        if let Err(error) = self.port.post(endpoint, &mut self.chain) {
            tracing::debug!(%error, "a chain of reads was refused");
            self.take_chain_back();
            self.break_reader();
        }
    }

    /// Nothing of the chain was posted: its buffers come back, its operations begin anew.
    pub(super) fn take_chain_back(&mut self) {
        let mut chain = std::mem::take(&mut self.chain);
        for work in chain.drain(..) {
            let name = SlabKey::from_raw(work.id.0);
            let Some(Posted { op, buffer, .. }) = self.posted.find(name).and_then(Option::take) else { continue };
            self.posted.release(name);
            if let Some(mut buffer) = buffer {
                buffer.give_back(work.id);
            }
            if let Some(op) = self.ops.find(op) {
                op.posted -= 1;
            }
            self.restart_later(op);
        }
        self.chain = chain;
    }
}

impl Done {
    /// Whether it was found by reading memory that only the lease makes trustworthy.
    #[inline]
    fn was_read(&self) -> bool {
        match self {
            Self::Found(Found::Absent | Found::Record(_)) | Self::Sum(_) | Self::Value(_) | Self::View(_) | Self::Lock(_) => true,
            Self::Write(_) | Self::Created(_) | Self::Asked(_) | Self::Locked(_) | Self::Unlocked | Self::Raw => false,
        }
    }

    /// Whether it is believed only if the shard is still where it was read: what has been changed by then is not read
    /// again.
    fn needs_primary(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Value(_) | Self::View(_) | Self::Lock(_))
    }
}

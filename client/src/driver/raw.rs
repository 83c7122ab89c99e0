//! Raw verbs for benchmarks: no machine, the same posting, polling and waiting.

use super::Driver;
use super::large::PIECE_BYTES;
use crate::error::Error;
use crate::in_flight::{Machine, Posted, Purpose, Sink};
use crate::op::{Done, Want, WriteOp};
use crate::route::Way;
use crate::slab::SlabKey;
use sidewire_common::fabric::{EndpointId, RemoteAddr, Verb, WorkId, WorkRequest};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::counter_cell::CELL_BYTES;
use sidewire_common::layout::record::{Kind, UNIT_BYTES};
use sidewire_common::layout::request::{HEADER_BYTES, Operation, Request};
use sidewire_common::limits::KEY_BYTES_MAX;
use std::time::Duration;

/// A key for operations that have none; its hash decides which worker is used.
const NO_KEY: &[u8] = b"raw";
/// Memory that no region holds, under a key that nobody was given.
const NOWHERE: RemoteAddr = RemoteAddr { addr: 0, rkey: u32::MAX >> 1 };

/// Where the messages of a long transfer begin, and how long they are.
fn pieces_of(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..bytes.max(1)).step_by(PIECE_BYTES).map(move |at| (at, PIECE_BYTES.min(bytes - at)))
}

/// The error of work that cannot end well.
fn refused(ended: Result<Done, Error>) -> Result<Error, Error> {
    match ended {
        Ok(_) => Err(Error::Layout { reason: "memory that no region holds was reached".into() }),
        Err(error) => Ok(error),
    }
}

impl Driver {
    /// Where an operation without a key goes.
    fn no_way(&self) -> Way {
        Way { hash: KeyHash::of(NO_KEY, self.attached.terms.hash_seed), reign: 0 }
    }

    fn begin_raw(&mut self, completions: u32, deadline: Duration) -> Result<SlabKey, Error> {
        let (name, op) = self.slot(NO_KEY, self.no_way(), deadline, Sink::Call)?;
        op.machine = Machine::Raw(completions);
        Ok(name)
    }

    /// Raw reads in one chain.
    ///
    /// # Errors
    /// When they do not fit, or no buffers are to be had.
    pub fn begin_raw_reads(
        &mut self,
        bytes: usize,
        count: usize,
        deadline: Duration,
        mut step: impl FnMut() -> u64,
    ) -> Result<SlabKey, Error> {
        let pieces = bytes.div_ceil(PIECE_BYTES).max(1);
        if count * pieces > self.room {
            self.turn();
        }
        if count * pieces > self.room || self.reader.is_closed() {
            return Err(Error::Full);
        }
        let name = self.begin_raw((count * pieces) as u32, deadline)?;
        for _ in 0..count {
            let Some(from) = self.regions.sample(bytes as u64, step()) else {
                return Err(Error::Refused { field: "bytes", value: bytes as u64, limit: 0 });
            };
            for (at, bytes) in pieces_of(bytes) {
                let buffer = self.buffers.take(bytes)?;
                self.chain_read(name, Purpose::Raw, buffer, from.plus(at as u64), bytes);
            }
        }
        Ok(name)
    }

    /// One raw atomic on a cell.
    ///
    /// # Errors
    /// When it does not fit, or the fabric fails.
    pub fn run_raw_atomic(&mut self, cell: u32, add: bool, deadline: Duration) -> Result<Done, Error> {
        if self.room == 0 {
            self.turn();
        }
        if self.room == 0 || self.reader.is_closed() {
            return Err(Error::Full);
        }
        let at = self.regions.cell(cell);
        let at = at.ok_or(Error::Refused { field: "cell", value: cell.into(), limit: CELL_BYTES as u64 })?;
        let name = self.begin_raw(1, deadline)?;
        let verb = if add { Verb::FetchAdd { at, delta: 1 } } else { Verb::CompareSwap { at, expect: 0, swap: 0 } };
        self.chain_up(name, Purpose::Raw, verb);
        self.run(name)
    }

    /// A read that the server's memory refuses.
    ///
    /// # Errors
    /// When there is no read endpoint.
    pub fn run_bad_read(&mut self, deadline: Duration) -> Result<Error, Error> {
        self.turn();
        if self.reader.is_closed() || self.room == 0 {
            return Err(Error::Full);
        }
        let name = self.begin_raw(1, deadline)?;
        let buffer = self.buffers.take(UNIT_BYTES)?;
        self.chain_read(name, Purpose::Raw, buffer, NOWHERE, UNIT_BYTES);
        refused(self.run(name))
    }

    /// A write that the server's memory refuses.
    ///
    /// # Errors
    /// When there is no write endpoint.
    pub fn run_bad_write(&mut self, deadline: Duration) -> Result<Error, Error> {
        self.turn();
        let Some(endpoint) = self.writers[0].lane.endpoint else { return Err(Error::Full) };
        let name = self.begin_raw(1, deadline)?;
        self.post_raw_write(name, endpoint, NOWHERE, UNIT_BYTES)?;
        refused(self.run(name))
    }

    fn reign_of(&self, key: &[u8]) -> u32 {
        let shard = KeyHash::of(key, self.attached.terms.hash_seed).shard();
        self.server.shared.membership.as_ref().map_or(0, |membership| membership.map.map().shard(shard).reign)
    }

    /// The cell of a counter that this session has used.
    pub fn known_counter_cell(&self, key: &[u8]) -> Option<u32> {
        self.cells.find(key, Kind::Counter as u8, self.reign_of(key)).map(|cell| cell.index)
    }

    /// A raw write into the ring of the first worker.
    ///
    /// # Errors
    /// When the ring is too short, or the fabric fails.
    pub fn run_raw_write(&mut self, bytes: usize, deadline: Duration) -> Result<Done, Error> {
        self.turn();
        if !self.mend_writer(0) {
            return Err(Error::Full);
        }
        let slot = &mut self.writers[0];
        let (Some(endpoint), Some(staging)) = (slot.lane.endpoint, slot.staging) else { return Err(Error::Full) };
        let span = slot.books.take_space(bytes).ok_or(Error::Full)?;
        let to = staging.at(u64::from(span.unit) * UNIT_BYTES as u64, bytes as u64).ok_or(Error::Full)?;
        let name = self.begin_raw(bytes.div_ceil(PIECE_BYTES).max(1) as u32, deadline)?;
        for (at, bytes) in pieces_of(bytes) {
            self.post_raw_write(name, endpoint, to.plus(at as u64), bytes)?;
        }
        let result = self.run(name);
        if result.is_ok() {
            self.writers[0].books.give_space_back(span);
        }
        result
    }

    fn post_raw_write(&mut self, name: SlabKey, endpoint: EndpointId, to: RemoteAddr, bytes: usize) -> Result<(), Error> {
        let mut buffer = self.buffers.take(bytes)?;
        let (work, entry) = self.posted.take(|| None);
        let id = WorkId(work.raw());
        let from = buffer.lend(0..bytes, id);
        *entry = Some(Posted { op: name, purpose: Purpose::Raw, buffer: Some(buffer) });
        if let Some(op) = self.ops.find(name) {
            op.posted += 1;
        }
        let mut chain = vec![WorkRequest { id, verb: Verb::Write { from, to } }];
        if self.port.post(endpoint, &mut chain).is_err() {
            if let Some(mut posted) = self.posted.find(work).and_then(Option::take) {
                posted.buffer.iter_mut().for_each(|b| b.give_back(id));
            }
            self.posted.release(work);
            if let Some(op) = self.ops.find(name) {
                op.posted -= 1;
            }
            self.break_writer(0);
            self.finish(name, Err(Error::Full));
        }
        Ok(())
    }

    /// A raw request that the worker answers without looking at the index.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn run_raw_request(&mut self, bytes: usize, deadline: Duration) -> Result<Done, Error> {
        let padding = bytes.saturating_sub(HEADER_BYTES).min(KEY_BYTES_MAX);
        let in_front = bytes.saturating_sub(HEADER_BYTES + padding);
        if in_front > 0 {
            self.run_raw_write(in_front, deadline)?;
        }
        let request = Request { key_len: padding as u16, ..Request::new(Operation::Resolve, 0) };
        let total = request.total_bytes();
        let image = self.buffers.take(total)?;
        let (name, op) = self.slot(NO_KEY, self.no_way(), deadline, Sink::Call)?;
        op.machine = Machine::Write(WriteOp::new(request, Want::Answered));
        op.image = Some((image, total));
        self.feed(name, crate::op::Input::Resume);
        self.run(name)
    }
}

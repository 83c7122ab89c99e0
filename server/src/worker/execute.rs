//! Carrying work out: at once where only this worker's memory is concerned, deferred where a cell is.

use super::deferred::Stage;
use super::intake::{Work, refuse};
use super::poll_loop::Worker;
use crate::cells::token_floor_now;
use crate::shard::{Found, PutAsk, Unmet, delete, judge_put, put};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::cell_reference::{CellReference, REFERENCE_BYTES};
use sidewire_common::layout::lock_word::LockWord;
use sidewire_common::layout::record::{HEADER_BYTES, Kind};
use sidewire_common::layout::request::{Condition, Operation, RequestField};
use std::sync::atomic::Ordering;

impl Worker {
    /// Begins a piece of work whose key is nobody else's now.
    pub(super) fn begin(&mut self, work: Work) {
        if work.request.fence_token != 0 && !work.fence_passed {
            return self.check_fence(work);
        }
        let outcome = match work.request.operation {
            Operation::Put if work.request.kind == Kind::Value => self.put_value(&work),
            Operation::Put => self.create_cell(&work),
            Operation::Expire => self.expire_key(&work),
            Operation::Delete => match self.delete_at_once(&work) {
                Ok(outcome) => outcome,
                Err((cell, kind)) => {
                    let stage = if kind == Kind::Lock { Stage::Retire } else { Stage::Freeze };
                    return self.defer(work, cell, stage);
                }
            },
            Operation::Add => match self.cell_of(&work, &[Kind::Counter, Kind::Sequence]) {
                Ok(cell) => return self.defer(work, cell, Stage::Add),
                Err(unmet) => unmet,
            },
            Operation::BreakLock => match self.cell_of(&work, &[Kind::Lock]) {
                Ok(cell) => return self.defer(work, cell, Stage::Break),
                Err(unmet) => unmet,
            },
            Operation::Resolve => Unmet::plain(Outcome::Refused),
        };
        self.finish(work, outcome);
    }

    /// A record whose time is over is deleted before anything is judged by it.
    fn find_unexpired(&mut self, work: &Work) -> Option<Found> {
        let found = self.index.find(&mut self.memory, work.hash, &work.key)?;
        let expiry = found.header.expiry_ms;
        if expiry == 0 || expiry > self.store.clock_ms() {
            return Some(found);
        }
        self.remove(work.hash, &found);
        self.metrics.expired.fetch_add(1, Ordering::Relaxed);
        None
    }

    pub(super) fn remove(&mut self, hash: KeyHash, found: &Found) {
        self.forget_expiry(hash, found);
        let gone = delete(&mut self.memory, &mut self.heap, found);
        self.metrics.keys.fetch_sub(1, Ordering::Relaxed);
        self.metrics.record_bytes.fetch_sub(gone.bytes, Ordering::Relaxed);
    }

    /// The record of `found` is no longer what the key holds.
    fn forget_expiry(&mut self, hash: KeyHash, found: &Found) {
        if found.header.expiry_ms != 0 {
            self.expiries.forget(found.header.expiry_ms, hash, found.header.version);
        }
    }

    fn put_value(&mut self, work: &Work) -> Unmet {
        let mut value = std::mem::take(&mut self.scratch.value);
        value.clear();
        value.resize(work.request.value_len as usize, 0);
        work.ring.copy_out(work.value_at, &mut value).expect("the request lies in its ring, checked at intake");
        let expiry_ms = match work.request.ttl_ms {
            0 => 0,
            ttl => self.store.clock_ms().saturating_add(ttl),
        };
        let found = self.find_unexpired(work);
        let outcome = self.put_record(work, &value, expiry_ms, found);
        self.scratch.value = value;
        outcome
    }

    fn put_record(&mut self, work: &Work, value: &[u8], expiry_ms: u64, found: Option<Found>) -> Unmet {
        let version = self.next_version();
        let ask = PutAsk {
            key: &work.key,
            hash: work.hash,
            value,
            kind: work.request.kind,
            condition: work.request.condition,
            expiry_ms,
            version,
            found,
        };
        let image = &mut self.scratch.image;
        let done = match put(&self.store, &mut self.memory, &mut self.index, &mut self.heap, ask, image) {
            Ok(done) => done,
            Err(unmet) => return unmet,
        };
        if let Some(replaced) = found {
            self.forget_expiry(work.hash, &replaced);
        }
        if expiry_ms != 0 {
            self.expiries.add(expiry_ms, work.hash, version);
        }
        self.metrics.record_bytes.fetch_add(done.grown_bytes, Ordering::Relaxed);
        if done.inserted {
            self.metrics.keys.fetch_add(1, Ordering::Relaxed);
            let (segments, splits) = self.index.figures();
            self.metrics.segments.store(segments as i64, Ordering::Relaxed);
            self.metrics.splits.store(splits, Ordering::Relaxed);
        }
        Unmet { outcome: Outcome::Done, detail: work.request.kind as u8, figures: [version.raw(), done.location.raw()] }
    }

    fn create_cell(&mut self, work: &Work) -> Unmet {
        let kind = work.request.kind;
        if work.request.ttl_ms != 0 {
            return refuse(RequestField::Ttl, work.request.ttl_ms, 0);
        }
        let found = self.find_unexpired(work);
        if let Err(unmet) = judge_put(work.request.condition, kind, found.as_ref()) {
            return unmet;
        }
        let word = match kind {
            Kind::Lock => LockWord::free(self.token_floor.max(token_floor_now())).raw(),
            _ => work.request.argument as u64,
        };
        let cell = match self.store.cells().take(kind, word) {
            Ok(cell) => cell,
            Err(none) if none.soon => return Unmet::plain(Outcome::Busy),
            Err(none) => {
                let figures = [u64::from(none.in_use), u64::from(none.count)];
                return Unmet { outcome: Outcome::OutOfCells, detail: 0, figures };
            }
        };
        let outcome = self.put_record(work, &cell.encode(), 0, found);
        if outcome.outcome != Outcome::Done {
            self.store.cells().retire(cell.index);
        }
        outcome
    }

    fn expire_key(&mut self, work: &Work) -> Unmet {
        match self.find_unexpired(work) {
            None => Unmet::plain(Outcome::NotFound),
            Some(found) => {
                let figures = [found.header.version.raw(), found.location.raw()];
                Unmet { outcome: Outcome::Exists, detail: found.header.kind, figures }
            }
        }
    }

    /// Deletes what lives in the heap alone; for the rest tells the cell to be retired first.
    fn delete_at_once(&mut self, work: &Work) -> Result<Unmet, (u32, Kind)> {
        self.find_unexpired(work);
        let found = match self.index.find_to_delete(&mut self.memory, work.hash, &work.key, work.request.condition) {
            Ok(found) => found,
            Err(unmet) => return Ok(unmet),
        };
        match Kind::from_raw(found.header.kind) {
            Some(kind) if kind != Kind::Value => Err((self.reference_in(&found).index, kind)),
            _ => {
                self.remove(work.hash, &found);
                Ok(Unmet::plain(Outcome::Done))
            }
        }
    }

    /// The cell that the key of `work` names, if it holds one of `kinds`.
    pub(super) fn cell_of(&mut self, work: &Work, kinds: &[Kind]) -> Result<u32, Unmet> {
        let found = self.index.find_to_delete(&mut self.memory, work.hash, &work.key, Condition::None)?;
        match Kind::from_raw(found.header.kind) {
            Some(kind) if kinds.contains(&kind) => Ok(self.reference_in(&found).index),
            _ => Err(Unmet { outcome: Outcome::WrongKind, detail: found.header.kind, figures: [0; 2] }),
        }
    }

    pub(super) fn reference_in(&mut self, found: &Found) -> CellReference {
        let mut value = [0; REFERENCE_BYTES];
        let at = HEADER_BYTES as u64 + u64::from(found.header.key_len);
        self.memory.read(found.location.place(), at, &mut value);
        CellReference::decode(&value, self.store.cells().count()).expect("the server itself wrote the reference")
    }
}

//! Carrying work out: at once where only this worker's memory is concerned, deferred where a cell is.

use super::counts::kind_in_cell;
use super::deferred::Stage;
use super::intake::{Work, refuse};
use super::poll_loop::Worker;
use super::replica::Change;
use crate::cells::token_floor_now;
use crate::metrics::{change, count};
use crate::shard::{Draft, Extent, Found, PutAsk, PutDone, Unmet, delete, draft, judge_delete, judge_put};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::cell_reference::{CellReference, REFERENCE_BYTES};
use sidewire_common::layout::location::Place;
use sidewire_common::layout::lock_word::LockWord;
use sidewire_common::layout::record::{HEADER_BYTES, Header, Kind};
use sidewire_common::layout::request::{Condition, Operation, RequestField};
use std::sync::atomic::Ordering;

impl Worker {
    /// Begins a piece of work whose key is nobody else's now.
    pub(super) fn begin(&mut self, work: Work) {
        let epoch = self.replication.map.as_ref().map_or(0, |map| map.epoch);
        if !self.store.cluster().holds_lease(epoch) {
            // Another server may have the shard by now; nobody would believe the ack.
            return self.finish(work, Unmet::plain(Outcome::Busy));
        }
        if let Err(unmet) = self.replication.admits(work.hash.shard()) {
            return self.finish(work, unmet);
        }
        if work.request.fence_token != 0 && !work.fence_passed {
            return self.check_fence(work);
        }
        let outcome = match work.request.operation {
            Operation::Put if work.request.kind == Kind::Value => return self.put_value(work),
            Operation::Put if self.counts_in_record(work.request.kind) => return self.create_count(work),
            Operation::Put => return self.create_cell(work),
            Operation::Expire => self.expire_key(&work),
            Operation::Delete => return self.delete_key(work),
            Operation::Add => match self.find_countable(&work) {
                Ok((Some(cell), _)) => return self.defer(work, cell, Stage::Add),
                Ok((None, found)) => return self.add_to_record(work, &found),
                Err(unmet) => unmet,
            },
            Operation::BreakLock => match self.cell_of(&work, &[Kind::Lock]) {
                Ok(cell) => return self.defer(work, cell, Stage::Break),
                Err(unmet) => unmet,
            },
            // What intake deals with.
            Operation::Resolve | Operation::Reserve | Operation::Chunk | Operation::Commit => Unmet::plain(Outcome::Refused),
        };
        self.finish(work, outcome);
    }

    /// A record whose time is over is deleted before anything is judged by it.
    pub(super) fn find_unexpired(&mut self, work: &Work) -> Option<Found> {
        let found = self.index.find(&mut self.memory, work.hash, &work.key)?;
        let expiry = found.header.expiry_ms;
        if expiry == 0 || expiry > self.store.clock_ms() {
            return Some(found);
        }
        self.remove(work.hash, &found);
        self.key_changed(work.hash.shard(), &work.key, &[]);
        count(&self.metrics.expired);
        None
    }

    pub(super) fn remove(&mut self, hash: KeyHash, found: &Found) {
        self.forget_expiry(hash, found);
        let gone = delete(&mut self.memory, &mut self.heap, found);
        change(&self.metrics.keys, -1);
        change(&self.metrics.record_bytes, -gone.bytes);
    }

    /// The record of `found` is no longer what the key holds.
    fn forget_expiry(&mut self, hash: KeyHash, found: &Found) {
        if found.header.expiry_ms != 0 {
            self.expiries.forget(found.header.expiry_ms, hash, found.header.version);
        }
    }

    fn put_value(&mut self, mut work: Work) {
        if let Some(extent) = work.extent.take() {
            return self.put_extent(work, extent);
        }
        let mut value = std::mem::take(&mut self.scratch.value);
        value.clear();
        value.resize(work.request.value_len as usize, 0);
        if let Some(ring) = &work.ring {
            ring.copy_out(work.value_at, &mut value).expect("the request lies in its ring, checked at intake");
        }
        let found = self.find_unexpired(&work);
        let judged = judge_put(work.request.condition, work.request.kind, found.as_ref());
        match judged.and_then(|()| self.draft_record(&work, &value, found)) {
            Ok(draft) => self.put_draft(work, draft, None, found),
            Err(unmet) => self.finish(work, unmet),
        }
        self.scratch.value = value;
    }

    /// The same for a value that is in its block already.
    fn put_extent(&mut self, work: Work, extent: Extent) {
        let found = self.find_unexpired(&work);
        let Work { request, hash, .. } = work;
        if let Err(unmet) = judge_put(request.condition, request.kind, found.as_ref()) {
            extent.discard(&mut self.heap);
            return self.finish(work, unmet);
        }
        let (version, expiry_ms) = (self.next_version_of(hash.shard()), self.expiry_of(&work));
        let (kind, condition) = (request.kind, Condition::None);
        let ask = PutAsk { key: &work.key, hash, value: &[], kind, condition, expiry_ms, version, found };
        let draft = extent.into_draft(&mut self.memory, &ask);
        self.put_draft(work, draft, None, found);
    }

    /// When a record ends that is stored now; 0 = never.
    fn expiry_of(&self, work: &Work) -> u64 {
        match work.request.ttl_ms {
            0 => 0,
            ttl => self.store.clock_ms().saturating_add(ttl),
        }
    }

    /// A whole record in a block that nobody knows.
    fn draft_record(&mut self, work: &Work, value: &[u8], found: Option<Found>) -> Result<Draft, Unmet> {
        let expiry_ms = self.expiry_of(work);
        self.draft_as(&work.key, work.hash, work.request.kind, value, expiry_ms, found)
    }

    /// The same of any kind, under the shard's next version.
    pub(super) fn draft_as(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        kind: Kind,
        value: &[u8],
        expiry_ms: u64,
        found: Option<Found>,
    ) -> Result<Draft, Unmet> {
        let version = self.next_version_of(hash.shard());
        let ask = PutAsk { key, hash, value, kind, condition: Condition::None, expiry_ms, version, found };
        draft(&mut self.memory, &mut self.heap, &ask, &mut self.scratch.image)
    }

    pub(super) fn put_draft(&mut self, work: Work, draft: Draft, cell: Option<u32>, found: Option<Found>) {
        let figures = [draft.version.raw(), draft.location.raw()];
        let outcome = Unmet { outcome: Outcome::Done, detail: work.request.kind as u8, figures };
        self.change(work, Change::Put { draft, cell }, outcome, found);
    }

    /// A record was published.
    pub(super) fn count_put(&mut self, hash: KeyHash, done: &PutDone, replaced: Option<&Found>, draft: &Draft) {
        if let Some(replaced) = replaced {
            self.forget_expiry(hash, replaced);
        }
        if draft.expiry_ms != 0 {
            self.expiries.add(draft.expiry_ms, hash, draft.version);
        }
        change(&self.metrics.record_bytes, done.grown_bytes);
        if done.inserted {
            change(&self.metrics.keys, 1);
            let (segments, splits) = self.index.figures();
            self.metrics.segments.store(segments as i64, Ordering::Relaxed);
            self.metrics.splits.store(splits, Ordering::Relaxed);
        }
    }

    fn create_cell(&mut self, work: Work) {
        match self.cell_for(&work) {
            Ok((cell, found)) => match self.draft_record(&work, &cell.encode(), found) {
                Ok(draft) => self.put_draft(work, draft, Some(cell.index), found),
                Err(unmet) => {
                    self.store.cells().retire(cell.index);
                    self.finish(work, unmet);
                }
            },
            Err(unmet) => self.finish(work, unmet),
        }
    }

    fn cell_for(&mut self, work: &Work) -> Result<(CellReference, Option<Found>), Unmet> {
        let kind = work.request.kind;
        if work.request.ttl_ms != 0 {
            return Err(refuse(RequestField::Ttl, work.request.ttl_ms, 0));
        }
        let found = self.find_unexpired(work);
        judge_put(work.request.condition, kind, found.as_ref())?;
        let word = match kind {
            Kind::Lock => self.new_lock().raw(),
            _ => work.request.argument as u64,
        };
        self.take_cell(kind, word).map(|cell| (cell, found))
    }

    /// A free lock whose tokens are above all that were granted before.
    pub(super) fn new_lock(&self) -> LockWord {
        LockWord::free(self.token_floor.max(token_floor_now()).max(self.store.token_floor()))
    }

    pub(super) fn take_cell(&mut self, kind: Kind, word: u64) -> Result<CellReference, Unmet> {
        self.store.cells().take(kind, word).map_err(|none| match none.soon {
            true => Unmet::plain(Outcome::Busy),
            false => {
                let figures = [u64::from(none.in_use), u64::from(none.count)];
                Unmet { outcome: Outcome::OutOfCells, detail: 0, figures }
            }
        })
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

    /// Deletes what lives in the heap alone; a cell is retired first.
    fn delete_key(&mut self, work: Work) {
        let found = self.find_unexpired(&work);
        let found = match judge_delete(work.request.condition, found.as_ref()) {
            Ok(found) => found,
            Err(unmet) => return self.finish(work, unmet),
        };
        match kind_in_cell(&found.header) {
            Some(kind) => {
                let cell = self.reference_in(&found).index;
                self.defer(work, cell, if kind == Kind::Lock { Stage::Retire } else { Stage::Freeze });
            }
            None => self.change(work, Change::Delete { cell: None }, Unmet::plain(Outcome::Done), Some(found)),
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

    /// The key of a record.
    pub(super) fn key_at(&mut self, at: Place, header: &Header) -> Vec<u8> {
        let mut key = vec![0; header.key_len as usize];
        self.memory.read(at, HEADER_BYTES as u64, &mut key);
        key
    }

    /// The cell that a record names, if it names one.
    pub(super) fn cell_in(&mut self, found: &Found) -> Option<u32> {
        kind_in_cell(&found.header).map(|_| self.reference_in(found).index)
    }

    pub(super) fn reference_in(&mut self, found: &Found) -> CellReference {
        let mut value = [0; REFERENCE_BYTES];
        let at = HEADER_BYTES as u64 + u64::from(found.header.key_len);
        self.memory.read(found.location.place(), at, &mut value);
        CellReference::decode(&value, self.store.cells().count()).expect("the server itself wrote the reference")
    }
}

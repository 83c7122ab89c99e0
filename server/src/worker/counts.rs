//! Counters and sequences of a cluster with several copies: the count lies in the record, and each add is a write of
//! its own, told to all copies like any other. Their sum is exact over the death of any server.

use super::intake::{Work, refuse};
use super::poll_loop::Worker;
use super::replica::Change;
use crate::shard::{Found, Unmet, judge_put};
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::count;
use sidewire_common::layout::counter_cell::{CounterState, classify};
use sidewire_common::layout::location::Place;
use sidewire_common::layout::record::{HEADER_BYTES, Header, Kind};
use sidewire_common::layout::request::{Condition, RequestField};

/// Whether the record holds a count itself.
pub(super) fn has_count(header: &Header) -> bool {
    let counts = matches!(Kind::from_raw(header.kind), Some(Kind::Counter | Kind::Sequence));
    counts && header.value_len as usize == count::COUNT_BYTES
}

/// The kind of a record that names a cell; `None` for values, and for counts that lie in their record.
pub(super) fn kind_in_cell(header: &Header) -> Option<Kind> {
    Kind::from_raw(header.kind).filter(|&kind| kind != Kind::Value && !has_count(header))
}

impl Worker {
    /// Whether new records of this kind hold their count themselves.
    pub(super) fn counts_in_record(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Counter | Kind::Sequence) && self.replication.counts_in_records()
    }

    pub(super) fn create_count(&mut self, work: Work) {
        let kind = work.request.kind;
        let found = self.find_unexpired(&work);
        let allowed = match work.request.ttl_ms {
            0 => judge_put(work.request.condition, kind, found.as_ref()),
            ttl => Err(refuse(RequestField::Ttl, ttl, 0)),
        };
        match allowed {
            Ok(()) => self.put_count(work, found),
            Err(unmet) => self.finish(work, unmet),
        }
    }

    /// The counter that an add is for: its cell, or none when its record holds the count.
    pub(super) fn find_countable(&mut self, work: &Work) -> Result<(Option<u32>, Found), Unmet> {
        let found = self.index.find_to_delete(&mut self.memory, work.hash, &work.key, Condition::None)?;
        match Kind::from_raw(found.header.kind) {
            Some(Kind::Counter | Kind::Sequence) if has_count(&found.header) => Ok((None, found)),
            Some(Kind::Counter | Kind::Sequence) => Ok((Some(self.reference_in(&found).index), found)),
            _ => Err(Unmet { outcome: Outcome::WrongKind, detail: found.header.kind, figures: [0; 2] }),
        }
    }

    /// The count in the record at a place, if it holds one.
    pub(super) fn count_at(&mut self, at: Place, header: &Header) -> Option<i64> {
        if !has_count(header) {
            return None;
        }
        let mut value = [0; count::COUNT_BYTES];
        self.memory.read(at, HEADER_BYTES as u64 + u64::from(header.key_len), &mut value);
        count::decode(&value)
    }

    /// The count in a record.
    pub(super) fn count_in(&mut self, found: &Found) -> i64 {
        self.count_at(found.location.place(), &found.header).expect("the server itself wrote the count")
    }

    pub(super) fn add_to_record(&mut self, work: Work, found: &Found) {
        let before = self.count_in(found);
        let outcome = |outcome| Unmet { outcome, detail: 0, figures: [before as u64, 0] };
        match classify(before as u64) {
            CounterState::Counted(_) => self.put_sum(work, before, found, outcome(Outcome::Done)),
            // As with cells, it counts and needs attention; beyond 2^61 it does not count any more.
            CounterState::OutOfRange(_) => self.put_sum(work, before, found, outcome(Outcome::OutOfRange)),
            CounterState::Frozen => self.finish(work, outcome(Outcome::OutOfRange)),
        }
    }

    fn put_sum(&mut self, work: Work, before: i64, found: &Found, outcome: Unmet) {
        let kind = Kind::from_raw(found.header.kind).unwrap_or(Kind::Counter);
        let after = before.wrapping_add(work.request.argument);
        match self.draft_as(&work.key, work.hash, kind, &count::encode(after), 0, Some(*found)) {
            Ok(draft) => self.change(work, Change::Put { draft, cell: None }, outcome, Some(*found)),
            Err(unmet) => self.finish(work, unmet),
        }
    }

    fn put_count(&mut self, work: Work, found: Option<Found>) {
        let kind = work.request.kind;
        match self.draft_as(&work.key, work.hash, kind, &count::encode(work.request.argument), 0, found) {
            Ok(draft) => self.put_draft(work, draft, None, found),
            Err(unmet) => self.finish(work, unmet),
        }
    }
}

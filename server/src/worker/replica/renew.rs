//! A new primary makes itself at home: locks get cells of its own, that no client of another reign knows.

use super::super::counts::kind_in_cell;
use super::super::poll_loop::Worker;
use super::walk::BUCKETS_PER_TURN;
use super::{Phase, Role};
use crate::shard::{Unmet, discard_draft};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::counter_cell;
use sidewire_common::layout::lock_word::{LockWord, TOKEN_MAX};
use sidewire_common::layout::record::{Header, Kind};

/// Grants of one lock between two times that its server tells the token floor, which is a part of a lease: more than a
/// lock can be taken and given back in that time.
const GRANTS_MAX: u64 = 1 << 24;

impl Worker {
    /// Brings shards on that are being emptied or made at home; true when there was something to do.
    pub(super) fn move_phases(&mut self) -> bool {
        let mut any = false;
        let numbers: Vec<u32> = self.replication.shards.keys().copied().collect();
        for number in numbers {
            let Some(shard) = self.replication.shards.get(&number) else { continue };
            any |= match &shard.role {
                Role::Primary(primary) => match primary.phase {
                    Phase::Emptying => {
                        if self.empty_some(number) {
                            self.enter(number, Phase::Gathering);
                            self.gathered(number);
                        }
                        true
                    }
                    Phase::Renewing(at) => self.renew_some(number, at),
                    Phase::Closing(step) => self.close_some(number, step),
                    _ => false,
                },
                Role::Elsewhere if shard.emptying.is_some() => !self.empty_some(number),
                _ => false,
            };
        }
        any
    }

    pub(super) fn enter(&mut self, shard: u32, phase: Phase) {
        self.replication.moving = true;
        if let Some(primary) = self.replication.primary(shard) {
            primary.phase = phase;
        }
    }

    fn renew_some(&mut self, shard: u32, mut at: super::super::ScanCursor) -> bool {
        for _ in 0..BUCKETS_PER_TURN {
            let (keys, next) = self.keys_at(at);
            for (hash, key, header) in keys {
                let renewed = self.renew(hash, &key, &header);
                if renewed.is_err_and(|unmet| unmet.outcome == Outcome::Busy) {
                    // Memory is on its way; the bucket is looked at again, and what was renewed is renewed twice.
                    self.enter(shard, Phase::Renewing(at));
                    return false;
                }
            }
            match next {
                Some(next) => at = next,
                None => {
                    self.enter(shard, Phase::Waiting);
                    self.try_to_open(shard);
                    return true;
                }
            }
        }
        self.enter(shard, Phase::Renewing(at));
        true
    }

    /// Gives a record a cell of its own, if it lives in one.
    fn renew(&mut self, hash: KeyHash, key: &[u8], header: &Header) -> Result<(), Unmet> {
        if header.expiry_ms != 0 {
            self.expiries.add(header.expiry_ms, hash, header.version);
        }
        let Some(kind) = kind_in_cell(header) else { return Ok(()) };
        let Some(found) = self.index.find(&mut self.memory, hash, key) else { return Ok(()) };
        let old = self.reference_in(&found).index;
        let word = match kind {
            // Above whatever was granted since the floor was last told.
            Kind::Lock => LockWord::free((self.new_lock().token() + GRANTS_MAX).min(TOKEN_MAX)).raw(),
            _ => match counter_cell::classify(self.store.cells().peek(old)) {
                // A cell that clients may know of stays what it is.
                counter_cell::CounterState::Frozen => counter_cell::thawed(self.store.cells().peek(old)) as u64,
                _ => return Ok(()),
            },
        };
        let cell = self.take_cell(kind, word)?;
        let draft = self
            .draft_as(key, hash, kind, &cell.encode(), 0, Some(found))
            .inspect_err(|_| self.store.cells().retire(cell.index))?;
        if let Err(unmet) = self.publish_record(hash, &draft, Some(&found)) {
            discard_draft(&mut self.heap, &draft);
            self.store.cells().retire(cell.index);
            return Err(unmet);
        }
        self.store.cells().retire(old);
        Ok(())
    }

    /// Opens a shard whose former primary's clients have all learnt of this reign.
    pub(super) fn try_to_open(&mut self, shard: u32) {
        let waits = self.replication.map.as_ref().is_some_and(|map| map.shard(shard).waits_for.is_some());
        let ahead = self.store.clock_is_behind();
        let Some(primary) = self.replication.primary(shard).filter(|p| p.phase == Phase::Waiting && !waits && !ahead) else {
            return;
        };
        primary.phase = Phase::Open;
        tracing::info!(shard, reign = primary.reign, "open");
        // The map may have named an heir before there was anything to hand over.
        if self.replication.heir(shard).is_some() {
            self.begin_close(shard);
        }
    }
}

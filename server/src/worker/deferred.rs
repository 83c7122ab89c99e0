//! What waits for the cells' executor. The worker goes on meanwhile; other writes of the same key wait parked.

use super::intake::{Work, refuse};
use super::poll_loop::Worker;
use super::replica::Change;
use crate::fast_map::FastMap;
use crate::shard::Unmet;
use sidewire_common::fabric::{PostError, Status, Verb, WorkId, WorkRequest};
use sidewire_common::id::ClientId;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::counter_cell::{self, CounterState};
use sidewire_common::layout::lock_word::{LockState, LockWord};
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::RequestField;
use std::collections::VecDeque;

/// What is being done to a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Reading the lock of a fenced write.
    Fence,
    /// Freezing a counter or sequence before its record goes.
    Freeze,
    /// Retiring a free lock before its record goes.
    Retire,
    /// Adding exactly once.
    Add,
    /// Freeing a lock whoever holds it.
    Break,
    /// Freezing a counter whose shard is handed over.
    Surrender,
    /// Retiring a lock, held or not, whose shard is handed over.
    Seize,
}

struct Deferred {
    work: Work,
    cell: u32,
    stage: Stage,
    /// The word that the last compare-and-swap expected.
    guess: u64,
    /// Guesses that were wrong.
    misses: u32,
}

/// Wrong guesses of one piece of work: a cell that is changed faster than it is guessed is given up.
const MISSES_MAX: u32 = 4096;

/// Deferred and parked work.
#[derive(Default)]
pub(super) struct Deferrals {
    open: FastMap<WorkId, Deferred>,
    unposted: VecDeque<WorkId>,
    /// By key: what waits until the open write of the key has ended.
    parked: FastMap<u64, VecDeque<Work>>,
}

impl Deferrals {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Keeps the work if a write of its key is open; gives it back otherwise.
    pub(super) fn park_if_busy(&mut self, work: Work) -> Option<Work> {
        if self.parked.is_empty() {
            return Some(work);
        }
        match self.parked.get_mut(&work.hash.raw()) {
            Some(queue) => {
                queue.push_back(work);
                None
            }
            None => Some(work),
        }
    }

    /// The key is nobody else's from now on, until it is unparked.
    pub(super) fn mark_busy(&mut self, hash: KeyHash) {
        self.parked.entry(hash.raw()).or_default();
    }

    /// Whether an operation on a cell is open for a key of this shard.
    pub(super) fn any_in(&self, shard: u32) -> bool {
        self.open.values().any(|deferred| deferred.work.hash.shard() == shard)
    }

    pub(super) fn is_busy(&self, hash: KeyHash) -> bool {
        self.parked.contains_key(&hash.raw())
    }

    pub(super) fn any_of(&self, client: ClientId) -> bool {
        let parked = self.parked.values().flatten().any(|work| work.session.0 == client);
        parked || self.open.values().any(|deferred| deferred.work.session.0 == client)
    }
}

impl Worker {
    /// Begins `stage` on a cell for `work`, whose key is busy until it ends.
    pub(super) fn defer(&mut self, work: Work, cell: u32, stage: Stage) {
        self.deferrals.mark_busy(work.hash);
        let guess = self.store.cells().peek(cell);
        self.step(Deferred { work, cell, stage, guess, misses: 0 });
    }

    pub(super) fn check_fence(&mut self, work: Work) {
        let hash = KeyHash::of(&work.fence_key, self.store.hash_seed());
        if hash.shard() != work.hash.shard() {
            let refusal = refuse(RequestField::FenceShard, hash.shard().into(), work.hash.shard().into());
            return self.finish_and_unpark(work, refusal);
        }
        let found = self.index.find(&mut self.memory, hash, &work.fence_key);
        match found.filter(|f| f.header.kind == Kind::Lock as u8) {
            Some(found) => {
                let cell = self.reference_in(&found).index;
                self.defer(work, cell, Stage::Fence);
            }
            None => self.finish_and_unpark(work, Unmet::plain(Outcome::Fenced)),
        }
    }

    fn step(&mut self, deferred: Deferred) {
        let id = WorkId(self.next_work());
        self.deferrals.open.insert(id, deferred);
        self.deferrals.unposted.push_back(id);
        self.post_deferred();
    }

    /// Posts what waits to be posted; true when something was.
    pub(super) fn post_deferred(&mut self) -> bool {
        let mut posted = false;
        while let Some(&id) = self.deferrals.unposted.front() {
            let Some(deferred) = self.deferrals.open.get(&id) else {
                self.deferrals.unposted.pop_front();
                continue;
            };
            let at = self.store.cells().remote(deferred.cell);
            let verb = verb_of(deferred, at);
            let result = match self.loopback() {
                Some(endpoint) => self.port.post(endpoint, &mut vec![WorkRequest { id, verb }]),
                None => Err(PostError::Broken),
            };
            match result {
                Ok(()) => posted = true,
                Err(PostError::Full { .. }) => return posted,
                Err(error) => {
                    self.deferrals.unposted.pop_front();
                    self.not_posted(id, error);
                    return true;
                }
            }
            self.deferrals.unposted.pop_front();
        }
        posted
    }

    /// An operation on a cell has ended.
    pub(super) fn on_cell(&mut self, id: WorkId, status: Status, old: u64) {
        let Some(mut deferred) = self.deferrals.open.remove(&id) else { return };
        if !status.is_ok() {
            return self.cell_failed(deferred, status);
        }
        match verdict(&deferred, old) {
            Verdict::Again if deferred.misses < MISSES_MAX => {
                deferred.guess = old;
                deferred.misses += 1;
                self.step(deferred);
            }
            Verdict::Again => self.finish_and_unpark(deferred.work, Unmet::plain(Outcome::Busy)),
            Verdict::End(unmet) => self.finish_and_unpark(deferred.work, unmet),
            Verdict::Surrendered => {
                self.surrendered(&deferred.work, deferred.stage, old);
                self.finish_and_unpark(deferred.work, Unmet::plain(Outcome::Done));
            }
            Verdict::Holder => {
                let mut work = deferred.work;
                work.fence_passed = true;
                self.begin_held(work);
            }
            Verdict::Retired => {
                if deferred.stage == Stage::Retire {
                    self.token_floor = self.token_floor.max(LockWord::from_raw(old).token());
                }
                self.delete_retired(deferred);
            }
        }
    }

    /// Goes on with work whose key is marked busy already.
    fn begin_held(&mut self, work: Work) {
        let key = work.hash.raw();
        self.begin(work);
        self.unpark_if_done(key);
    }

    /// The key's parked writes follow, unless its own one still waits for a cell or for backups.
    fn unpark_if_done(&mut self, key: u64) {
        let open = self.deferrals.open.values().any(|d| d.work.hash.raw() == key) || self.replication.is_open(key);
        if !open {
            self.unpark(key);
        }
    }

    fn delete_retired(&mut self, deferred: Deferred) {
        let Deferred { work, cell, .. } = deferred;
        let key = work.hash.raw();
        let found = self.index.find(&mut self.memory, work.hash, &work.key);
        self.change(work, Change::Delete { cell: Some(cell) }, Unmet::plain(Outcome::Done), found);
        self.unpark_if_done(key);
    }

    /// The executor failed. A compare-and-swap is asked again: what it finds tells whether it was done. An add
    /// cannot be asked again; its outcome is not known.
    fn cell_failed(&mut self, deferred: Deferred, status: Status) {
        tracing::error!(worker = self.number, ?status, stage = ?deferred.stage, "an operation on a cell failed");
        let unmet = match deferred.stage {
            Stage::Surrender | Stage::Seize => {
                self.surrender_again(deferred.work.hash.shard());
                Unmet::plain(Outcome::Busy)
            }
            // Whether it was done nobody can tell: the word may have changed by its holder as well.
            Stage::Add | Stage::Break => Unmet::plain(Outcome::Forgotten),
            _ => Unmet::plain(Outcome::Busy),
        };
        self.finish_and_unpark(deferred.work, unmet);
    }

    /// The cell was not touched: whoever asked may ask again, an add as well.
    fn not_posted(&mut self, id: WorkId, error: PostError) {
        let Some(deferred) = self.deferrals.open.remove(&id) else { return };
        tracing::debug!(worker = self.number, %error, stage = ?deferred.stage, "an operation on a cell cannot be posted");
        if matches!(deferred.stage, Stage::Surrender | Stage::Seize) {
            self.surrender_again(deferred.work.hash.shard());
        }
        self.finish_and_unpark(deferred.work, Unmet::plain(Outcome::Busy));
    }

    pub(super) fn finish_and_unpark(&mut self, work: Work, outcome: Unmet) {
        let key = work.hash.raw();
        self.finish(work, outcome);
        self.unpark(key);
    }

    /// The key's open write has ended: the parked ones follow in order, until one of them defers again.
    pub(super) fn unpark(&mut self, key: u64) {
        let Some(mut queue) = self.deferrals.parked.remove(&key) else { return };
        while let Some(next) = queue.pop_front() {
            self.begin(next);
            if let Some(busy) = self.deferrals.parked.get_mut(&key) {
                // What arrived while this one began stands behind those that waited before.
                queue.append(busy);
                *busy = queue;
                return;
            }
        }
    }
}

enum Verdict {
    /// The word was another: guess again.
    Again,
    /// The work has ended with this.
    End(Unmet),
    /// The token is the holder's: the write goes on.
    Holder,
    /// The cell serves nobody any more: the record goes.
    Retired,
    /// The cell serves nobody any more: the heir's will.
    Surrendered,
}

fn verb_of(deferred: &Deferred, at: sidewire_common::fabric::RemoteAddr) -> Verb<'static> {
    let expect = deferred.guess;
    let word = LockWord::from_raw(expect);
    let swap = match deferred.stage {
        Stage::Add => return Verb::FetchAdd { at, delta: deferred.work.request.argument as u64 },
        // Swapping a word for itself reads it through its executor.
        Stage::Fence => expect,
        Stage::Freeze | Stage::Surrender => match counter_cell::classify(expect) {
            CounterState::Counted(value) | CounterState::OutOfRange(value) => counter_cell::frozen(value),
            CounterState::Frozen => expect,
        },
        Stage::Retire => {
            if word.state() == LockState::Free {
                word.retired().raw()
            } else {
                expect
            }
        }
        Stage::Seize => word.retired().raw(),
        Stage::Break => word.released().map_or(expect, LockWord::raw),
    };
    Verb::CompareSwap { at, expect, swap }
}

fn verdict(deferred: &Deferred, old: u64) -> Verdict {
    let word = LockWord::from_raw(old);
    let work = &deferred.work;
    match deferred.stage {
        Stage::Add => Verdict::End(match counter_cell::classify(old) {
            CounterState::Counted(_) => Unmet { outcome: Outcome::Done, detail: 0, figures: [old, 0] },
            CounterState::OutOfRange(_) => Unmet { outcome: Outcome::OutOfRange, detail: 0, figures: [old, 0] },
            CounterState::Frozen => Unmet::plain(Outcome::Busy),
        }),
        _ if old != deferred.guess => Verdict::Again,
        Stage::Fence => {
            let holds = word.state() == LockState::Held { holder: work.holder } && word.token() == work.request.fence_token;
            if holds { Verdict::Holder } else { Verdict::End(Unmet { outcome: Outcome::Fenced, detail: 0, figures: [old, 0] }) }
        }
        Stage::Surrender | Stage::Seize => Verdict::Surrendered,
        Stage::Freeze => Verdict::Retired,
        Stage::Retire if word.state() == LockState::Free => Verdict::Retired,
        Stage::Retire => Verdict::End(Unmet { outcome: Outcome::Fenced, detail: 0, figures: [old, 0] }),
        Stage::Break => Verdict::End(Unmet { outcome: Outcome::Done, detail: 0, figures: [old, 0] }),
    }
}

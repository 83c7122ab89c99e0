//! Locks: compare-and-swap on a cell.
//!
//! ```text
//!   resolve ─► read the word ─► {0,t} → {me,t+1} ─┬─ swapped ──────► taken
//!      ▲ │           ▲                            ├─ held by other ─► said so
//!      │ └ absent:   │ the completion is lost:    ├─ free again ────► the word that came back is the next guess
//!      │   create    └─ the word tells            └─ retired ───┐
//!      └────────────────────────────────────────────────────────┘
//! ```

use super::cell::{Resolve, Resolved};
use super::{Ask, CellVerb, Context, Done, Input, Step};
use crate::error::Error;
use crate::lock_guard::LockView;
use crate::op::write::error_of;
use crate::retry::{ATTEMPTS_MAX, attempt_pause};
use parking_lot::Mutex;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::cell_reference::CellReference;
use sidewire_common::layout::lock_word::{LockState, LockWord};
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::{Operation, Request};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Pause of a session while another session of the same client has an attempt at the same lock in flight.
const OTHER_ATTEMPT_PAUSE: Duration = Duration::from_micros(50);

/// Cells on which this client has a compare-and-swap in flight, and the last token it was granted on each: at most one
/// attempt per lock and client, so that the word {me, t+1} found after a lost completion is that attempt's, unless
/// another session was granted t+1 before the attempt began, which may have read the word before that.
#[derive(Default)]
pub(crate) struct LockAttempts(Mutex<Attempts>);

/// What is known of a swap that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Swapped {
    /// Its completion says that it was done.
    Done,
    /// The word is as it would have left it, and a completion is lost.
    Perhaps,
    /// It was not done.
    Not,
}

#[derive(Default)]
struct Attempts {
    in_flight: HashSet<u32>,
    granted: HashMap<u32, u64>,
}

impl LockAttempts {
    fn begin(&self, cell: u32) -> bool {
        self.0.lock().in_flight.insert(cell)
    }

    fn end(&self, cell: u32) {
        self.0.lock().in_flight.remove(&cell);
    }

    /// The attempt that was begun on `cell` has taken `token`. False when its completion did not say so, and that token
    /// is another session's already.
    fn grant(&self, cell: u32, token: u64, swapped: Swapped) -> bool {
        let granted = &mut self.0.lock().granted;
        // Tokens of a cell that serves another lock may begin anew: what a completion says is believed.
        let is_new = swapped == Swapped::Done || granted.get(&cell).is_none_or(|last| *last < token);
        if is_new {
            granted.insert(cell, token);
        }
        is_new
    }
}

/// What is wanted of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockGoal {
    /// Take it if it is free, creating it if there is none.
    Take,
    /// See who holds it.
    View,
    /// Give back what was taken.
    GiveBack(Taken),
}

/// A lock that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Its cell.
    pub cell: CellReference,
    /// The word while it is held.
    pub word: LockWord,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    Resolving,
    Creating,
    Reading(CellReference),
    Swapping {
        cell: CellReference,
        expect: u64,
        swap: u64,
    },
    /// The completion of a swap is lost; the word tells.
    Verifying {
        cell: CellReference,
        swap: u64,
    },
    /// The word is free, another session of this client is at it.
    Waiting(CellReference),
}

/// The machine.
pub(crate) struct Lock {
    goal: LockGoal,
    stage: Stage,
    resolve: Resolve,
    swaps: u32,
    /// Nobody waits for it any more: what it takes it gives back.
    abandoned: bool,
    /// The completion of one of its swaps is lost: it may have been done, or be done later.
    in_doubt: bool,
}

impl Lock {
    /// A machine with this goal.
    pub fn new(goal: LockGoal) -> Self {
        Self { goal, stage: Stage::Idle, resolve: Resolve::default(), swaps: 0, abandoned: false, in_doubt: false }
    }

    /// Its name in messages to people.
    pub fn name(&self) -> &'static str {
        match self.goal {
            LockGoal::Take => "lock",
            LockGoal::View => "lock state",
            LockGoal::GiveBack(_) => "unlock",
        }
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        match self.stage {
            Stage::Idle | Stage::Resolving => self.resolve.seen(),
            Stage::Creating => "waiting for the worker to create the lock".into(),
            other => format!("{other:?}"),
        }
    }

    /// Its caller has gone. True when it must still run to its end: a swap is in flight, or a lock is to be given back.
    pub fn abandon(&mut self) -> bool {
        self.abandoned = true;
        self.gives_back() || matches!(self.stage, Stage::Swapping { .. } | Stage::Verifying { .. })
    }

    /// Whether it gives a lock back.
    pub fn gives_back(&self) -> bool {
        matches!(self.goal, LockGoal::GiveBack(_))
    }

    /// Whether it may begin anew elsewhere: no swap of it is in flight, and it gives nothing back.
    pub fn may_leave(&self) -> bool {
        !self.gives_back() && !matches!(self.stage, Stage::Swapping { .. } | Stage::Verifying { .. })
    }

    /// The attachment it was made for has ended: the server sweeps what this client held.
    pub fn forget_attempt(&mut self, attempts: &LockAttempts) {
        if let Stage::Swapping { cell, .. } | Stage::Verifying { cell, .. } = self.stage {
            attempts.end(cell.index);
        }
        self.stage = Stage::Idle;
    }

    /// Eats what happened.
    pub fn on(&mut self, input: Input, cx: &mut Context<'_>) -> Step {
        match (self.stage, input) {
            (Stage::Verifying { cell, .. }, Input::Restart | Input::Resume) => {
                cx.asks.push(Ask::Cell { index: cell.index, verb: CellVerb::Read });
                Step::Wait
            }
            (Stage::Waiting(cell), Input::Resume) if self.goal == LockGoal::Take => self.read(cell, cx),
            (Stage::Waiting(_), Input::Resume) => self.start(cx),
            (Stage::Swapping { cell, .. }, Input::Restart) => {
                // It was never posted.
                cx.lock_attempts.end(cell.index);
                self.start(cx)
            }
            (_, Input::Restart) | (Stage::Idle, Input::Resume) => self.start(cx),
            (Stage::Reading(cell), Input::Cell { old }) => self.on_word(cell, LockWord::from_raw(old), cx),
            (Stage::Reading(_), Input::CellLost) => {
                self.stage = Stage::Idle;
                Step::Reconnect
            }
            (Stage::Swapping { cell, expect, swap }, Input::Cell { old }) => {
                let word = if old == expect { swap } else { old };
                // One whose completion was lost may have arrived after the word was read, and before this one.
                let swapped = match old {
                    _ if old == expect => Swapped::Done,
                    _ if self.in_doubt && old == swap => Swapped::Perhaps,
                    _ => Swapped::Not,
                };
                self.on_swapped(cell, LockWord::from_raw(word), LockWord::from_raw(swap), swapped, cx)
            }
            (Stage::Swapping { cell, swap, .. }, Input::CellLost) => {
                self.stage = Stage::Verifying { cell, swap };
                self.in_doubt = true;
                Step::Reconnect
            }
            (Stage::Verifying { cell, swap }, Input::Cell { old }) => {
                let swapped = if old == swap { Swapped::Perhaps } else { Swapped::Not };
                self.on_swapped(cell, LockWord::from_raw(old), LockWord::from_raw(swap), swapped, cx)
            }
            (Stage::Verifying { .. }, Input::CellLost) => Step::Reconnect,
            (Stage::Creating, Input::Ack(ack)) => match ack.outcome {
                Outcome::Done | Outcome::Exists => self.resolve(cx),
                Outcome::Busy => {
                    self.stage = Stage::Idle;
                    Step::Pause(Duration::from_millis(1))
                }
                _ => Step::Finished(Err(error_of(&ack, Kind::Lock, None, "lock"))),
            },
            (Stage::Resolving, input) => {
                let resolved = self.resolve.on(input, Kind::Lock, Kind::Lock, true, cx);
                self.on_resolved(resolved, cx)
            }
            _ => Step::Wait,
        }
    }

    fn start(&mut self, cx: &mut Context<'_>) -> Step {
        match self.goal {
            LockGoal::GiveBack(taken) => self.give_back(taken, cx),
            LockGoal::Take | LockGoal::View => self.resolve(cx),
        }
    }

    fn resolve(&mut self, cx: &mut Context<'_>) -> Step {
        self.stage = Stage::Resolving;
        let resolved = self.resolve.start(Kind::Lock, Kind::Lock, true, cx);
        self.on_resolved(resolved, cx)
    }

    fn on_resolved(&mut self, resolved: Resolved, cx: &mut Context<'_>) -> Step {
        match resolved {
            Resolved::Cell(cell) => self.read(cell, cx),
            Resolved::Absent if self.goal == LockGoal::View => Step::Finished(Ok(Done::View(None))),
            Resolved::Absent => {
                self.stage = Stage::Creating;
                let request = Request { kind: Kind::Lock, ..Request::new(Operation::Put, 0) };
                cx.asks.push(Ask::Request(request));
                Step::Wait
            }
            Resolved::Count(_) | Resolved::Counted => {
                Step::Finished(Err(Error::Layout { reason: "the record of a lock holds a count".into() }))
            }
            Resolved::Step(step) => step,
        }
    }

    fn read(&mut self, cell: CellReference, cx: &mut Context<'_>) -> Step {
        self.stage = Stage::Reading(cell);
        cx.asks.push(Ask::Cell { index: cell.index, verb: CellVerb::Read });
        Step::Wait
    }

    fn swap(&mut self, cell: CellReference, expect: LockWord, swap: LockWord, cx: &mut Context<'_>) -> Step {
        if !cx.lock_attempts.begin(cell.index) {
            self.stage = Stage::Waiting(cell);
            return Step::Pause(OTHER_ATTEMPT_PAUSE);
        }
        self.stage = Stage::Swapping { cell, expect: expect.raw(), swap: swap.raw() };
        cx.asks.push(Ask::Cell { index: cell.index, verb: CellVerb::Swap { expect: expect.raw(), swap: swap.raw() } });
        Step::Wait
    }

    fn give_back(&mut self, taken: Taken, cx: &mut Context<'_>) -> Step {
        match taken.word.released() {
            Some(free) => self.swap(taken.cell, taken.word, free, cx),
            None => Step::Finished(Ok(Done::Unlocked)),
        }
    }

    /// A swap to `wanted` has ended, and the word was `word` then.
    fn on_swapped(
        &mut self,
        cell: CellReference,
        word: LockWord,
        wanted: LockWord,
        swapped: Swapped,
        cx: &mut Context<'_>,
    ) -> Step {
        let takes = self.goal == LockGoal::Take;
        let granted = |cx: &Context<'_>| cx.lock_attempts.grant(cell.index, wanted.token(), swapped);
        let done = swapped != Swapped::Not && (!takes || granted(cx));
        cx.lock_attempts.end(cell.index);
        if let LockGoal::GiveBack(taken) = self.goal {
            return match word {
                _ if done => Step::Finished(Ok(Done::Unlocked)),
                // A lost swap that never happened.
                word if word == taken.word => self.give_back(taken, cx),
                // Given back and taken by another since, or lost before.
                _ if self.in_doubt => Step::Finished(Err(Error::Indeterminate { operation: self.name() })),
                word => Step::Finished(Err(fenced(taken.word.token(), word))),
            };
        }
        if !done {
            return self.on_word(cell, word, cx);
        }
        let taken = Taken { cell, word: wanted };
        if self.abandoned {
            self.goal = LockGoal::GiveBack(taken);
            return self.give_back(taken, cx);
        }
        cx.stats.locks.add(1);
        Step::Finished(Ok(Done::Lock(Ok(taken))))
    }

    /// The word was read, or came back from a swap that did not happen.
    fn on_word(&mut self, cell: CellReference, word: LockWord, cx: &mut Context<'_>) -> Step {
        let view = match word.state() {
            LockState::Retired => return self.on_retired(cx),
            LockState::Free => LockView { holder: None, token: word.token() },
            LockState::Held { holder } => LockView { holder: Some(holder), token: word.token() },
        };
        if self.goal == LockGoal::View {
            return Step::Finished(Ok(Done::View(Some(view))));
        }
        if view.holder.is_some() || self.abandoned {
            return Step::Finished(Ok(Done::Lock(Err(view))));
        }
        let closed = cx.locks_open_at.since(super::now());
        if !closed.is_zero() {
            // The server is in its first lease: holders of another life may still believe in theirs.
            self.stage = Stage::Waiting(cell);
            return Step::Pause(closed);
        }
        self.swaps += 1;
        match word.acquired_by(cx.holder) {
            Some(mine) if self.swaps <= ATTEMPTS_MAX => self.swap(cell, word, mine, cx),
            _ => Step::Exhausted,
        }
    }

    fn on_retired(&mut self, cx: &mut Context<'_>) -> Step {
        cx.cells.forget(cx.key);
        self.stage = Stage::Idle;
        // Until a new primary has opened nothing changes: the deadline is the bound.
        self.resolve.retired = self.resolve.retired.saturating_add(1);
        Step::Pause(attempt_pause(self.resolve.retired))
    }
}

/// The lock was lost before it was given back.
fn fenced(token: u64, word: LockWord) -> Error {
    let holder = match word.state() {
        LockState::Held { holder } => Some(holder),
        LockState::Free | LockState::Retired => None,
    };
    Error::Fenced { token, holder, current: word.token() }
}

#[cfg(test)]
mod tests;

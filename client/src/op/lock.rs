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
use std::collections::HashSet;
use std::time::Duration;

/// Pause of a session while another session of the same client has an attempt at the same lock in flight.
const OTHER_ATTEMPT_PAUSE: Duration = Duration::from_micros(50);

/// Cells on which this client has a compare-and-swap in flight: at most one attempt per lock and client, so that
/// the word {me, t+1} found after a lost completion can only be that attempt's.
#[derive(Default)]
pub(crate) struct LockAttempts(Mutex<HashSet<u32>>);

impl LockAttempts {
    fn begin(&self, cell: u32) -> bool {
        self.0.lock().insert(cell)
    }

    fn end(&self, cell: u32) {
        self.0.lock().remove(&cell);
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
}

impl Lock {
    /// A machine with this goal.
    pub fn new(goal: LockGoal) -> Self {
        Self { goal, stage: Stage::Idle, resolve: Resolve::default(), swaps: 0, abandoned: false }
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

    /// Its caller has gone. True when it must still run to its end, because a swap is in flight.
    pub fn abandon(&mut self) -> bool {
        self.abandoned = true;
        matches!(self.stage, Stage::Swapping { .. } | Stage::Verifying { .. })
    }

    /// Whether it gives a lock back.
    pub fn gives_back(&self) -> bool {
        matches!(self.goal, LockGoal::GiveBack(_))
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
                cx.lock_attempts.end(cell.index);
                let word = if old == expect { swap } else { old };
                self.on_swapped(cell, LockWord::from_raw(word), LockWord::from_raw(swap), old == expect, cx)
            }
            (Stage::Swapping { cell, swap, .. }, Input::CellLost) => {
                self.stage = Stage::Verifying { cell, swap };
                Step::Reconnect
            }
            (Stage::Verifying { cell, swap }, Input::Cell { old }) => {
                cx.lock_attempts.end(cell.index);
                self.on_swapped(cell, LockWord::from_raw(old), LockWord::from_raw(swap), old == swap, cx)
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
                let resolved = self.resolve.on(input, Kind::Lock, Kind::Lock, cx);
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
        let resolved = self.resolve.start(Kind::Lock, Kind::Lock, cx);
        self.on_resolved(resolved, cx)
    }

    fn on_resolved(&mut self, resolved: Resolved, cx: &mut Context<'_>) -> Step {
        match resolved {
            Resolved::Cell(cell, _) => self.read(cell, cx),
            Resolved::Absent if self.goal == LockGoal::View => Step::Finished(Ok(Done::View(None))),
            Resolved::Absent => {
                self.stage = Stage::Creating;
                let request = Request { kind: Kind::Lock, ..Request::new(Operation::Put, 0) };
                cx.asks.push(Ask::Request(request));
                Step::Wait
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
    fn on_swapped(&mut self, cell: CellReference, word: LockWord, wanted: LockWord, done: bool, cx: &mut Context<'_>) -> Step {
        if let LockGoal::GiveBack(taken) = self.goal {
            return match word {
                _ if done => Step::Finished(Ok(Done::Unlocked)),
                // A lost swap that never happened.
                word if word == taken.word => self.give_back(taken, cx),
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
        self.swaps += 1;
        match word.acquired_by(cx.holder) {
            Some(mine) if self.swaps <= ATTEMPTS_MAX => self.swap(cell, word, mine, cx),
            _ => Step::Exhausted,
        }
    }

    fn on_retired(&mut self, cx: &mut Context<'_>) -> Step {
        cx.cells.forget(cx.key);
        self.stage = Stage::Idle;
        self.resolve.retired += 1;
        if self.resolve.retired > ATTEMPTS_MAX {
            return Step::Exhausted;
        }
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

//! The sequential store that a history is compared with: what each key holds, and what a call does to that.

use super::event::{Call, Cell, Condition, Outcome};
use super::prepare::Op;

/// The stamp of a value whose write is in doubt and that no read ever saw; all such are alike.
pub(super) const UNSEEN: u64 = u64::MAX;
/// A version that nothing of the history tells.
const UNTOLD: u64 = 0;
/// The end of a time that has none.
pub(super) const NEVER: u64 = u64::MAX;

/// Who holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Hold {
    /// Nobody.
    Free,
    /// The holder of the slot's token.
    Held,
    /// Perhaps still the holder of the slot's token: it was lost, or a call took it of which nobody knows.
    Perhaps,
    /// As `Perhaps`, of a call that made the lock too: its token is not told, but higher than the slot's.
    Made,
    /// Nobody, after `Made`: the lock was broken.
    Unmade,
    /// Nobody: it was broken while it was, or may have been, held. An unlock whose answer was lost finds what it would
    /// have left, and cannot tell.
    Broken,
}

/// What a key holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Held {
    /// Nothing.
    Absent,
    /// A value, of a version if that is told; it goes away by itself at some time between the two.
    Value { stamp: u64, version: u64, goes_from: u64, goes_by: u64 },
    /// A counter.
    Counter(i64),
    /// A sequence, with the least number that it may hand out.
    Sequence(i64),
    /// A lock.
    Lock(Hold),
}

/// One key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Slot {
    pub held: Held,
    /// The highest version that is known to have been given.
    version: u64,
    /// The highest token that is known to have been given.
    token: u64,
}

/// All keys that are checked together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State(pub Vec<Slot>);

impl State {
    /// Before the history: nothing.
    pub fn empty(keys: usize) -> Self {
        Self(vec![Slot { held: Held::Absent, version: UNTOLD, token: 0 }; keys])
    }

    /// The state after `op`, if `op` can come to its outcome here. `now` is the latest time at which it happens.
    pub fn after(&self, op: &Op<'_>, now: u64) -> Option<Self> {
        let mut next = self.clone();
        if let Some((lock, token)) = op.fence {
            if *op.outcome == Outcome::Fenced {
                let lock = &self.0[lock];
                return (lock.held != Held::Lock(Hold::Held) || lock.token != token).then_some(next);
            }
            next.0[lock] = self.0[lock].held_with(token)?;
        }
        next.0[op.slot] = next.0[op.slot].after(op, now.min(op.returned))?;
        Some(next)
    }

    /// Whether `op` can never again have an effect, whatever comes.
    pub fn is_past(&self, op: &Op<'_>) -> bool {
        let past_fence = op.fence.is_some_and(|(lock, token)| self.0[lock].token > token);
        let slot = &self.0[op.slot];
        past_fence
            || match op.call {
                Call::Put { condition: Condition::Version(version), .. }
                | Call::Delete { condition: Condition::Version(version), .. } => slot.version > *version,
                Call::Unlock { token, .. } => slot.token > *token,
                Call::Put { .. } => op.version != UNTOLD && op.version < slot.version,
                _ => false,
            }
    }
}

impl Slot {
    fn after(self, op: &Op<'_>, by: u64) -> Option<Self> {
        match op.call {
            Call::Get { .. } | Call::MultiGet { .. } => match op.outcome {
                Outcome::Value { stamp, version } => self.shows(op, *stamp, *version),
                _ => self.gone(by),
            },
            Call::Exists { .. } => self.is_found(op, by),
            Call::Put { stamp, condition, .. } => self.put(op, by, *stamp, *condition),
            Call::Delete { condition, .. } => self.delete(op, by, *condition),
            Call::Create { cell, initial, .. } => self.create(op, by, *cell, *initial),
            Call::Add { delta, .. } => self.add(op, by, *delta),
            Call::Read { .. } => self.read(op, by),
            Call::Next { .. } => self.next(op, by),
            Call::TryLock { .. } => self.try_lock(op),
            Call::LockState { .. } => self.lock_state(op, by),
            Call::Unlock { token, .. } => self.unlock(op, *token),
            Call::Lost { token, .. } => Some(match self.held {
                Held::Lock(Hold::Held) if self.token == *token => self.holding(Held::Lock(Hold::Perhaps)),
                _ => self,
            }),
            Call::BreakLock { .. } => match (op.outcome, self.held) {
                (Outcome::Found(true) | Outcome::Unknown, Held::Lock(Hold::Made | Hold::Unmade)) => {
                    Some(self.holding(Held::Lock(Hold::Unmade)))
                }
                (Outcome::Found(true) | Outcome::Unknown, Held::Lock(Hold::Free)) => Some(self),
                (Outcome::Found(true) | Outcome::Unknown, Held::Lock(_)) => Some(self.holding(Held::Lock(Hold::Broken))),
                // Whoever takes a lock that there is not makes it first, free: it can be broken then.
                (Outcome::Found(_), Held::Absent) => Some(self),
                _ => None,
            },
        }
    }

    const fn holding(self, held: Held) -> Self {
        Self { held, ..self }
    }

    /// After the key was found empty at `by` at the latest.
    fn gone(self, by: u64) -> Option<Self> {
        match self.held {
            Held::Absent => Some(self),
            Held::Value { goes_from, .. } if goes_from <= by => Some(self.holding(Held::Absent)),
            _ => None,
        }
    }

    /// Whether the key can hold something at or after `from`.
    const fn can_hold(self, from: u64) -> bool {
        match self.held {
            Held::Absent => false,
            Held::Value { goes_by, .. } => from <= goes_by,
            _ => true,
        }
    }

    /// After a value of this stamp and version was seen.
    fn shows(self, op: &Op<'_>, seen: u64, version: u64) -> Option<Self> {
        let Held::Value { stamp, .. } = self.held else { return None };
        if stamp != seen { None } else { self.has_version(op, version) }
    }

    /// After the key was found to hold something of this version.
    fn has_version(self, op: &Op<'_>, told: u64) -> Option<Self> {
        if !self.can_hold(op.invoked) {
            return None;
        }
        match self.held {
            Held::Value { stamp, version: UNTOLD, goes_from, goes_by } if told > self.version => {
                let held = Held::Value { stamp, version: told, goes_from, goes_by };
                Some(Self { held, version: told, ..self })
            }
            Held::Value { version, .. } if version == told => Some(self),
            // Versions of what lives in cells are not told by their calls.
            Held::Value { .. } | Held::Absent => None,
            _ => Some(self),
        }
    }

    fn is_found(self, op: &Op<'_>, by: u64) -> Option<Self> {
        match op.outcome {
            Outcome::Found(true) => self.can_hold(op.invoked).then_some(self),
            _ => self.gone(by),
        }
    }

    fn put(self, op: &Op<'_>, by: u64, stamp: u64, condition: Condition) -> Option<Self> {
        match (op.outcome, condition) {
            (Outcome::Exists { version }, _) => return self.has_version(op, *version),
            (Outcome::Mismatch { version }, Condition::Version(wanted)) => {
                return if *version == wanted { None } else { self.has_version(op, *version) };
            }
            (Outcome::Absent, _) => return self.gone(by),
            _ => {}
        }
        let before = match condition {
            Condition::None => self,
            Condition::Absent => self.gone(by)?,
            Condition::Version(wanted) => self.has_version(op, wanted)?,
        };
        if !matches!(before.held, Held::Absent | Held::Value { .. }) {
            return None;
        }
        if op.version != UNTOLD && op.version <= before.version {
            return None;
        }
        let stamp = if op.is_seen || op.is_known() { stamp } else { UNSEEN };
        let held = Held::Value { stamp, version: op.version, goes_from: op.goes_from, goes_by: op.goes_by };
        Some(Self { held, version: before.version.max(op.version), ..before })
    }

    fn delete(self, op: &Op<'_>, by: u64, condition: Condition) -> Option<Self> {
        match (op.outcome, condition) {
            (Outcome::Absent, _) => return self.gone(by),
            (Outcome::Mismatch { version }, Condition::Version(wanted)) => {
                return if *version == wanted { None } else { self.has_version(op, *version) };
            }
            _ => {}
        }
        let before = match condition {
            Condition::Version(wanted) => self.has_version(op, wanted)?,
            _ => self,
        };
        before.can_hold(op.invoked).then(|| before.holding(Held::Absent))
    }

    fn create(self, op: &Op<'_>, by: u64, cell: Cell, initial: i64) -> Option<Self> {
        match (op.outcome, self.held, cell) {
            (Outcome::Created(false), Held::Counter(_), Cell::Counter)
            | (Outcome::Created(false), Held::Sequence(_), Cell::Sequence) => Some(self),
            (Outcome::Created(false), ..) => None,
            (_, _, Cell::Counter) => Some(self.gone(by)?.holding(Held::Counter(initial))),
            (_, _, Cell::Sequence) => Some(self.gone(by)?.holding(Held::Sequence(initial))),
        }
    }

    fn add(self, op: &Op<'_>, by: u64, delta: i64) -> Option<Self> {
        match (op.outcome, self.held) {
            (Outcome::Absent, _) => self.gone(by),
            (Outcome::Number(sum), Held::Counter(value)) if value + delta != *sum => None,
            (_, Held::Counter(value)) => Some(self.holding(Held::Counter(value + delta))),
            _ => None,
        }
    }

    fn read(self, op: &Op<'_>, by: u64) -> Option<Self> {
        match (op.outcome, self.held) {
            (Outcome::Absent, _) => self.gone(by),
            (Outcome::Number(seen), Held::Counter(value)) => (value == *seen).then_some(self),
            (Outcome::Number(seen), Held::Sequence(next)) => (*seen >= next).then(|| self.holding(Held::Sequence(*seen))),
            _ => None,
        }
    }

    fn next(self, op: &Op<'_>, by: u64) -> Option<Self> {
        match (op.outcome, self.held) {
            (Outcome::Absent, _) => self.gone(by),
            (Outcome::Number(number), Held::Sequence(next)) if *number >= next => Some(self.holding(Held::Sequence(*number + 1))),
            _ => None,
        }
    }

    fn try_lock(self, op: &Op<'_>) -> Option<Self> {
        let is_taken = match self.held {
            Held::Absent | Held::Lock(Hold::Free | Hold::Unmade | Hold::Broken) => Some(false),
            Held::Lock(Hold::Held) => Some(true),
            Held::Lock(Hold::Perhaps | Hold::Made) => None,
            _ => return None,
        };
        match op.outcome {
            Outcome::Busy => (is_taken != Some(false)).then_some(self),
            _ if is_taken == Some(true) => None,
            Outcome::Locked { token } if *token > self.token => {
                Some(Self { held: Held::Lock(Hold::Held), token: *token, ..self })
            }
            Outcome::Unknown if matches!(self.held, Held::Absent | Held::Lock(Hold::Made | Hold::Unmade)) => {
                Some(self.holding(Held::Lock(Hold::Made)))
            }
            // The next token, as far as anybody knows.
            Outcome::Unknown => Some(Self { held: Held::Lock(Hold::Perhaps), token: self.token + 1, ..self }),
            _ => None,
        }
    }

    fn lock_state(self, op: &Op<'_>, by: u64) -> Option<Self> {
        let Outcome::State { held, token } = op.outcome else { return self.gone(by) };
        match self.held {
            Held::Lock(Hold::Perhaps | Hold::Made) if *held => self.held_with(*token),
            Held::Lock(Hold::Perhaps) => (*token == self.token).then_some(self),
            Held::Lock(Hold::Made | Hold::Unmade) if !*held => {
                (*token > self.token).then_some(Self { held: Held::Lock(Hold::Free), token: *token, ..self })
            }
            Held::Lock(hold) => (*held == (hold == Hold::Held) && *token == self.token).then_some(self),
            // A call that will take the lock makes it first, which can be seen.
            Held::Absent if !*held && *token > self.token => Some(Self { held: Held::Lock(Hold::Free), token: *token, ..self }),
            _ => None,
        }
    }

    /// After the lock was found to be held with this token.
    fn held_with(self, token: u64) -> Option<Self> {
        match self.held {
            Held::Lock(Hold::Held | Hold::Perhaps) if self.token == token => Some(self),
            Held::Lock(Hold::Made) if token > self.token => Some(Self { held: Held::Lock(Hold::Perhaps), token, ..self }),
            _ => None,
        }
    }

    fn unlock(self, op: &Op<'_>, token: u64) -> Option<Self> {
        match op.outcome {
            Outcome::Fenced => (self.token != token || self.held != Held::Lock(Hold::Held)).then_some(self),
            Outcome::Unlocked if self.held == Held::Lock(Hold::Broken) && self.token == token => {
                Some(self.holding(Held::Lock(Hold::Free)))
            }
            _ => Some(self.held_with(token)?.holding(Held::Lock(Hold::Free))),
        }
    }
}

//! What travels between asynchronous callers and the thread that owns the session.

use crate::error::Error;
use crate::lock_guard::{Held, LockView};
use crate::op::{CounterGoal, Done, Found};
use crate::write::{Write, WriteOptions};
use sidewire_common::clock::BootInstant;
use sidewire_common::layout::record::{Kind, Version};
use sidewire_common::layout::request::Condition;
use std::time::Duration;
use tokio::sync::oneshot;

/// What is asked of a key.
pub(super) enum Task {
    Get,
    /// Kind and presence, without the bytes.
    Look,
    Counter(CounterGoal),
    TryLock,
    LockState,
    Unlock(Box<Held>),
    Put(Vec<u8>, Options),
    Delete(Options),
    Create(Kind, i64),
    AddExactlyOnce(i64),
    BreakLock,
}

/// Write options that own what they name.
pub(super) struct Options {
    ttl: Option<Duration>,
    condition: Condition,
    fence: Option<(Vec<u8>, u64)>,
}

impl Options {
    pub fn of(options: &WriteOptions<'_>) -> Self {
        let fence = options.fence.map(|(key, token)| (key.to_vec(), token));
        Self { ttl: options.ttl, condition: options.condition, fence }
    }

    pub fn borrow(&self) -> WriteOptions<'_> {
        let fence = self.fence.as_ref().map(|(key, token)| (key.as_slice(), *token));
        WriteOptions { ttl: self.ttl, condition: self.condition, fence }
    }
}

/// A value that may leave the session's thread.
pub(super) struct Owned {
    pub kind: Kind,
    pub version: Version,
    pub bytes: Vec<u8>,
}

/// What a task brought.
pub(super) enum Brought {
    Found(Option<Owned>),
    Write(Write),
    Created(bool),
    Sum(i64),
    Value(Option<i64>),
    View(Option<LockView>),
    /// Taken, or held by another.
    Lock(Result<Box<Held>, LockView>),
    /// Locks are not granted yet.
    LocksOpenIn(Duration),
    Unlocked,
}

/// A task with its way back.
pub(super) struct Job {
    pub key: Vec<u8>,
    pub task: Task,
    pub reply: oneshot::Sender<Result<Brought, Error>>,
    /// When it was asked for, and how long it may take from then on.
    pub since: BootInstant,
    pub deadline: Duration,
}

impl Job {
    /// One that is asked for now, and the way to its answer.
    pub fn new(key: &[u8], task: Task, deadline: Duration) -> (Self, oneshot::Receiver<Result<Brought, Error>>) {
        let (reply, answer) = oneshot::channel();
        (Self { key: key.to_vec(), task, reply, since: BootInstant::now(), deadline }, answer)
    }

    /// The time that it has left.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_sub(BootInstant::now().since(self.since))
    }
}

/// The part of a result that may leave the session's thread.
pub(super) fn brought(done: Done, with_bytes: bool) -> Result<Brought, Error> {
    Ok(match done {
        Done::Found(Found::Absent) => Brought::Found(None),
        Done::Found(Found::Record(record)) => Brought::Found(Some(Owned {
            kind: record.whole.kind,
            version: record.whole.version,
            bytes: if with_bytes { record.value().to_vec() } else { Vec::new() },
        })),
        Done::Write(write) => Brought::Write(write),
        Done::Created(created) => Brought::Created(created),
        Done::Sum(sum) | Done::Asked(sum) => Brought::Sum(sum),
        Done::Value(value) => Brought::Value(value),
        Done::View(view) => Brought::View(view),
        Done::Locked(held) => Brought::Lock(Ok(held)),
        Done::Lock(Err(view)) => Brought::Lock(Err(view)),
        Done::Unlocked => Brought::Unlocked,
        Done::Raw | Done::Lock(Ok(_)) => {
            return Err(Error::Layout { reason: "an operation ended in what it never brings".into() });
        }
    })
}

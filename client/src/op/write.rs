//! Writes: one request to the key's worker, one answer.

use super::{Ask, Context, Done, Input, Step};
use crate::error::Error;
use crate::retry::Backoff;
use crate::write::{Unmet, Write};
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::location::Location;
use sidewire_common::layout::lock_word::{LockState, LockWord};
use sidewire_common::layout::record::{Kind, Version};
use sidewire_common::layout::request::{Operation, Request, RequestField};
use std::time::Duration;

/// First pause after the server said that it is busy.
const BUSY_PAUSE_FIRST: Duration = Duration::from_micros(200);
/// Longest pause after the server said that it is busy.
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(50);

/// Pauses after the server said that it is busy.
pub(super) fn busy_backoff() -> Backoff {
    Backoff::new(BUSY_PAUSE_FIRST, BUSY_PAUSE_MAX)
}

/// What the caller wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    /// How the write ended.
    Write,
    /// Whether something was created.
    Created,
    /// The sum after an add of this.
    Sum(i64),
    /// Whether a lock was broken.
    Broken,
    /// That there was an answer, whatever it says.
    Answered,
}

/// The machine.
pub(crate) struct WriteOp {
    request: Request,
    want: Want,
    backoff: Backoff,
    sent: u32,
    /// The last answer was that the server is busy.
    busy: bool,
}

impl WriteOp {
    /// A machine for this request; the driver fills in the sequence.
    pub fn new(request: Request, want: Want) -> Self {
        Self { request, want, backoff: busy_backoff(), sent: 0, busy: false }
    }

    /// Its name in messages to people.
    pub fn name(&self) -> &'static str {
        match self.request.operation {
            Operation::Put if self.request.kind == Kind::Value => "put",
            Operation::Put => "create",
            Operation::Delete => "delete",
            Operation::Add => "add",
            Operation::Resolve => "resolve",
            Operation::Expire => "expire",
            Operation::BreakLock => "break lock",
            // Steps of a put.
            Operation::Reserve | Operation::Chunk | Operation::Commit => "put",
        }
    }

    /// What it asks for.
    pub fn operation(&self) -> Operation {
        self.request.operation
    }

    /// Bytes of the value that it stores.
    pub fn value_bytes(&self) -> usize {
        self.request.value_len as usize
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        match self.sent {
            0 => "waiting for ring space or a message credit".into(),
            1 => "waiting for the worker's ack".into(),
            n => format!("waiting for the worker, which was busy {} times", n - 1),
        }
    }

    /// Whether the server's last word was that it is busy.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Eats what happened.
    pub fn on(&mut self, input: Input, cx: &mut Context<'_>) -> Step {
        match input {
            Input::Resume | Input::Restart => {
                self.sent += 1;
                cx.asks.push(Ask::Request(self.request));
                Step::Wait
            }
            Input::Ack(ack) if ack.outcome == Outcome::Busy => {
                self.busy = true;
                Step::Pause(self.backoff.pause())
            }
            Input::Ack(ack) => {
                self.note(&ack, cx);
                Step::Finished(self.settled(&ack))
            }
            _ => Step::Wait,
        }
    }

    /// Counts it, and remembers where the record is.
    pub(super) fn note(&self, ack: &Ack, cx: &Context<'_>) {
        let [_, second] = ack.figures;
        if self.request.operation == Operation::Put && matches!(ack.outcome, Outcome::Done | Outcome::Exists) {
            let location = Location::from_raw(second);
            if !location.is_empty() && location.fingerprint() == cx.hash.fingerprint() {
                cx.locations.learned(cx.hash, cx.reign, location);
            }
        }
        if ack.outcome == Outcome::Done {
            match self.request.operation {
                Operation::Put => cx.stats.puts.add(1),
                Operation::Delete => cx.stats.deletes.add(1),
                Operation::Add => cx.stats.adds.add(1),
                _ => {}
            }
        }
    }

    /// How the write has ended.
    pub fn settled(&self, ack: &Ack) -> Result<Done, Error> {
        let [first, _] = ack.figures;
        let version = Version::from_raw(first);
        match (ack.outcome, self.want) {
            (_, Want::Answered) => Ok(Done::Raw),
            (Outcome::Done, Want::Write) => Ok(Done::Write(Write::Done(version))),
            (Outcome::Done, Want::Created | Want::Broken) => Ok(Done::Created(true)),
            (Outcome::Done, Want::Sum(delta)) => Ok(Done::Asked((first as i64).wrapping_add(delta))),
            (Outcome::NotFound, Want::Write) => Ok(Done::Write(Write::NotDone(Unmet::NotFound))),
            (Outcome::NotFound, Want::Broken) => Ok(Done::Created(false)),
            (Outcome::Exists, Want::Write) => Ok(Done::Write(Write::NotDone(Unmet::Exists(version)))),
            (Outcome::Exists, Want::Created) => match Kind::from_raw(ack.detail) {
                Some(found) if found != self.request.kind => Err(Error::WrongKind { wanted: self.request.kind, found }),
                _ => Ok(Done::Created(false)),
            },
            (Outcome::VersionMismatch, Want::Write) => Ok(Done::Write(Write::NotDone(Unmet::Mismatch(version)))),
            _ => Err(error_of(ack, self.wanted_kind(), Some(self.request.fence_token), self.name())),
        }
    }

    fn wanted_kind(&self) -> Kind {
        match self.request.operation {
            Operation::Add => Kind::Counter,
            Operation::BreakLock => Kind::Lock,
            _ => self.request.kind,
        }
    }
}

/// The error that an ack means.
pub(crate) fn error_of(ack: &Ack, wanted: Kind, fence_token: Option<u64>, operation: &'static str) -> Error {
    let [first, second] = ack.figures;
    match ack.outcome {
        Outcome::NotFound => Error::NotFound,
        Outcome::WrongKind => Error::WrongKind { wanted, found: Kind::from_raw(ack.detail).unwrap_or(Kind::Value) },
        Outcome::Fenced => {
            let word = LockWord::from_raw(first);
            let holder = match word.state() {
                LockState::Held { holder } => Some(holder),
                LockState::Free | LockState::Retired => None,
            };
            Error::Fenced { token: fence_token.unwrap_or(0), holder, current: word.token() }
        }
        Outcome::OutOfMemory => Error::OutOfMemory { in_use: first, limit: second },
        Outcome::IndexFull => Error::IndexFull { segments: first, limit: second },
        Outcome::OutOfCells => Error::OutOfCells { in_use: first, limit: second },
        Outcome::Refused => {
            let field = RequestField::from_raw(ack.detail).map_or("an unknown field", RequestField::name);
            Error::Refused { field, value: first, limit: second }
        }
        Outcome::Busy | Outcome::Unreserved => Error::Busy,
        Outcome::OutOfRange => Error::OutOfRange { value: first as i64 },
        Outcome::Forgotten => Error::Indeterminate { operation },
        Outcome::Done | Outcome::Exists | Outcome::VersionMismatch | Outcome::NeverDone | Outcome::WrongPrimary => {
            Error::Layout { reason: format!("the server answered a {operation} with {:?}", ack.outcome) }
        }
    }
}

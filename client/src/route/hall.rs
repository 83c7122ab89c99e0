//! Operations that are with no server now.

use crate::error::Error;
use crate::in_flight::{OPERATIONS_MAX, Op, Sink};
use crate::op::Done;
use crate::retry::Backoff;
use crate::slab::{Slab, SlabKey};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::MemberId;
use sidewire_common::layout::ack::Ack;
use std::collections::VecDeque;
use std::time::Duration;

use super::Doubt;

/// Pauses between attempts to place an operation.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Why an operation left a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The server said that it is not the primary, by its own map of this epoch.
    WrongPrimary(u32),
    /// The attachment has ended.
    Gone,
    /// The map has the shard elsewhere.
    Moved,
}

/// What an operation has been through on its way from server to server.
pub(crate) struct Wander {
    pub backoff: Backoff,
    /// When it is tried again.
    pub try_at: BootInstant,
    /// Times that a server refused it.
    pub refusals: u32,
    pub last: Option<(MemberId, Cause)>,
    /// Its ack, which came when the lease was over: it counts if the lease is renewed after all.
    pub held_ack: Option<Ack>,
    /// It was sent to a server that is gone, and nobody knows what became of it.
    pub doubt: Option<Doubt>,
}

impl Wander {
    /// The beginning of a way.
    pub fn new() -> Self {
        Self {
            backoff: Backoff::new(PAUSE_FIRST, PAUSE_MAX),
            try_at: BootInstant::from_nanos(0),
            refusals: 0,
            last: None,
            held_ack: None,
            doubt: None,
        }
    }

    /// Not before a pause.
    pub fn pause(&mut self) {
        self.try_at = BootInstant::now().plus(self.backoff.pause());
    }
}

/// One operation in the hall.
#[derive(Default)]
pub(super) struct Guest {
    /// `None` only between two guests.
    pub op: Option<Op>,
    /// Its request as it is to be sent, if it is a write.
    pub bytes: Option<Vec<u8>>,
}

/// The hall.
#[derive(Default)]
pub(super) struct Hall {
    guests: Slab<Guest>,
    finished: VecDeque<(u64, Result<Done, Error>)>,
    submitted: usize,
}

impl Hall {
    /// An operation comes in.
    ///
    /// # Errors
    /// When there are too many.
    pub fn enter(&mut self, op: Op, bytes: Option<Vec<u8>>) -> Result<SlabKey, Error> {
        if self.guests.len() >= OPERATIONS_MAX {
            return Err(Error::Full);
        }
        Ok(self.take_in(op, bytes))
    }

    /// An operation comes in from a driver.
    pub fn take_in(&mut self, mut op: Op, bytes: Option<Vec<u8>>) -> SlabKey {
        self.submitted += usize::from(matches!(op.sink, Sink::Submitted(_)));
        op.wander.get_or_insert_with(|| Box::new(Wander::new()));
        let (name, guest) = self.guests.take(Guest::default);
        *guest = Guest { op: Some(op), bytes };
        name
    }

    /// An operation goes to a server.
    pub fn leave(&mut self, name: SlabKey) -> Option<Guest> {
        let guest = std::mem::take(self.guests.find(name)?);
        self.submitted -= usize::from(guest.op.as_ref().is_some_and(|op| matches!(op.sink, Sink::Submitted(_))));
        self.guests.release(name);
        Some(guest)
    }

    /// Whether nobody is here.
    pub fn is_empty(&self) -> bool {
        self.guests.len() == 0
    }

    /// All that are here.
    pub fn names(&self) -> Vec<SlabKey> {
        self.guests.keys()
    }

    /// One that has not ended.
    pub fn find(&mut self, name: SlabKey) -> Option<&mut Op> {
        self.guests.find(name)?.op.as_mut().filter(|op| op.result.is_none())
    }

    /// Whether the request of a write is here, to be sent again.
    pub fn has_bytes(&mut self, name: SlabKey) -> bool {
        self.guests.find(name).is_some_and(|guest| guest.bytes.is_some())
    }

    /// Ends an operation.
    pub fn finish(&mut self, name: SlabKey, result: Result<Done, Error>) {
        let Some(op) = self.find(name) else { return };
        match op.sink {
            Sink::Call => op.result = Some(result),
            Sink::Submitted(id) => {
                self.finished.push_back((id, result));
                // It counts until it is taken.
                if self.leave(name).is_some() {
                    self.submitted += 1;
                }
            }
            Sink::Nobody => drop(self.leave(name)),
        }
    }

    /// The result of an operation that a call waits for.
    pub fn take(&mut self, name: SlabKey) -> Option<Result<Done, Error>> {
        let result = self.guests.find(name)?.op.as_mut()?.result.take()?;
        self.leave(name);
        Some(result)
    }

    /// A submitted operation that has ended.
    pub fn take_finished(&mut self) -> Option<(u64, Result<Done, Error>)> {
        let finished = self.finished.pop_front()?;
        self.submitted -= 1;
        Some(finished)
    }

    /// Whether results wait to be taken.
    pub fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Submitted operations that have not been taken.
    pub fn submitted(&self) -> usize {
        self.submitted
    }

    /// Whether a write carries this fencing token.
    pub fn carries(&self, token: u64) -> bool {
        let carries = |op: &Op| op.result.is_none() && op.fence_token == token;
        self.guests.values().any(|guest| guest.op.as_ref().is_some_and(carries))
    }

    /// All are tried at once.
    pub fn hurry(&mut self) {
        for name in self.names() {
            if let Some(wander) = self.find(name).and_then(|op| op.wander.as_mut()) {
                wander.try_at = BootInstant::from_nanos(0);
            }
        }
    }
}

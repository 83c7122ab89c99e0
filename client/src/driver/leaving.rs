//! Operations that leave for another server of the cluster, and those that come from one.

use super::Driver;
use crate::error::Error;
use crate::in_flight::{Machine, OPERATIONS_MAX, Op, Sink};
use crate::op::Input;
use crate::route::{Cause, Doubt};
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::Reign;
use sidewire_common::layout::request::Operation;

/// An operation that cannot be carried out here.
pub(crate) struct Emigrant {
    /// What it was called here.
    pub name: SlabKey,
    pub op: Op,
    /// Its request, if it is a write.
    pub bytes: Option<Vec<u8>>,
    pub cause: Cause,
    /// It was sent, and what became of it is not known.
    pub doubt: Option<Doubt>,
}

impl Driver {
    /// Whether the server is one of a cluster, so that what cannot be carried out here may be elsewhere.
    #[inline]
    pub(super) fn in_cluster(&self) -> bool {
        self.server.shared.membership.is_some()
    }

    /// The operation leaves. What it has posted stays until it comes back, and concerns nobody.
    #[cold]
    pub(super) fn emigrate(&mut self, name: SlabKey, cause: Cause) {
        self.emigrate_in_doubt(name, cause, None);
    }

    #[cold]
    pub(super) fn emigrate_in_doubt(&mut self, name: SlabKey, cause: Cause, doubt: Option<Doubt>) {
        let Some(place) = self.ops.find(name).filter(|op| !op.has_ended()) else { return };
        let mut op = std::mem::replace(place, Op::new());
        // The shell keeps what the posted work and the epoch need.
        (place.posted, place.pinned) = (std::mem::take(&mut op.posted), op.pinned.take());
        op.request = None;
        if let Some(wander) = &mut op.wander {
            wander.held_ack = None;
        }
        (op.queued, op.paused, op.restart, op.must_run) = (false, false, false, false);
        op.since.get_or_insert_with(BootInstant::now);
        let bytes = op.image.take().map(|(image, bytes)| image.bytes()[..bytes].to_vec());
        match &mut op.machine {
            Machine::Lock(m) => m.forget_attempt(&self.attached.lock_attempts),
            Machine::Counter(m) => m.forget_attempt(),
            _ => {}
        }
        self.submitted -= usize::from(matches!(op.sink, Sink::Submitted(_)));
        self.emigrants.push_back(Emigrant { name, op, bytes, cause, doubt });
        self.settle(name);
    }

    /// The next operation that has left.
    pub fn take_emigrant(&mut self) -> Option<Emigrant> {
        self.emigrants.pop_front()
    }

    /// What is in doubt of an operation whose request was sent and is unanswered.
    pub(super) fn doubt_of(&mut self, name: SlabKey) -> Option<Doubt> {
        let membership = self.server.shared.membership.as_ref()?;
        let op = self.ops.find(name)?;
        let (_, sequence) = op.request?;
        let operation = op.machine.written()?;
        let sent = (membership.id, self.attached.terms.client, self.session, sequence);
        Some(Doubt::new(sent, (op.reign, self.life), operation))
    }

    /// Whether another operation may come.
    pub fn has_room(&self) -> bool {
        self.ops.len() < OPERATIONS_MAX
    }

    /// An operation comes from another server or from none; it begins anew.
    pub fn admit(&mut self, mut op: Op, bytes: Option<Vec<u8>>) -> SlabKey {
        let mut refused = None;
        if let Some(bytes) = bytes {
            let limit = self.attached.terms.value_bytes_max;
            match (op.machine.value_bytes(), self.buffers.take(bytes.len())) {
                (value, _) if value > limit => refused = Some(Error::ValueTooLong { bytes: value, limit }),
                (_, Ok(mut image)) => {
                    image.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                    op.image = Some((image, bytes.len()));
                }
                (_, Err(error)) => refused = Some(error.into()),
            }
        }
        self.submitted += usize::from(matches!(op.sink, Sink::Submitted(_)));
        self.unclocked = true;
        let (name, place) = self.ops.take(Op::new);
        *place = op;
        match refused {
            Some(error) => self.finish(name, Err(error)),
            None => self.feed(name, Input::Restart),
        }
        name
    }

    /// A later map has come: operations whose shard is elsewhere by now, or in another reign, leave unless they have
    /// gone too far. Those end here, or leave when the server says so.
    pub fn shards_moved(&mut self, has_moved: &dyn Fn(u32, Reign) -> bool) {
        for name in self.ops.keys() {
            let Some(op) = self.ops.find(name).filter(|op| !op.has_ended()) else { continue };
            if !has_moved(op.hash.shard(), op.reign) || op.request.is_some() && op.machine.written().is_some() {
                continue;
            }
            match &op.machine {
                Machine::Lock(m) if m.gives_back() && op.posted == 0 => self.finish(name, Err(Error::LeaseLapsed)),
                machine if machine.may_leave() => self.emigrate(name, Cause::Moved),
                _ => {}
            }
        }
    }
}

/// The operation that a request carries out, if it changes anything that must not happen twice.
impl Machine {
    /// Which, of a write that may have been sent.
    pub fn written(&self) -> Option<Operation> {
        match self {
            Self::Write(m) => Some(m.operation()),
            Self::Large(m) => m.may_be_stored().then_some(Operation::Put),
            Self::Counter(m) if m.has_asked() => Some(Operation::Add),
            _ => None,
        }
    }
}

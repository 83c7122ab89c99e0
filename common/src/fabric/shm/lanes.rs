//! The shared memory of one endpoint, seen from one end.

use super::bell::{PeerSleep, Sleeper};
use super::messages::{MessageReceiver, MessageSender};
use super::ring::{ImmediateReceiver, ImmediateSender, Misbehaved};
use super::shape::{CLIENT_TAKEN, IMMEDIATES_TAKEN, SERVER_TAKEN, SLEEPER, Shape};
use crate::memory::{OutOfView, View};

/// The staging ring of the server, as its client writes it.
pub(super) struct Staging {
    /// Names it in a work request.
    pub(super) rkey: u32,
    /// Its bytes.
    pub(super) view: View,
}

/// Rings and words. What a role has no use for is absent.
pub(super) struct Lanes {
    /// Client.
    pub(super) immediates_out: Option<ImmediateSender>,
    /// Server.
    pub(super) immediates_in: Option<ImmediateReceiver>,
    /// Both.
    pub(super) messages_out: Option<MessageSender>,
    /// Both.
    pub(super) messages_in: Option<MessageReceiver>,
    /// Client.
    pub(super) staging: Option<Staging>,
    /// The longest write that an immediate may announce.
    pub(super) staging_bytes: u32,
    /// Client: a server's word belongs to its port.
    pub(super) sleeper: Option<Sleeper>,
    /// The other end's word.
    pub(super) peer: PeerSleep,
    entries_in: u64,
    rings: u64,
    consumed: u64,
}

impl Lanes {
    /// The server's end.
    pub(super) fn server(shape: &Shape, client: &View, server: &View) -> Result<Self, OutOfView> {
        let part = |view: &View, range| view.part(range);
        let mut lanes = Self::bare(shape, part(client, SLEEPER)?);
        if shape.immediates > 0 {
            let ring = part(client, shape.immediates())?;
            lanes.immediates_in = Some(ImmediateReceiver::new(ring, part(server, IMMEDIATES_TAKEN)?, shape.immediates));
        }
        if shape.up > 0 {
            let slots = part(client, shape.up())?;
            lanes.messages_in = Some(MessageReceiver::new(slots, part(server, SERVER_TAKEN)?, shape.up));
        }
        if shape.down > 0 {
            let slots = part(server, shape.down())?;
            lanes.messages_out = Some(MessageSender::new(slots, part(client, CLIENT_TAKEN)?, shape.down));
        }
        lanes.entries_in = u64::from(shape.immediates) + u64::from(shape.up);
        Ok(lanes)
    }

    /// The client's end. `port` is the page of the server's port.
    pub(super) fn client(shape: &Shape, client: &View, server: &View, port: &View, rkey: u32) -> Result<Self, OutOfView> {
        let part = |view: &View, range| view.part(range);
        let mut lanes = Self::bare(shape, part(port, SLEEPER)?);
        lanes.sleeper = Some(Sleeper::new(part(client, SLEEPER)?));
        if shape.immediates > 0 {
            let ring = part(client, shape.immediates())?;
            lanes.immediates_out = Some(ImmediateSender::new(ring, part(server, IMMEDIATES_TAKEN)?, shape.immediates));
        }
        if shape.up > 0 {
            let slots = part(client, shape.up())?;
            lanes.messages_out = Some(MessageSender::new(slots, part(server, SERVER_TAKEN)?, shape.up));
        }
        if shape.down > 0 {
            let slots = part(server, shape.down())?;
            lanes.messages_in = Some(MessageReceiver::new(slots, part(client, CLIENT_TAKEN)?, shape.down));
        }
        if shape.staging_bytes > 0 {
            lanes.staging = Some(Staging { rkey, view: part(client, shape.staging())? });
        }
        lanes.entries_in = u64::from(shape.down);
        Ok(lanes)
    }

    fn bare(shape: &Shape, peer: View) -> Self {
        Self {
            immediates_out: None,
            immediates_in: None,
            messages_out: None,
            messages_in: None,
            staging: None,
            staging_bytes: shape.staging_bytes,
            sleeper: None,
            peer: PeerSleep::new(peer),
            entries_in: 0,
            rings: 0,
            consumed: 0,
        }
    }

    /// Entries that the peer can have published and this end not consumed.
    pub(super) fn entries_in(&self) -> u64 {
        self.entries_in
    }

    /// Whether an entry of the peer waits.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.immediates_in.as_ref().is_some_and(ImmediateReceiver::waits)
            || self.messages_in.as_ref().is_some_and(MessageReceiver::waits)
    }

    /// Counts entries taken off the rings.
    #[inline]
    pub(super) fn consumed(&mut self, entries: u64) {
        self.consumed += entries;
    }

    /// Counts the peer's wake-up bytes: one at most for each entry it has published.
    pub(super) fn rung(&mut self, bytes: u64) -> Result<(), Misbehaved> {
        self.rings += bytes;
        if self.rings > self.consumed + self.entries_in { Err(Misbehaved("it rings without a reason")) } else { Ok(()) }
    }

    /// Entries that fit into the ring this end writes; None when it writes none.
    pub(super) fn room(&self) -> Option<Result<u64, Misbehaved>> {
        let credit = match (&self.immediates_out, &self.messages_out) {
            (Some(ring), _) => &ring.credit,
            (None, Some(ring)) => &ring.credit,
            (None, None) => return None,
        };
        Some(credit.room())
    }
}

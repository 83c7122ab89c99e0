//! A client's write endpoint at this worker.

use sidewire_common::fabric::EndpointId;
use sidewire_common::id::ClientId;
use sidewire_common::layout::ack::Ack;
use sidewire_common::memory::View;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A session of a client: what survives a lost connection belongs to it.
pub(super) type SessionKey = (ClientId, u32);

/// One write endpoint.
pub(super) struct Connection {
    pub session: SessionKey,
    /// The client's id in lock words.
    pub holder: u32,
    /// Its staging ring; shared on this thread with the work whose values lie in it.
    pub ring: Rc<View>,
    /// Acks that wait to be sent; never more than its credits.
    pub acks: Vec<Ack>,
}

/// All endpoints that clients have at this worker.
#[derive(Default)]
pub(super) struct Connections {
    pub writers: BTreeMap<EndpointId, Connection>,
    pub readers: BTreeMap<EndpointId, SessionKey>,
}

impl Connections {
    /// Endpoints of a client, or of one of its sessions.
    pub(super) fn of(&self, client: ClientId, session: Option<u32>) -> Vec<EndpointId> {
        let same = |key: &SessionKey| key.0 == client && session.is_none_or(|s| s == key.1);
        let writers = self.writers.iter().filter(|(_, c)| same(&c.session)).map(|(&e, _)| e);
        writers.chain(self.readers.iter().filter(|(_, key)| same(key)).map(|(&e, _)| e)).collect()
    }

    /// The write endpoint of a session, if it has one.
    pub(super) fn writer_of(&self, session: SessionKey) -> Option<EndpointId> {
        self.writers.iter().find(|(_, c)| c.session == session).map(|(&e, _)| e)
    }
}

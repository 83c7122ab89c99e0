//! Beat endpoints: who beats on which, and what they are answered.

use sidewire_common::fabric::{EndpointId, EndpointSpec, FabricError, PeerInfo, Port, Role, Verb, WorkId, WorkRequest};
use sidewire_common::id::ClientId;
use sidewire_common::layout::beat::{ANSWER_BYTES, Answer, BEAT_BYTES};
use sidewire_common::limits::{BEAT_DEPTH, MESSAGE_BYTES};
use std::collections::{BTreeMap, HashMap};

/// Unasked answers between two beats of a client. A client that is stopped takes no message, and a queue that ran
/// over would cost it the endpoint.
const UNASKED_MAX: u32 = 4;
/// Work ids of sends are above those of the loopback endpoint's work.
const SEND_IDS: u64 = 1 << 63;
const _: () = assert!(ANSWER_BYTES <= MESSAGE_BYTES && BEAT_BYTES <= MESSAGE_BYTES && UNASKED_MAX < BEAT_DEPTH);

struct End {
    client: ClientId,
    unasked: u32,
}

/// All beat endpoints of the lease thread's port.
#[derive(Default)]
pub(super) struct Beats {
    ends: HashMap<EndpointId, End>,
    // Ordered, since it is walked.
    by_client: BTreeMap<ClientId, EndpointId>,
    sends: u64,
}

impl Beats {
    /// Opens a client's endpoint in place of an earlier one.
    pub(super) fn open(&mut self, port: &mut dyn Port, client: ClientId, peer: &PeerInfo) -> Result<PeerInfo, FabricError> {
        self.close(port, client);
        let opened = port.open(&EndpointSpec { role: Role::Beat, send_depth: BEAT_DEPTH, recv_depth: BEAT_DEPTH })?;
        if let Err(error) = port.connect(opened.endpoint, peer) {
            port.close(opened.endpoint);
            return Err(error);
        }
        self.ends.insert(opened.endpoint, End { client, unasked: 0 });
        self.by_client.insert(client, opened.endpoint);
        Ok(opened.info)
    }

    /// Closes a client's endpoint, if it has one.
    pub(super) fn close(&mut self, port: &mut dyn Port, client: ClientId) {
        if let Some(endpoint) = self.by_client.remove(&client) {
            self.ends.remove(&endpoint);
            port.close(endpoint);
        }
    }

    /// Whose endpoint it is.
    pub(super) fn client_of(&self, endpoint: EndpointId) -> Option<ClientId> {
        self.ends.get(&endpoint).map(|end| end.client)
    }

    /// Answers a beat. Without room the answer is left out: the client beats again.
    pub(super) fn answer(&mut self, port: &mut dyn Port, endpoint: EndpointId, answer: &Answer) {
        if let Some(end) = self.ends.get_mut(&endpoint) {
            end.unasked = 0;
            self.send(port, endpoint, answer);
        }
    }

    /// Tells one client something unasked, unless it was told enough since its last beat.
    pub(super) fn tell(&mut self, port: &mut dyn Port, client: ClientId, answer: &Answer) {
        let Some(endpoint) = self.by_client.get(&client).copied() else { return };
        let Some(end) = self.ends.get_mut(&endpoint) else { return };
        if end.unasked < UNASKED_MAX {
            end.unasked += 1;
            self.send(port, endpoint, answer);
        }
    }

    /// Tells all clients.
    pub(super) fn tell_all(&mut self, port: &mut dyn Port, answer: &Answer) {
        let clients: Vec<ClientId> = self.by_client.keys().copied().collect();
        for client in clients {
            self.tell(port, client, answer);
        }
    }

    fn send(&mut self, port: &mut dyn Port, endpoint: EndpointId, answer: &Answer) {
        let bytes = answer.encode();
        self.sends += 1;
        let id = WorkId(SEND_IDS | self.sends);
        let mut chain = vec![WorkRequest { id, verb: Verb::Send { bytes: &bytes } }];
        if let Err(error) = port.post(endpoint, &mut chain) {
            tracing::debug!(?endpoint, %error, "an answer to a heartbeat was not sent");
        }
    }
}

//! From an immediate to a piece of work: checks, exactly-once, one write of a key at a time.

use super::connection::SessionKey;
use super::exactly_once::Arrival;
use super::poll_loop::Worker;
use super::staging::{Intake, Message, Received};
use crate::metrics::count;
use crate::refusals::Cause;
use crate::shard::{Extent, Unmet};
use sidewire_common::fabric::EndpointId;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::request::{Operation, Request, RequestError, RequestField};
use sidewire_common::memory::View;
use std::rc::Rc;

/// An accepted write.
pub(super) struct Work {
    pub endpoint: EndpointId,
    pub session: SessionKey,
    pub holder: u32,
    pub request: Request,
    pub hash: KeyHash,
    pub key: Vec<u8>,
    pub fence_key: Vec<u8>,
    /// The ring and where the value lies in it.
    pub ring: Option<Rc<View>>,
    pub value_at: usize,
    /// The value, if it came before.
    pub extent: Option<Extent>,
    /// Whether its fencing token was found to be the holder's.
    pub fence_passed: bool,
}

impl Work {
    /// The server's own, which nobody is told of.
    pub(super) fn of_server(hash: KeyHash, key: Vec<u8>) -> Self {
        Self {
            endpoint: EndpointId(u32::MAX),
            session: (sidewire_common::id::ClientId(0), 0),
            holder: 0,
            request: Request::new(Operation::Expire, 1),
            hash,
            key,
            fence_key: Vec::new(),
            ring: None,
            value_at: 0,
            extent: None,
            fence_passed: false,
        }
    }
}

impl Worker {
    pub(super) fn on_written(&mut self, endpoint: EndpointId, imm: u32, bytes: u32) {
        if self.replication.peers.contains_key(&endpoint) {
            return self.entry_arrived(endpoint, imm, bytes);
        }
        let Some(connection) = self.connections.writers.get(&endpoint) else { return };
        match Message::new(&connection.ring, imm, bytes) {
            Ok(mut message) => while self.take_request(endpoint, &mut message) {},
            Err(refused) => self.refused(endpoint, refused),
        }
    }

    /// Takes the next request out of a message and begins it. False when there is none, or no more may be taken: one
    /// that breaks the rules costs the connection, and those before it are carried out.
    fn take_request(&mut self, endpoint: EndpointId, message: &mut Message) -> bool {
        let limit = self.store.request_value_bytes_max();
        let Some(connection) = self.connections.writers.get(&endpoint) else { return false };
        let scratch = &mut self.scratch;
        let Some(taken) = message.next(&connection.ring, limit, &mut scratch.key, &mut scratch.fence_key) else { return false };
        count(&self.metrics.requests);
        match taken {
            Ok(received) => self.accept(endpoint, received),
            Err(refused) => self.refused(endpoint, refused),
        }
        true
    }

    fn refused(&mut self, endpoint: EndpointId, refused: Intake) {
        match refused {
            Intake::Violation(error) => self.violation(endpoint, error.field.into(), &error.to_string()),
            Intake::Refused { sequence, error } => {
                let Some(session) = self.connections.writers.get(&endpoint).map(|connection| connection.session) else { return };
                if self.arrives(endpoint, session, sequence, 0) {
                    self.count_refused(refusal(error));
                    self.answer(endpoint, session, sequence, refusal(error));
                }
            }
        }
    }

    fn accept(&mut self, endpoint: EndpointId, received: Received) {
        let Received { mut request, value_at } = received;
        let Some(session) = self.connections.writers.get(&endpoint).map(|connection| connection.session) else { return };
        if !self.arrives(endpoint, session, request.sequence, request.resolved_below) {
            return;
        }
        match request.operation {
            Operation::Resolve => return self.resolve(endpoint, session, &request),
            Operation::Chunk => return self.fill(endpoint, session, &received),
            _ => {}
        }
        let hash = KeyHash::of(&self.scratch.key, self.store.hash_seed());
        if !self.index.owns(hash) {
            return self.violation(endpoint, Cause::Shard, "a key of another worker's shard");
        }
        let mut extent = None;
        match request.operation {
            Operation::Reserve => return self.reserve(endpoint, session, &request),
            Operation::Commit => {
                let Some(whole) = self.claim(endpoint, session, &request) else { return };
                extent = Some(whole);
                request.operation = Operation::Put;
            }
            _ => {}
        }
        let Some(connection) = self.connections.writers.get(&endpoint) else { return };
        let work = Work {
            endpoint,
            session,
            holder: connection.holder,
            request,
            hash,
            key: std::mem::take(&mut self.scratch.key),
            fence_key: std::mem::take(&mut self.scratch.fence_key),
            ring: Some(Rc::clone(&connection.ring)),
            value_at,
            extent,
            fence_passed: false,
        };
        if let Some(work) = self.deferrals.park_if_busy(work) {
            self.begin(work);
        }
    }

    /// Whether the sequence is to be carried out now. If not, what there is to be said of it is said.
    fn arrives(&mut self, endpoint: EndpointId, session: SessionKey, sequence: u64, resolved_below: u64) -> bool {
        match self.windows.entry(session).or_default().arrive(sequence, resolved_below) {
            Arrival::New => return true,
            Arrival::Again(ack) => self.send_ack(endpoint, ack),
            Arrival::Open => {}
            Arrival::BelowLine => {
                self.send_ack(endpoint, Ack { sequence, outcome: Outcome::Forgotten, detail: 0, figures: [0; 2] });
            }
            Arrival::TooFar => self.violation(endpoint, Cause::Window, "a sequence far above all that is open"),
        }
        false
    }

    fn resolve(&mut self, endpoint: EndpointId, session: SessionKey, request: &Request) {
        let asked = request.argument as u64;
        let window = self.windows.entry(session).or_default();
        let told = window.resolve(asked);
        let unmet = match told {
            Some(ack) => Unmet { outcome: ack.outcome, detail: ack.detail, figures: ack.figures },
            None => Unmet::plain(Outcome::Busy),
        };
        self.answer(endpoint, session, request.sequence, unmet);
    }
}

/// What the ack of a refused field says.
pub(super) fn refusal(error: RequestError) -> Unmet {
    Unmet { outcome: Outcome::Refused, detail: error.field as u8, figures: [error.value, error.limit] }
}

/// The refusal of one field.
pub(super) fn refuse(field: RequestField, value: u64, limit: u64) -> Unmet {
    refusal(RequestError { field, value, limit })
}

//! From an immediate to a piece of work: checks, exactly-once, one write of a key at a time.

use super::connection::SessionKey;
use super::exactly_once::Arrival;
use super::poll_loop::Worker;
use super::staging::{self, Intake, Received};
use crate::metrics::count;
use crate::shard::Unmet;
use sidewire_common::fabric::EndpointId;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::request::{Operation, Request, RequestError, RequestField};
use sidewire_common::limits::value_bytes_max;
use sidewire_common::memory::View;

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
    pub ring: View,
    pub value_at: usize,
    /// Whether its fencing token was found to be the holder's.
    pub fence_passed: bool,
}

impl Worker {
    pub(super) fn on_written(&mut self, endpoint: EndpointId, imm: u32, bytes: u32) {
        let Some(connection) = self.connections.writers.get(&endpoint) else { return };
        let limit = value_bytes_max(self.store.settings().staging_bytes);
        let scratch = &mut self.scratch;
        let received = staging::receive(&connection.ring, imm, bytes, limit, &mut scratch.key, &mut scratch.fence_key);
        count(&self.metrics.requests);
        match received {
            Ok(received) => self.accept(endpoint, received),
            Err(Intake::Violation(error)) => self.violation(endpoint, &error.to_string()),
            Err(Intake::Refused { sequence, error }) => {
                count(&self.metrics.refused);
                let session = connection.session;
                if let Some(window) = self.windows.get_mut(&session)
                    && window.arrive(sequence, 0) == Arrival::New
                {
                    self.answer(endpoint, session, sequence, refusal(error));
                }
            }
        }
    }

    fn accept(&mut self, endpoint: EndpointId, received: Received) {
        let Received { request, value_at } = received;
        let Some(connection) = self.connections.writers.get(&endpoint) else { return };
        let session = connection.session;
        let window = self.windows.entry(session).or_default();
        match window.arrive(request.sequence, request.resolved_below) {
            Arrival::New => {}
            Arrival::Again(ack) => return self.send_ack(endpoint, ack),
            Arrival::Open => return,
            Arrival::BelowLine => {
                let ack = Ack { sequence: request.sequence, outcome: Outcome::Forgotten, detail: 0, figures: [0; 2] };
                return self.send_ack(endpoint, ack);
            }
            Arrival::TooFar => return self.violation(endpoint, "a sequence far above all that is open"),
        }
        if request.operation == Operation::Resolve {
            return self.resolve(endpoint, session, &request);
        }
        let hash = KeyHash::of(&self.scratch.key, self.store.hash_seed());
        if !self.index.owns(hash) {
            return self.violation(endpoint, "a key of another worker's shard");
        }
        let work = Work {
            endpoint,
            session,
            holder: connection.holder,
            request,
            hash,
            key: std::mem::take(&mut self.scratch.key),
            fence_key: std::mem::take(&mut self.scratch.fence_key),
            ring: connection.ring.clone(),
            value_at,
            fence_passed: false,
        };
        if let Some(work) = self.deferrals.park_if_busy(work) {
            self.begin(work);
        }
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

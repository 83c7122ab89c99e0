//! Acks: recorded for exactly-once, gathered per connection, sent several to a message.

use super::connection::SessionKey;
use super::intake::Work;
use super::poll_loop::Worker;
use crate::metrics::count;
use crate::refusals::Cause;
use crate::shard::Unmet;
use sidewire_common::fabric::{EndpointId, PostError, Verb, WorkId, WorkRequest};
use sidewire_common::layout::ack::{self, ACKS_MAX, Ack, MESSAGE_BYTES_MAX, Outcome};
use sidewire_common::layout::request::RequestField;
use sidewire_common::limits::MESSAGE_CREDITS;

/// Answers of one connection that wait to be sent. A client with credits left never has more.
const ACKS_WAITING_MAX: usize = MESSAGE_CREDITS as usize;

impl Worker {
    /// Ends a piece of work: its outcome is recorded and told, its buffers are used again.
    pub(super) fn finish(&mut self, work: Work, outcome: Unmet) {
        if outcome.outcome == Outcome::Refused {
            self.count_refused(outcome);
        }
        if let Some(extent) = work.extent {
            extent.discard(&mut self.heap);
        }
        self.answer(work.endpoint, work.session, work.request.sequence, outcome);
        self.scratch.key = work.key;
        self.scratch.fence_key = work.fence_key;
    }

    /// A field was refused. Nothing to log: the client is told.
    pub(super) fn count_refused(&self, refused: Unmet) {
        count(&self.metrics.refused);
        if let Some(field) = RequestField::from_raw(refused.detail) {
            self.store.refusals().add(field.into(), 1);
        }
    }

    pub(super) fn answer(&mut self, endpoint: EndpointId, session: SessionKey, sequence: u64, outcome: Unmet) {
        let Unmet { outcome, detail, figures } = outcome;
        let ack = Ack { sequence, outcome, detail, figures };
        if let Some(window) = self.windows.get_mut(&session) {
            window.end(ack);
        }
        self.send_ack(endpoint, ack);
    }

    pub(super) fn send_ack(&mut self, endpoint: EndpointId, ack: Ack) {
        // A connection that is gone asks after the outcome on its next one.
        let Some(connection) = self.connections.writers.get_mut(&endpoint) else { return };
        if connection.acks.is_empty() {
            self.acks_due.push_back(endpoint);
        }
        connection.acks.push(ack);
        if connection.acks.len() > ACKS_WAITING_MAX {
            self.violation(endpoint, Cause::Credits, "more requests than credits: their answers are not taken");
        }
    }

    /// Sends what there is room for; the rest waits for the next turn.
    pub(super) fn send_acks(&mut self) {
        for _ in 0..self.acks_due.len() {
            let Some(endpoint) = self.acks_due.pop_front() else { return };
            match self.send_acks_of(endpoint) {
                Ok(true) => {}
                Ok(false) => self.acks_due.push_back(endpoint),
                Err(error) => {
                    tracing::debug!(worker = self.number, %error, "acks cannot be sent");
                    self.disconnect(endpoint);
                }
            }
        }
    }

    /// True when all acks of the endpoint are on their way.
    fn send_acks_of(&mut self, endpoint: EndpointId) -> Result<bool, PostError> {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        loop {
            let id = WorkId(self.next_work());
            let clients = self.connections.writers.get_mut(&endpoint).map(|connection| &mut connection.acks);
            let servers = self.replication.peers.get_mut(&endpoint).map(|peer| &mut peer.acks);
            let Some(acks) = clients.or(servers).filter(|acks| !acks.is_empty()) else { return Ok(true) };
            let now = acks.len().min(ACKS_MAX);
            let length = ack::encode(&acks[..now], &mut bytes);
            let mut chain = vec![WorkRequest { id, verb: Verb::Send { bytes: &bytes[..length] } }];
            match self.port.post(endpoint, &mut chain) {
                Ok(()) => drop(acks.drain(..now)),
                Err(PostError::Full { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

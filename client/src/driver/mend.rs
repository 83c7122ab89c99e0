//! Endpoints that break: closed, opened again, and what they had in flight begun anew.

use super::Driver;
use super::link::{Wanted, open_endpoint, open_reader};
use crate::control::{ControlError, Failure};
use crate::in_flight::Purpose;
use crate::op::Input;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{EndpointSpec, Role};
use sidewire_proto::v1;

impl Driver {
    /// The read endpoint has failed: its work comes back as flushed, and is begun anew on the next one.
    pub(super) fn break_reader(&mut self) {
        let Some(endpoint) = self.reader.broke() else { return };
        self.port.close(endpoint);
        self.room = 0;
        self.take_chain_back();
        self.server.shared.suspect();
    }

    /// Opens the read endpoint again, when it is time.
    #[cold]
    pub(super) fn mend_reader(&mut self) {
        if !self.reader.is_due(BootInstant::now()) {
            return;
        }
        let Some(limit) = self.may_block() else { return };
        match open_reader(&mut *self.port, &self.server.shared, &self.attached, self.session, limit) {
            Ok(endpoint) => {
                self.reader.opened(endpoint);
                self.room = self.port.room(endpoint);
            }
            Err(error) => {
                tracing::debug!(reason = error.reason, "the read endpoint could not be opened again");
                self.suspect(&error);
                self.reader.not_opened(error);
            }
        }
    }

    /// Operations that waited for the read endpoint, or for the lease, begin anew.
    pub(super) fn restart_if_possible(&mut self) {
        if self.reader.is_closed() || !self.attached.lease.valid_at(BootInstant::now()) {
            return;
        }
        for name in std::mem::take(&mut self.restarts) {
            if let Some(op) = self.ops.find(name) {
                op.restart = false;
                let input = match op.wander.as_mut().and_then(|wander| wander.held_ack.take()) {
                    Some(ack) => {
                        op.request = None;
                        Input::Ack(ack)
                    }
                    None => Input::Restart,
                };
                self.events.push_back((name, input));
            }
        }
    }

    /// A write endpoint has failed; what is open on it will be resolved on the next one.
    pub(super) fn break_writer(&mut self, worker: usize) {
        let slot = &mut self.writers[worker];
        let Some(endpoint) = slot.lane.broke() else { return };
        slot.staging = None;
        slot.broken = true;
        self.port.close(endpoint);
        self.server.shared.suspect();
    }

    /// Whether the write endpoint can be used; opens it if it is time.
    pub(super) fn mend_writer(&mut self, worker: usize) -> bool {
        if !self.writers[worker].lane.is_closed() {
            return true;
        }
        if !self.writers[worker].lane.is_due(BootInstant::now()) || self.has_posted_requests(worker) {
            return false;
        }
        let Some(limit) = self.may_block() else { return false };
        let credits = self.attached.terms.credits;
        // A work request may end after its request was answered, so there can be more of them than credits.
        let spec = EndpointSpec { role: Role::Writer, send_depth: 2 * credits, recv_depth: credits };
        let wanted = Wanted { session: self.session, role: v1::open_endpoint_request::Role::Writer, worker: worker as u32 };
        let opened = open_endpoint(&mut *self.port, &self.server.shared, &self.attached, &spec, wanted, limit);
        let wanted_bytes = self.attached.terms.staging_bytes as u64;
        let slot = &mut self.writers[worker];
        match opened {
            Ok((endpoint, Some(staging))) if staging.bytes >= wanted_bytes => {
                slot.lane.opened(endpoint);
                slot.staging = Some(staging);
                if std::mem::take(&mut slot.broken) {
                    self.resolve_open(worker);
                }
                !self.writers[worker].lane.is_closed()
            }
            Ok((endpoint, _)) => {
                tracing::warn!(worker, "the server told a staging ring that is shorter than agreed, or none");
                self.port.close(endpoint);
                slot.lane.put_off();
                false
            }
            Err(error) => {
                tracing::debug!(reason = error.reason, worker, "a write endpoint could not be opened");
                self.suspect(&error);
                self.writers[worker].lane.not_opened(error);
                false
            }
        }
    }

    /// The server could not be reached, or has said that it does not know this client any more.
    fn suspect(&self, error: &ControlError) {
        match error.failure {
            Failure::Lapsed => self.server.shared.lapsed(self.life),
            Failure::Unreachable | Failure::Refused => self.server.shared.suspect(),
        }
    }

    /// Whether work of a closed write endpoint has still to come back.
    fn has_posted_requests(&mut self, worker: usize) -> bool {
        let of = worker as u32;
        self.posted.keys().into_iter().any(|name| {
            let posted = self.posted.find(name).and_then(|p| p.as_ref());
            posted
                .is_some_and(|p| matches!(p.purpose, Purpose::Request { worker, .. } | Purpose::Pack { worker } if worker == of))
        })
    }

    /// Write endpoints with open writes are opened again even if nothing new is to be sent.
    pub(super) fn mend_writers(&mut self) {
        for worker in 0..self.writers.len() {
            if self.writers[worker].broken && self.writers[worker].books.open_count() > 0 {
                self.mend_writer(worker);
            }
        }
        self.ask_again();
    }
}

//! Endpoints come and go.

use super::connection::{Connection, SessionKey};
use super::poll_loop::{LOOPBACK_DEPTH, Worker};
use super::{OpenError, OpenedEndpoint};
use crate::metrics::{change, count};
use crate::refusals::Cause;
use crossbeam::channel::Sender;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{EndpointId, EndpointSpec, PeerInfo, Role};
use sidewire_common::id::ClientId;
use sidewire_common::limits::MESSAGE_CREDITS;
use sidewire_common::memory::View;
use std::time::Duration;

/// Pause before a loopback endpoint that could not be opened is tried again.
const LOOPBACK_PAUSE: Duration = Duration::from_millis(100);

impl Worker {
    pub(super) fn open_writer(&mut self, session: SessionKey, holder: u32, peer: &PeerInfo) -> Result<OpenedEndpoint, OpenError> {
        // A session that comes again has lost its old connection, whatever the fabric knows of it.
        if let Some(old) = self.connections.writer_of(session) {
            self.disconnect(old);
        }
        let (endpoint, ring, opened) = self.open_ring(peer)?;
        self.connections.writers.insert(endpoint, Connection { session, holder, ring: ring.into(), acks: Vec::new() });
        self.windows.entry(session).or_default();
        change(&self.metrics.connections, 1);
        Ok(opened)
    }

    /// Opens an endpoint with a staging ring of its own, for a client or for another server's worker.
    pub(super) fn open_ring(&mut self, peer: &PeerInfo) -> Result<(EndpointId, View, OpenedEndpoint), OpenError> {
        let role = Role::WriteTarget { staging_bytes: self.store.settings().staging_bytes };
        let spec = EndpointSpec { role, send_depth: MESSAGE_CREDITS, recv_depth: MESSAGE_CREDITS };
        let opened = self.open_and_connect(&spec, peer)?;
        let staging = opened.staging.expect("a write target has a staging ring");
        let told = OpenedEndpoint { peer: opened.info, staging: Some(staging.remote) };
        Ok((opened.endpoint, staging.view, told))
    }

    pub(super) fn open_reader(&mut self, session: SessionKey, peer: &PeerInfo) -> Result<OpenedEndpoint, OpenError> {
        let old = self.connections.readers.iter().find(|(_, key)| **key == session).map(|(&endpoint, _)| endpoint);
        if let Some(old) = old {
            self.disconnect(old);
        }
        let spec = EndpointSpec { role: Role::ReadTarget, send_depth: 1, recv_depth: 0 };
        let opened = self.open_and_connect(&spec, peer)?;
        self.connections.readers.insert(opened.endpoint, session);
        Ok(OpenedEndpoint { peer: opened.info, staging: None })
    }

    fn open_and_connect(&mut self, spec: &EndpointSpec, peer: &PeerInfo) -> Result<sidewire_common::fabric::Opened, OpenError> {
        if self.stopping {
            return Err(OpenError::Stopping);
        }
        let opened = self.port.open(spec)?;
        if let Err(error) = self.port.connect(opened.endpoint, peer) {
            self.port.close(opened.endpoint);
            return Err(error.into());
        }
        Ok(opened)
    }

    /// Ends an endpoint. What it had accepted is finished; its outcome stays in the session's window.
    pub(super) fn disconnect(&mut self, endpoint: EndpointId) {
        self.port.close(endpoint);
        self.replication.peers.remove(&endpoint);
        self.connections.readers.remove(&endpoint);
        self.drop_reservations(endpoint);
        if self.connections.writers.remove(&endpoint).is_some() {
            change(&self.metrics.connections, -1);
        }
    }

    /// A peer did what no honest client does: it loses the connection, and nothing else changes.
    pub(super) fn violation(&mut self, endpoint: EndpointId, cause: Cause, what: &str) {
        count(&self.metrics.refused);
        if let Some(left_out) = self.store.refusals().count(cause) {
            let client = self.connections.writers.get(&endpoint).map(|c| c.session.0);
            let cause = cause.name();
            tracing::warn!(
                worker = self.number,
                ?client,
                cause,
                what,
                left_out,
                "client violated the protocol and loses its connection"
            );
        }
        self.disconnect(endpoint);
    }

    /// The fabric gave an endpoint up; if that was the peer's doing, it counts as a refusal.
    pub(super) fn broken(&mut self, endpoint: EndpointId) {
        let offences = self.port.offences();
        self.store.refusals().add(Cause::Fabric, offences - std::mem::replace(&mut self.offences, offences));
        self.disconnect(endpoint);
    }

    pub(super) fn close_session(&mut self, client: ClientId, session: u32) {
        for endpoint in self.connections.of(client, Some(session)) {
            self.disconnect(endpoint);
        }
        self.windows.remove(&(client, session));
    }

    pub(super) fn expel(&mut self, client: ClientId, reply: Sender<()>) {
        for endpoint in self.connections.of(client, None) {
            self.disconnect(endpoint);
        }
        self.windows.retain(|(of, _), _| *of != client);
        self.expelling.push((client, reply));
    }

    /// Tells the control side of clients of whom nothing is left.
    pub(super) fn tell_expelled(&mut self) {
        if self.expelling.is_empty() {
            return;
        }
        let (deferrals, replication) = (&self.deferrals, &self.replication);
        self.expelling.retain(|(client, reply)| {
            let over = !deferrals.any_of(*client) && !replication.any_of(*client);
            if over {
                let _ = reply.try_send(());
            }
            !over
        });
    }

    /// The executor of atomics failed under us: a new endpoint to it is opened before the next operation on a cell.
    pub(super) fn loopback_broke(&mut self) {
        let Some(endpoint) = self.loopback.take() else { return };
        tracing::error!(worker = self.number, "the loopback endpoint broke");
        self.port.close(endpoint);
    }

    /// The endpoint to the executor of atomics, opened again if it is time: the device may have been without address or
    /// link when it was last tried.
    pub(super) fn loopback(&mut self) -> Option<EndpointId> {
        if self.loopback.is_none() && BootInstant::now() >= self.loopback_at {
            match self.port.loopback(LOOPBACK_DEPTH) {
                Ok(endpoint) => {
                    tracing::info!(worker = self.number, "the loopback endpoint is there again");
                    self.loopback = Some(endpoint);
                }
                Err(error) => {
                    tracing::error!(%error, "no loopback endpoint; operations on cells are answered busy until there is one");
                    self.loopback_at = BootInstant::now().plus(LOOPBACK_PAUSE);
                }
            }
        }
        self.loopback
    }
}

//! One server of a client: its attachment, and the heartbeat that keeps it.

use crate::control::ControlError;
use crate::error::Error;
use crate::heartbeat::{self, Heartbeat};
use crate::shared::Shared;
use crossbeam::channel::{Receiver, bounded};
use parking_lot::Mutex;
use sidewire_common::clock::BootInstant;
use sidewire_common::host;
use sidewire_proto::v1;
use std::sync::Arc;
use std::time::Duration;

/// A server, for as long as a session or the client may need it.
#[derive(Debug)]
pub(crate) struct Server {
    pub shared: Arc<Shared>,
    heartbeat: Mutex<Option<Heartbeat>>,
}

/// A farewell that was said and is not answered yet.
struct Farewell<'a> {
    server: &'a Server,
    heartbeat: Heartbeat,
    answer: Option<Receiver<Result<(), ControlError>>>,
}

impl Server {
    /// Starts the heartbeat of an attachment and waits until it is connected; of a server that is not attached yet it
    /// attaches in the background.
    ///
    /// # Errors
    /// When the heartbeat cannot be connected within `limit`.
    pub fn begin(shared: Arc<Shared>, limit: Duration) -> Result<Arc<Self>, Error> {
        let server = Arc::new(Self { shared: Arc::clone(&shared), heartbeat: Mutex::new(None) });
        let heartbeat = heartbeat::start(shared, limit)?;
        *server.heartbeat.lock() = Some(heartbeat);
        Ok(server)
    }

    /// Says farewell, once. From here on nothing is attached anew.
    fn farewell(&self) -> Option<Farewell<'_>> {
        let heartbeat = self.heartbeat.lock().take()?;
        self.shared.stop();
        let attached = self.shared.attached().filter(|attached| !attached.has_ended());
        let answer = attached.map(|attached| {
            let (client_id, incarnation) = (attached.terms.client.to_bytes().to_vec(), attached.terms.incarnation.0);
            let (told, answer) = bounded(1);
            let told = move |result| {
                // Whoever said farewell may wait no more.
                let _ = told.send(result);
            };
            self.shared.control.detach(v1::DetachRequest { client_id, incarnation }, told);
            answer
        });
        Some(Farewell { server: self, heartbeat, answer })
    }

    /// The server is no member of the cluster any more: what was attached there has ended. Waits for nothing.
    pub fn leave(&self) {
        let reason = "it is no member of the cluster any more";
        self.shared.stop();
        self.shared.ended(reason);
        self.shared.wake_heartbeat();
    }
}

/// Ends the heartbeats of `servers` and detaches from all of them side by side, within `limit`.
///
/// # Errors
/// Of the last server that did not answer.
pub(crate) fn end_all(servers: &[Arc<Server>], limit: Duration) -> Result<(), Error> {
    let started = BootInstant::now();
    let left = || limit.saturating_sub(BootInstant::now().since(started));
    let farewells: Vec<_> = servers.iter().filter_map(|server| server.farewell()).collect();
    let mut result = Ok(());
    for farewell in &farewells {
        let shared = &farewell.server.shared;
        // Before the heartbeat's endpoint goes: the server takes a farewell for what it is.
        if let Some(answer) = &farewell.answer {
            match host::receive_within(answer, left()) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error.into_error(shared.server())),
                Err(_) => {
                    let reason = format!("no answer within {limit:?}");
                    result = Err(Error::ServerGone { server: shared.server().into(), reason });
                }
            }
        }
        shared.ended("the client has detached");
        shared.wake_heartbeat();
    }
    for farewell in farewells {
        farewell.heartbeat.end(left());
    }
    result
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(farewell) = self.farewell() {
            let shared = &farewell.server.shared;
            shared.ended("the client has detached");
            shared.wake_heartbeat();
        }
    }
}

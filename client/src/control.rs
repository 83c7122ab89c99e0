//! The control plane: gRPC calls that block the calling thread, each with a deadline.
//!
//! The calls run on a small runtime of their own, so that they can be made from any thread, one of another runtime
//! included.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `plane` | the runtime of a client, and the way from it to each server |
//! | `cluster` | the calls that are about the cluster's map |

mod cluster;
mod plane;

pub(crate) use plane::{Background, Plane};

use crate::address::Address;
use crate::error::Error;
use sidewire_proto::v1::admin_client::AdminClient;
use sidewire_proto::v1::session_client::SessionClient;
use sidewire_proto::{ERROR_CODE, v1};
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

/// Longest time for one call that has no deadline of its own.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(5);
/// Largest reply that is taken, bytes: lists of regions and batches of a scan.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// What a failed call means for the attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Nobody answered, or the server is stopping: it may be back soon.
    Unreachable,
    /// The server does not know this client (any more), or it is another life of the server.
    Lapsed,
    /// It was understood and refused.
    Refused,
}

/// A failed call.
#[derive(Clone, Debug)]
pub(crate) struct ControlError {
    pub failure: Failure,
    pub reason: String,
}

impl ControlError {
    /// As callers of the library see it.
    pub fn into_error(self, server: &str) -> Error {
        let (server, reason) = (server.to_owned(), self.reason);
        match self.failure {
            Failure::Unreachable => Error::ServerGone { server, reason },
            Failure::Lapsed => Error::LeaseLapsed,
            Failure::Refused => Error::Control { server, reason },
        }
    }
}

impl From<Status> for ControlError {
    fn from(status: Status) -> Self {
        let code = status.metadata().get(ERROR_CODE).and_then(|c| c.to_str().ok());
        let failure = match code {
            Some("unknown-client" | "incarnation") => Failure::Lapsed,
            Some("stopping" | "no-lease") => Failure::Unreachable,
            Some(_) => Failure::Refused,
            None => match status.code() {
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => Failure::Unreachable,
                _ => Failure::Refused,
            },
        };
        Self { failure, reason: reason_of(&status) }
    }
}

/// The message, with the innermost cause of a transport error, which alone says what happened.
fn reason_of(status: &Status) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(status);
    let mut innermost = None;
    while let Some(error) = cause {
        innermost = Some(error.to_string());
        cause = error.source();
    }
    match innermost {
        Some(innermost) if !status.message().contains(&innermost) => format!("{}: {innermost}", status.message()),
        _ => status.message().to_owned(),
    }
}

/// One server's control plane. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Control {
    address: Address,
    channel: Channel,
    runtime: Arc<Background>,
    /// The way to a server of a simulated world, in the place of gRPC.
    #[cfg(feature = "sim")]
    direct: Option<Arc<dyn crate::sim::Direct>>,
}

/// What a call ends with that had this long. In whole milliseconds: it may have been a little less than the caller gave.
fn unanswered(limit: Duration) -> Status {
    let limit = Duration::from_millis(limit.as_micros().div_ceil(1000) as u64);
    Status::deadline_exceeded(format!("no answer within {limit:?}"))
}

impl Control {
    /// The server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The same in one word.
    pub fn name(&self) -> &str {
        self.address.as_str()
    }

    /// The runtime, for work that goes on in the background.
    pub fn runtime(&self) -> &Arc<Background> {
        &self.runtime
    }

    /// The session service.
    fn session(&self) -> SessionClient<Channel> {
        SessionClient::new(self.channel.clone()).max_decoding_message_size(REPLY_BYTES_MAX)
    }

    /// The administration service.
    pub fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel.clone()).max_decoding_message_size(REPLY_BYTES_MAX)
    }

    /// Runs a call to its end or its deadline.
    pub fn call<T: Send + 'static>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<Response<T>, Status>> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.wait(limit, async move { call.await.map(Response::into_inner) })
    }

    fn wait<T: Send + 'static>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, ControlError> {
        let (told, answer) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            let result = match tokio::time::timeout(limit, call).await {
                Ok(result) => result,
                Err(_) => Err(unanswered(limit)),
            };
            // The caller always waits; it is gone only if its thread has died.
            let _ = told.send(result);
        });
        match answer.recv() {
            Ok(result) => result.map_err(ControlError::from),
            Err(_) => Err(ControlError { failure: Failure::Unreachable, reason: "the control plane's runtime has ended".into() }),
        }
    }

    /// Runs a call to its end or its deadline without waiting for it: `told` is called with the answer, on another
    /// thread.
    fn ask<T: Send + 'static>(
        &self,
        limit: Duration,
        told: impl FnOnce(Result<T, ControlError>) + Send + 'static,
        call: impl Future<Output = Result<Response<T>, Status>> + Send + 'static,
    ) {
        self.runtime.spawn(async move {
            told(match tokio::time::timeout(limit, call).await {
                Ok(answer) => answer.map(Response::into_inner).map_err(ControlError::from),
                Err(_) => Err(unanswered(limit).into()),
            });
        });
    }

    /// As `ask`, in a simulated world.
    #[cfg(feature = "sim")]
    fn ask_direct<T: 'static>(
        &self,
        direct: &Arc<dyn crate::sim::Direct>,
        told: impl FnOnce(Result<T, ControlError>) + Send + 'static,
        call: impl FnOnce(&dyn crate::sim::Direct, &str) -> Result<T, Status> + Send + 'static,
    ) {
        let (direct, address) = (Arc::clone(direct), self.address.clone());
        let ask = move || told(call(&*direct, address.as_str()).map_err(ControlError::from));
        drop(sidewire_common::host::spawn("ask", ask));
    }

    /// Attach.
    pub fn attach(&self, limit: Duration, request: v1::AttachRequest) -> Result<v1::AttachReply, ControlError> {
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return Ok(direct.attach(self.name(), limit.min(CALL_LIMIT), request)?);
        }
        let mut client = self.session();
        self.call(limit, async move { client.attach(request).await })
    }

    /// Open one endpoint.
    pub fn open_endpoint(
        &self,
        limit: Duration,
        request: v1::OpenEndpointRequest,
    ) -> Result<v1::OpenEndpointReply, ControlError> {
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return Ok(direct.open_endpoint(self.name(), limit.min(CALL_LIMIT), request)?);
        }
        let mut client = self.session();
        self.call(limit, async move { client.open_endpoint(request).await })
    }

    /// The regions as they are now, without waiting: `told` is called with the answer, on another thread.
    pub fn regions(
        &self,
        request: v1::RegionsRequest,
        told: impl FnOnce(Result<v1::RegionsReply, ControlError>) + Send + 'static,
    ) {
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return self.ask_direct(direct, told, |direct, server| direct.regions(server, CALL_LIMIT, request));
        }
        let mut client = self.session();
        self.ask(CALL_LIMIT, told, async move { client.regions(request).await });
    }

    /// Ends one session, without waiting for the answer.
    pub fn close_session(&self, request: v1::CloseSessionRequest) {
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return self.ask_direct(direct, drop, |direct, server| direct.close_session(server, CALL_LIMIT, request));
        }
        let mut client = self.session();
        self.ask(CALL_LIMIT, drop, async move { client.close_session(request).await });
    }

    /// Ends the client, without waiting: `told` is called with the answer, on another thread.
    pub fn detach(&self, request: v1::DetachRequest, told: impl FnOnce(Result<(), ControlError>) + Send + 'static) {
        let told = move |reply: Result<v1::DetachReply, ControlError>| told(reply.map(|_| ()));
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return self.ask_direct(direct, told, |direct, server| direct.detach(server, CALL_LIMIT, request));
        }
        let mut client = self.session();
        self.ask(CALL_LIMIT, told, async move { client.detach(request).await });
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("server", &self.address.as_str()).finish()
    }
}

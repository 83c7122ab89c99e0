//! Clients of a simulated world: all of the library but its gRPC.

use crate::attach::{self, Wishes};
use crate::client::{Client, ClientBuilder};
use crate::control::Control;
use crate::error::Error;
use crate::shared::Shared;
use sidewire_common::clock::BootInstant;
use sidewire_proto::v1;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// The session service of a simulated server. Each call waits for at most `limit` on the clock of the world.
#[allow(clippy::missing_errors_doc, reason = "as the calls of the service, or Unavailable, or DeadlineExceeded")]
pub trait Direct: Send + Sync {
    /// Attach.
    fn attach(&self, limit: Duration, request: v1::AttachRequest) -> Result<v1::AttachReply, Status>;
    /// Open one endpoint.
    fn open_endpoint(&self, limit: Duration, request: v1::OpenEndpointRequest) -> Result<v1::OpenEndpointReply, Status>;
    /// The regions as they are now.
    fn regions(&self, limit: Duration, request: v1::RegionsRequest) -> Result<v1::RegionsReply, Status>;
    /// End a session.
    fn close_session(&self, limit: Duration, request: v1::CloseSessionRequest) -> Result<v1::CloseSessionReply, Status>;
    /// End the client.
    fn detach(&self, limit: Duration, request: v1::DetachRequest) -> Result<v1::DetachReply, Status>;
}

impl ClientBuilder {
    /// Attaches to a server of a simulated world.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub fn connect_simulated(self, direct: Arc<dyn Direct>) -> Result<Client, Error> {
        let control = Control::simulated(direct)?;
        let wishes =
            Wishes { fabric: None, device: None, program: "sim".into(), location_cache_entries: self.location_cache_entries };
        let started = BootInstant::now();
        let attached = Arc::new(attach::attach(&control, &wishes, self.deadline)?);
        let shared = Arc::new(Shared::new(control, wishes, self.deadline, self.spin, attached));
        Client::begin(shared, self.deadline.saturating_sub(BootInstant::now().since(started)))
    }
}

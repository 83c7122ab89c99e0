//! Clients of a simulated world: all of the library but its gRPC.

use crate::client::{Client, ClientBuilder};
use crate::control::Plane;
use crate::error::Error;
use sidewire_proto::v1;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// The services of the servers of a simulated world, by their addresses. Each call waits for at most `limit` on the
/// clock of the world.
#[allow(clippy::missing_errors_doc, reason = "as the calls of the services, or Unavailable, or DeadlineExceeded")]
pub trait Direct: Send + Sync {
    /// Attach.
    fn attach(&self, server: &str, limit: Duration, request: v1::AttachRequest) -> Result<v1::AttachReply, Status>;
    /// Open one endpoint.
    fn open_endpoint(
        &self,
        server: &str,
        limit: Duration,
        request: v1::OpenEndpointRequest,
    ) -> Result<v1::OpenEndpointReply, Status>;
    /// The regions as they are now.
    fn regions(&self, server: &str, limit: Duration, request: v1::RegionsRequest) -> Result<v1::RegionsReply, Status>;
    /// End a session.
    fn close_session(
        &self,
        server: &str,
        limit: Duration,
        request: v1::CloseSessionRequest,
    ) -> Result<v1::CloseSessionReply, Status>;
    /// End the client.
    fn detach(&self, server: &str, limit: Duration, request: v1::DetachRequest) -> Result<v1::DetachReply, Status>;
    /// The cluster's map; `FailedPrecondition` of a server that runs alone.
    fn map(&self, server: &str, limit: Duration) -> Result<v1::ClusterMap, Status>;
    /// What became of a write that was sent to a primary that is gone.
    fn resolve(&self, server: &str, limit: Duration, request: v1::ResolveRequest) -> Result<v1::ResolveReply, Status>;
}

impl ClientBuilder {
    /// Attaches to the servers of a simulated world.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub fn connect_simulated(self, direct: Arc<dyn Direct>) -> Result<Client, Error> {
        self.connect_over(Plane::simulated(direct)?)
    }
}

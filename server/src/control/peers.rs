//! Calls from this server's control plane to another's.

use crate::cluster::Peers;
use sidewire_proto::v1::cluster_client::ClusterClient;
use sidewire_proto::v1::{OpenReplicaReply, OpenReplicaRequest};
use std::future::Future;
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::transport::Endpoint;

/// Calls over gRPC, from threads that are nobody's runtime's.
pub struct GrpcPeers {
    runtime: Handle,
}

impl GrpcPeers {
    /// Calls that run on `runtime`.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self { runtime }
    }
}

impl Peers for GrpcPeers {
    fn open_replica(&self, address: &str, limit: Duration, request: OpenReplicaRequest) -> Result<OpenReplicaReply, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
        let call = async {
            let channel = endpoint.connect_timeout(limit).connect().await.map_err(|error| error.to_string())?;
            let opened = ClusterClient::new(channel).open_replica(request).await;
            opened.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
        };
        self.runtime.block_on(within(limit, call))
    }
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
}

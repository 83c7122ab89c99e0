//! The control plane over gRPC: the only place that knows tonic.
//!
//! Every field of every message is hostile until it has become one of our types; every wait has a bound; what a
//! client asks for costs at most itself.

mod admin;
mod ask;
mod attach;
mod cluster;
mod endpoints;
mod incoming;
pub mod peers;
mod refusal;
mod replica;
mod report;
mod scan;
mod session;

use crate::cluster::View;
use crate::lease::table::{Client, Table};
use crate::lease::{Leases, Shared};
use crate::store::Store;
use crate::worker::Workers;
pub use cluster::ClusterService;
use incoming::Incoming;
use parking_lot::MutexGuard;
use refusal::Refusal;
pub use session::SessionService;
use sidewire_common::id::ClientId;
use sidewire_proto::v1::admin_server::AdminServer;
use sidewire_proto::v1::cluster_server::ClusterServer;
use sidewire_proto::v1::session_server::SessionServer;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Longest request message, bytes; the longest is a scan's prefix.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Longest list of headers of a request, bytes.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Requests that one connection may have open.
const STREAMS_PER_CONNECTION: u32 = 64;
/// Time for a request to be answered; it exceeds every bound within.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence after which a connection is probed, and time for the probe.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Connections per client that may attach, and some for people's tools.
const CONNECTIONS_PER_CLIENT: usize = 2;
const CONNECTIONS_EXTRA: usize = 64;
/// Scans at a time: each keeps workers busy.
const SCANS_MAX: usize = 8;
const _: () = assert!(sidewire_common::limits::KEY_BYTES_MAX * 2 <= REQUEST_BYTES_MAX);
const _: () = assert!(ask::ANSWER_LIMIT.as_secs() * 2 <= REQUEST_TIMEOUT.as_secs());

/// What all requests are answered from.
pub struct Core {
    /// The store.
    pub store: Arc<Store>,
    /// Its workers.
    pub workers: Arc<Workers>,
    /// The lease thread.
    pub leases: Arc<Leases>,
    /// Its place in a cluster.
    pub cluster: Option<Arc<View>>,
    /// Why this fabric was chosen.
    pub fabric_reason: String,
    /// Bytes of all staging rings together.
    pub staging_total_bytes: u64,
    /// When the server began to serve.
    pub started: Instant,
}

impl Core {
    fn shared(&self) -> &Shared {
        self.leases.shared()
    }

    /// Counts a refusal, and makes an answer of what there is.
    fn answer<T>(&self, result: Result<T, Refusal>) -> Result<tonic::Response<T>, tonic::Status> {
        if let Some(cause) = result.as_ref().err().and_then(Refusal::cause) {
            self.store.refusals().add(cause, 1);
        }
        Ok(tonic::Response::new(result?))
    }

    /// The clients of this very life of the server. Held for moments only.
    fn clients_of(&self, incarnation: u64) -> Result<MutexGuard<'_, Table>, Refusal> {
        let ours = self.store.incarnation().0;
        if incarnation == ours { Ok(self.shared().table.lock()) } else { Err(Refusal::Incarnation { given: incarnation, ours }) }
    }

    /// Runs `with` on the record of a client that is attached to this very life of the server.
    fn with_live<T>(&self, client: ClientId, incarnation: u64, with: impl FnOnce(&mut Client) -> T) -> Result<T, Refusal> {
        self.clients_of(incarnation)?.live(client).map(with).ok_or(Refusal::UnknownClient(client))
    }
}

/// Serves until `stop` is done and open requests have been answered.
///
/// # Errors
/// When the transport fails as a whole.
pub async fn serve(
    core: Arc<Core>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let connections = core.store.settings().clients_max as usize * CONNECTIONS_PER_CLIENT + CONNECTIONS_EXTRA;
    let session = SessionServer::new(SessionService::new(Arc::clone(&core))).max_decoding_message_size(REQUEST_BYTES_MAX);
    let cluster =
        ClusterServer::new(cluster::ClusterService::new(Arc::clone(&core))).max_decoding_message_size(REQUEST_BYTES_MAX);
    let admin = AdminServer::new(admin::AdminService::new(core, Arc::new(Semaphore::new(SCANS_MAX))))
        .max_decoding_message_size(REQUEST_BYTES_MAX);
    tonic::transport::Server::builder()
        .timeout(REQUEST_TIMEOUT)
        .concurrency_limit_per_connection(STREAMS_PER_CONNECTION as usize)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(session)
        .add_service(admin)
        .add_service(cluster)
        .serve_with_incoming_shutdown(Incoming::new(listener, connections), stop)
        .await
}

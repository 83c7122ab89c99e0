//! Servers of a simulated cluster, and how they and their clients reach each other.

use crate::etcd::Etcd;
use kv_server::boot;
use kv_server::boot::seat::Seat;
use kv_server::cluster::Peers;
use kv_server::cluster::thread::Profile;
use kv_server::control::{ClusterService, Core, SessionService};
use kv_server::store::Settings;
use kv_server::worker::Pinning;
use parking_lot::Mutex;
use sidewire::sim::Direct;
use sidewire::v1;
use sidewire_common::cluster::Member;
use sidewire_common::fabric::sim::{ProcessId, World, end_quiet, within};
use sidewire_common::host;
use sidewire_common::memory::HugepageMode;
use sidewire_proto::v1::cluster_server::Cluster as _;
use sidewire_proto::v1::session_server::Session as _;
use sidewire_tests::schedules::ready;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonic::{Request, Response, Status};

/// The lease of all schedules, the shortest that there is.
pub const LEASE: Duration = Duration::from_millis(300);
/// One answer of the control plane in so many is lost.
const LOST_ONE_IN: u32 = 80;
const FOR_EVER: Duration = Duration::from_secs(3600);
/// What clients are told.
pub const ADDRESS: &str = "10.0.0.1:7400,10.0.0.2:7400,10.0.0.3:7400";

/// What operators call a node.
pub fn node_name(node: usize) -> String {
    format!("n{node}")
}

/// A server's address.
pub fn address(node: usize) -> String {
    format!("10.0.0.{}:7400", node + 1)
}

#[derive(Clone)]
struct Up {
    process: ProcessId,
    core: Arc<Core>,
    cluster: Arc<ClusterService>,
}

/// Everybody who serves, by address.
#[derive(Clone, Default)]
pub struct Line {
    up: Arc<Mutex<BTreeMap<String, Up>>>,
    /// Times that clients asked for the map.
    map_calls: Arc<AtomicU64>,
    pub etcd: Etcd,
}

/// What differs from schedule to schedule.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub servers: usize,
    pub replicas: u32,
    pub workers: u32,
}

fn settings(workers: u32) -> Settings {
    Settings {
        memory_bytes: 32 << 20,
        chunk_bytes: Some(8 << 20),
        staging_bytes: 64 << 10,
        values: kv_server::value_limits::ValueLimits::default(),
        worker_count: workers,
        hugepages: HugepageMode::Off,
        cell_count: 256,
        lease: LEASE,
        spin: Duration::ZERO,
        pin: Pinning::Off,
        clients_max: 1024,
        hash_seed: None,
    }
}

struct Ways(Line);

impl Peers for Ways {
    fn open_replica(
        &self,
        address: &str,
        limit: Duration,
        request: v1::OpenReplicaRequest,
    ) -> Result<v1::OpenReplicaReply, String> {
        self.0.cluster(address, limit, |service| ready(service.open_replica(Request::new(request)))).map_err(|e| e.to_string())
    }
}

impl Line {
    /// Starts a node's next life; it is reachable when it serves.
    pub fn start_server(&self, world: &World, shape: Shape, node: usize) -> ProcessId {
        let process = world.process(&format!("server {node}"));
        let fabric = world.fabric(process);
        let line = self.clone();
        world.set_quiet(process, true);
        world.spawn(process, "boot", move || {
            let member =
                Member { name: node_name(node), address: address(node), incarnation: None, weight: 100, draining: false };
            let profile = Profile { member, lease: LEASE };
            let way = line.etcd.way(node);
            let running = loop {
                let peers = Arc::new(Ways(line.clone()));
                let seat = Seat::in_store(Arc::clone(&way) as _, "sim", Some(shape.replicas), profile.clone(), peers);
                let settings = settings(shape.workers);
                let started = seat
                    .ok()
                    .map(|seat| boot::assemble_in(Some(seat), settings, Arc::clone(&fabric), "simulated".into(), 1 << 30));
                match started {
                    Some(Ok(running)) => break running,
                    // The store has not answered.
                    _ => host::sleep(Duration::from_millis(5)),
                }
            };
            end_quiet();
            let core = Arc::clone(running.core());
            let cluster = Arc::new(ClusterService::new(Arc::clone(&core)));
            line.up.lock().insert(address(node), Up { process, core, cluster });
            host::sleep(FOR_EVER);
            drop(running);
        });
        process
    }

    /// Kills a node's server, if it is up.
    pub fn kill_server(&self, world: &World, node: usize) {
        let up = self.up.lock().remove(&address(node));
        if let Some(Up { process, core, cluster }) = up {
            drop((core, cluster));
            world.kill(process);
        }
    }

    /// Times that clients asked for the map.
    pub fn map_calls(&self) -> u64 {
        self.map_calls.load(Ordering::Relaxed)
    }

    /// A node's process, once it serves.
    pub fn server(&self, node: usize) -> Option<ProcessId> {
        self.up.lock().get(&address(node)).map(|up| up.process)
    }

    fn call<T: Send + 'static>(
        &self,
        server: &str,
        limit: Duration,
        call: impl FnOnce(Up) -> Result<Response<T>, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let up = self.up.lock().get(server).cloned();
        let up = up.ok_or_else(|| Status::unavailable("no server is up there"))?;
        let answer = within(up.process, "rpc", limit, move || call(up));
        if host::random_in(0..LOST_ONE_IN) == 0 {
            return Err(Status::unavailable("the answer was lost"));
        }
        answer.map_err(|e| Status::unavailable(e.to_string()))?.map(Response::into_inner)
    }

    fn session<T: Send + 'static>(
        &self,
        server: &str,
        limit: Duration,
        call: impl FnOnce(SessionService) -> Result<Response<T>, Status> + Send + 'static,
    ) -> Result<T, Status> {
        self.call(server, limit, |up| call(SessionService::new(up.core)))
    }

    fn cluster<T: Send + 'static>(
        &self,
        server: &str,
        limit: Duration,
        call: impl FnOnce(&ClusterService) -> Result<Response<T>, Status> + Send + 'static,
    ) -> Result<T, Status> {
        self.call(server, limit, |up| call(&up.cluster))
    }
}

impl Direct for Line {
    fn attach(&self, server: &str, limit: Duration, request: v1::AttachRequest) -> Result<v1::AttachReply, Status> {
        self.session(server, limit, |service| ready(service.attach(Request::new(request))))
    }

    fn open_endpoint(
        &self,
        server: &str,
        limit: Duration,
        request: v1::OpenEndpointRequest,
    ) -> Result<v1::OpenEndpointReply, Status> {
        self.session(server, limit, |service| ready(service.open_endpoint(Request::new(request))))
    }

    fn regions(&self, server: &str, limit: Duration, request: v1::RegionsRequest) -> Result<v1::RegionsReply, Status> {
        self.session(server, limit, |service| ready(service.regions(Request::new(request))))
    }

    fn close_session(
        &self,
        server: &str,
        limit: Duration,
        request: v1::CloseSessionRequest,
    ) -> Result<v1::CloseSessionReply, Status> {
        self.session(server, limit, |service| ready(service.close_session(Request::new(request))))
    }

    fn detach(&self, server: &str, limit: Duration, request: v1::DetachRequest) -> Result<v1::DetachReply, Status> {
        self.session(server, limit, |service| ready(service.detach(Request::new(request))))
    }

    fn map(&self, server: &str, limit: Duration) -> Result<v1::ClusterMap, Status> {
        self.map_calls.fetch_add(1, Ordering::Relaxed);
        self.cluster(server, limit, |service| ready(service.map(Request::new(v1::MapRequest {}))))
    }

    fn resolve(&self, server: &str, limit: Duration, request: v1::ResolveRequest) -> Result<v1::ResolveReply, Status> {
        self.cluster(server, limit, |service| ready(service.resolve(Request::new(request))))
    }
}

//! A server and its clients in a simulated world.

use kv_server::boot;
use kv_server::control::{Core, SessionService};
use kv_server::store::Settings;
use kv_server::value_limits::ValueLimits;
use kv_server::worker::Pinning;
use parking_lot::Mutex;
use sidewire::sim::Direct;
use sidewire::v1;
use sidewire_common::fabric::sim::{ProcessId, World, end_quiet, within};
use sidewire_common::host;
use sidewire_common::memory::HugepageMode;
use sidewire_proto::v1::session_server::Session as _;
use sidewire_tests::schedules::ready;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// The lease of all schedules, the shortest that there is.
pub const LEASE: Duration = Duration::from_millis(300);
/// Longer values come in parts.
const REQUEST_VALUE_BYTES: usize = 150;
/// One answer of the control plane in so many is lost.
const LOST_ONE_IN: u32 = 80;
/// A time that no schedule lasts for.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// The server, if there is one.
#[derive(Clone, Default)]
pub struct Line(Arc<Mutex<Now>>);

/// What there is of a server: one process at most.
#[derive(Default)]
enum Now {
    #[default]
    Down,
    Starts(ProcessId),
    Serves(Up),
}

/// A server that serves.
type Up = (ProcessId, Arc<Core>);

/// What differs from schedule to schedule.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Workers of the server.
    pub workers: u32,
}

fn settings(shape: Shape) -> Settings {
    Settings {
        memory_bytes: 32 << 20,
        chunk_bytes: Some(8 << 20),
        staging_bytes: 64 << 10,
        values: ValueLimits { longest: None, in_one_request: Some(REQUEST_VALUE_BYTES) },
        worker_count: shape.workers,
        hugepages: HugepageMode::Off,
        cell_count: 256,
        lease: LEASE,
        spin: Duration::ZERO,
        pin: Pinning::Off,
        clients_max: 64,
        hash_seed: None,
    }
}

impl Line {
    /// Starts a server, unless there is one; it is reachable when it serves.
    pub fn start_server(&self, world: &World, shape: Shape) {
        if !matches!(*self.0.lock(), Now::Down) {
            return;
        }
        let process = world.process("server");
        *self.0.lock() = Now::Starts(process);
        let fabric = world.fabric(process);
        let line = self.clone();
        world.set_quiet(process, true);
        world.spawn(process, "boot", move || {
            let running =
                boot::assemble(settings(shape), fabric, "simulated".into(), 1 << 30).expect("a simulated server starts");
            end_quiet();
            *line.0.lock() = Now::Serves((process, Arc::clone(running.core())));
            host::sleep(FOR_EVER);
            drop(running);
        });
    }

    /// Kills the server, if there is one; while it starts, too.
    pub fn kill_server(&self, world: &World) {
        let now = std::mem::take(&mut *self.0.lock());
        let process = match now {
            Now::Down => return,
            Now::Starts(process) | Now::Serves((process, _)) => process,
        };
        world.kill(process);
    }

    fn up(&self) -> Option<Up> {
        match &*self.0.lock() {
            Now::Serves(up) => Some(up.clone()),
            Now::Down | Now::Starts(_) => None,
        }
    }

    /// The server's process, once it serves.
    pub fn server(&self) -> Option<ProcessId> {
        self.up().map(|(process, _)| process)
    }

    /// What requests are answered from.
    pub fn core(&self) -> Option<Arc<Core>> {
        self.up().map(|(_, core)| core)
    }

    fn call<T: Send + 'static>(
        &self,
        limit: Duration,
        call: impl FnOnce(SessionService) -> Result<Response<T>, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let (process, core) = self.up().ok_or_else(|| Status::unavailable("no server is up"))?;
        let answer = within(process, "rpc", limit, move || call(SessionService::new(core)));
        if host::random_in(0..LOST_ONE_IN) == 0 {
            return Err(Status::unavailable("the answer was lost"));
        }
        answer.map_err(|e| Status::unavailable(e.to_string()))?.map(Response::into_inner)
    }
}

/// The server's address; there is one server in this world.
pub const ADDRESS: &str = "10.0.0.1:7400";

impl Direct for Line {
    fn attach(&self, _server: &str, limit: Duration, request: v1::AttachRequest) -> Result<v1::AttachReply, Status> {
        self.call(limit, |service| ready(service.attach(Request::new(request))))
    }

    fn open_endpoint(
        &self,
        _server: &str,
        limit: Duration,
        request: v1::OpenEndpointRequest,
    ) -> Result<v1::OpenEndpointReply, Status> {
        self.call(limit, |service| ready(service.open_endpoint(Request::new(request))))
    }

    fn regions(&self, _server: &str, limit: Duration, request: v1::RegionsRequest) -> Result<v1::RegionsReply, Status> {
        self.call(limit, |service| ready(service.regions(Request::new(request))))
    }

    fn close_session(
        &self,
        _server: &str,
        limit: Duration,
        request: v1::CloseSessionRequest,
    ) -> Result<v1::CloseSessionReply, Status> {
        self.call(limit, |service| ready(service.close_session(Request::new(request))))
    }

    fn detach(&self, _server: &str, limit: Duration, request: v1::DetachRequest) -> Result<v1::DetachReply, Status> {
        self.call(limit, |service| ready(service.detach(Request::new(request))))
    }

    fn map(&self, _server: &str, limit: Duration) -> Result<v1::ClusterMap, Status> {
        self.call(limit, |_| Err(Status::failed_precondition("the server runs alone")))
    }

    fn resolve(&self, _server: &str, limit: Duration, _request: v1::ResolveRequest) -> Result<v1::ResolveReply, Status> {
        self.call(limit, |_| Err(Status::failed_precondition("the server runs alone")))
    }
}

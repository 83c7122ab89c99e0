//! A server's and a client's fabric in one process, and the shortest way to do things with them.
#![allow(dead_code, reason = "each test binary uses its own part")]

use sidewire_common::fabric::{
    Access, Completion, EndpointId, EndpointSpec, Event, Fabric, FabricChoice, FabricKind, Opened, Port, PortSpec, PostError,
    Registered, RemoteAddr, Role, Staging, Status, Verb, WorkId, WorkRequest, open_client, open_server,
};
use sidewire_common::id::ClientId;
use sidewire_common::limits::MESSAGE_BYTES;
use sidewire_common::memory::{Buffer, BufferPool, HugepageMode, Mapping, Seals, View};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for anything; emulated devices are slow.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const STAGING_BYTES: usize = 64 << 10;
pub const DEPTH: u32 = 32;

/// Whether the suite runs on a device: `SIDEWIRE_TEST_FABRIC=verbs`, with `SIDEWIRE_TEST_DEVICE` or
/// `SIDEWIRE_TEST_ADDR` to name it.
pub fn on_verbs() -> bool {
    std::env::var("SIDEWIRE_TEST_FABRIC").is_ok_and(|kind| kind == "verbs")
}

/// Both fabrics, linked.
pub struct Rig {
    pub server: Arc<dyn Fabric>,
    pub client: Arc<dyn Fabric>,
    pub id: ClientId,
}

impl Rig {
    pub fn new() -> Self {
        let address: IpAddr = std::env::var("SIDEWIRE_TEST_ADDR").map_or([127, 0, 0, 1].into(), |text| text.parse().unwrap());
        let device = std::env::var("SIDEWIRE_TEST_DEVICE").ok();
        let (choice, kind) =
            if on_verbs() { (FabricChoice::Verbs, FabricKind::Verbs) } else { (FabricChoice::Shm, FabricKind::Shm) };
        let server = open_server(choice, device.as_deref(), address).unwrap().fabric;
        let client = open_client(kind, device.as_deref(), Some(address)).unwrap();
        let id = ClientId::random();
        client.link(&server.admit(id).unwrap()).unwrap();
        Self { server, client, id }
    }

    pub fn server_port(&self) -> Box<dyn Port> {
        port(&self.server)
    }

    pub fn client_port(&self) -> Box<dyn Port> {
        port(&self.client)
    }

    /// Memory of the server that the client may reach.
    pub fn region(&self, bytes: usize, access: Access) -> Region {
        let seals = if access == Access::RemoteReadAtomic { Seals::Shared } else { Seals::ReadOnly };
        let map = Arc::new(Mapping::memfd("contract", bytes, HugepageMode::Off, seals).unwrap());
        let registered = self.server.register(&map, access).unwrap();
        self.client.adopt(&[registered.remote()]).unwrap();
        Region { view: View::whole(map), registered }
    }

    /// Registered buffers of the client.
    pub fn buffers(&self, slot_bytes: usize, count: usize) -> BufferPool {
        buffers(&self.client, slot_bytes, count)
    }
}

pub fn buffers(fabric: &Arc<dyn Fabric>, slot_bytes: usize, count: usize) -> BufferPool {
    let map = Arc::new(Mapping::anonymous("contract", slot_bytes * count).unwrap());
    let registered = fabric.register(&map, Access::Local).unwrap();
    BufferPool::new(map, registered, slot_bytes)
}

fn port(fabric: &Arc<dyn Fabric>) -> Box<dyn Port> {
    fabric.port(PortSpec { name: "contract".into(), completions: 8192 }).unwrap()
}

/// A registered mapping of the server.
pub struct Region {
    pub view: View,
    pub registered: Registered,
}

impl Region {
    pub fn at(&self, offset: u64, bytes: u64) -> RemoteAddr {
        self.registered.remote().at(offset, bytes).unwrap()
    }

    pub fn fill(&self, pattern: impl Fn(usize) -> u8) {
        let bytes: Vec<u8> = (0..self.view.len()).map(pattern).collect();
        self.view.copy_in(0, &bytes).unwrap();
    }
}

/// Two connected ends.
pub struct Pair {
    pub server: EndpointId,
    pub client: EndpointId,
    pub staging: Option<Staging>,
}

pub fn spec(role: Role, depth: u32) -> EndpointSpec {
    EndpointSpec { role, send_depth: depth, recv_depth: depth }
}

pub fn connect(server: &mut dyn Port, client: &mut dyn Port, roles: (Role, Role), depth: u32) -> Pair {
    let Opened { endpoint: server_end, info, staging } = server.open(&spec(roles.0, depth)).unwrap();
    let opened = client.open(&spec(roles.1, depth)).unwrap();
    server.connect(server_end, &opened.info).unwrap();
    client.connect(opened.endpoint, &info).unwrap();
    Pair { server: server_end, client: opened.endpoint, staging }
}

pub fn readers(server: &mut dyn Port, client: &mut dyn Port, depth: u32) -> Pair {
    connect(server, client, (Role::ReadTarget, Role::Reader), depth)
}

pub fn writers(server: &mut dyn Port, client: &mut dyn Port, depth: u32) -> Pair {
    connect(server, client, (Role::WriteTarget { staging_bytes: STAGING_BYTES }, Role::Writer), depth)
}

pub fn beats(server: &mut dyn Port, client: &mut dyn Port, depth: u32) -> Pair {
    connect(server, client, (Role::Beat, Role::Beat), depth)
}

impl Pair {
    pub fn staging(&self, offset: u64, bytes: u64) -> RemoteAddr {
        self.staging.as_ref().unwrap().remote.at(offset, bytes).unwrap()
    }
}

pub fn post_one(port: &mut dyn Port, endpoint: EndpointId, id: u64, verb: Verb<'_>) -> Result<(), PostError> {
    port.post(endpoint, &mut vec![WorkRequest { id: WorkId(id), verb }])
}

/// Polls until `enough` says so; fails when that takes too long.
pub fn poll_until(port: &mut dyn Port, mut enough: impl FnMut(&[Completion]) -> bool) -> Vec<Completion> {
    let (mut all, since) = (Vec::new(), Instant::now());
    while !enough(&all) {
        if port.poll(&mut all) == 0 {
            assert!(since.elapsed() < PATIENCE, "nothing more comes; so far {all:?}");
            std::thread::yield_now();
        }
    }
    all
}

pub fn poll_count(port: &mut dyn Port, count: usize) -> Vec<Completion> {
    poll_until(port, |all| all.len() >= count)
}

/// The `Done`s among completions: id, status, old.
pub fn dones(completions: &[Completion]) -> Vec<(u64, Status, u64)> {
    let done = |completion: &Completion| match completion.event {
        Event::Done { id, status, old } => Some((id.0, status, old)),
        _ => None,
    };
    completions.iter().filter_map(done).collect()
}

/// Posts one request and waits for its `Done`; nothing else may come.
pub fn run(port: &mut dyn Port, endpoint: EndpointId, verb: Verb<'_>) -> (Status, u64) {
    post_one(port, endpoint, 77, verb).unwrap();
    let all = poll_until(port, |all| !dones(all).is_empty());
    let done = dones(&all)[0];
    assert_eq!(done.0, 77);
    (done.1, done.2)
}

/// Reads into a buffer and gives it back.
pub fn read(port: &mut dyn Port, endpoint: EndpointId, buffer: &mut Buffer, from: RemoteAddr, bytes: usize) -> Status {
    let into = buffer.lend(0..bytes, WorkId(77));
    let (status, _) = run(port, endpoint, Verb::Read { into, from });
    buffer.give_back(WorkId(77));
    status
}

/// Waits for one message, sleeping, and takes it.
pub fn take_message(port: &mut dyn Port, endpoint: EndpointId) -> Vec<u8> {
    let slot = poll_until(port, |all| all.iter().any(|c| matches!(c.event, Event::Message { .. })))
        .iter()
        .find_map(|completion| match completion.event {
            Event::Message { slot } if completion.endpoint == endpoint => Some(slot),
            _ => None,
        })
        .expect("a message on that endpoint");
    let mut into = [0; MESSAGE_BYTES];
    let length = port.take_message(endpoint, slot, &mut into).unwrap();
    into[..length].to_vec()
}

/// Asks again until there is an answer.
pub fn soon<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(since.elapsed() < PATIENCE, "it never happens");
        std::thread::sleep(Duration::from_millis(1));
    }
}

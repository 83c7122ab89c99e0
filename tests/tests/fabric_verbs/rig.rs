//! Two fabrics, a port each, registered memory at the server and buffers at the client.

use sidewire_common::fabric::{
    Access, Completion, EndpointId, EndpointSpec, Event, Fabric, FabricChoice, FabricKind, Port, PortSpec, Registered, Role,
    Staging, Status, Verb, WorkId, WorkRequest, open_client, open_server,
};
use sidewire_common::id::ClientId;
use sidewire_common::limits::MESSAGE_BYTES;
use sidewire_common::memory::{Buffer, BufferPool, HugepageMode, Mapping, Seals, View};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than any retry of any provider.
const PATIENCE: Duration = Duration::from_secs(20);
const HEAP_BYTES: usize = 1 << 20;
const CELLS_BYTES: usize = 4096;
pub const BUFFER_BYTES: usize = 64 << 10;

pub struct Rig {
    pub server: Arc<dyn Fabric>,
    pub client: Arc<dyn Fabric>,
    pub here: Box<dyn Port>,
    pub there: Box<dyn Port>,
    pub heap: (View, Registered),
    pub cells: (View, Registered),
    pub pool: BufferPool,
    next_id: u64,
}

/// A connected pair of endpoints: the client's and the server's.
#[derive(Clone, Debug)]
pub struct Pair {
    pub ours: EndpointId,
    pub theirs: EndpointId,
    pub staging: Option<Staging>,
}

/// Device and address to test verbs on, or a word on why not.
pub fn verbs_setting() -> Option<(String, IpAddr)> {
    let setting = |name: &str| std::env::var(name).ok();
    if setting("SIDEWIRE_TEST_FABRIC").as_deref() != Some("verbs") {
        println!("skipped: SIDEWIRE_TEST_FABRIC is not verbs");
        return None;
    }
    let device = setting("SIDEWIRE_TEST_DEVICE").expect("SIDEWIRE_TEST_DEVICE names the device");
    let address = setting("SIDEWIRE_TEST_ADDR").expect("SIDEWIRE_TEST_ADDR names its address");
    Some((device, address.parse().expect("SIDEWIRE_TEST_ADDR is an address")))
}

impl Rig {
    pub fn verbs() -> Option<Self> {
        let (device, address) = verbs_setting()?;
        let server = open_server(FabricChoice::Verbs, Some(&device), address).unwrap().fabric;
        let client = open_client(FabricKind::Verbs, Some(&device), Some(address)).unwrap();
        Some(Self::new(server, client))
    }

    pub fn shm() -> Option<Self> {
        let server = match open_server(FabricChoice::Shm, None, Ipv4Addr::LOCALHOST.into()) {
            Ok(choice) => choice.fabric,
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        Some(Self::new(server, open_client(FabricKind::Shm, None, None).unwrap()))
    }

    fn new(server: Arc<dyn Fabric>, client: Arc<dyn Fabric>) -> Self {
        let heap = server_memory(&server, HEAP_BYTES, Access::RemoteRead);
        let cells = server_memory(&server, CELLS_BYTES, Access::RemoteReadAtomic);
        client.link(&server.admit(ClientId::random()).unwrap()).unwrap();
        client.adopt(&[heap.1.remote(), cells.1.remote()]).unwrap();
        let here = port(&client, 4096);
        let there = port(&server, 4096);
        let pool = buffers(&client, 160);
        Self { server, client, here, there, heap, cells, pool, next_id: 0 }
    }

    pub fn id(&mut self) -> WorkId {
        self.next_id += 1;
        WorkId(self.next_id)
    }

    /// A connected pair: `ours` at the client, `theirs` at the server.
    pub fn connect(&mut self, ours: Role, theirs: Role, send_depth: u32, recv_depth: u32) -> Pair {
        connect(&mut *self.here, &mut *self.there, ours, theirs, send_depth, recv_depth)
    }

    pub fn reader(&mut self) -> Pair {
        self.connect(Role::Reader, Role::ReadTarget, 128, 0)
    }

    pub fn writer(&mut self, staging_bytes: usize) -> Pair {
        self.connect(Role::Writer, Role::WriteTarget { staging_bytes }, 64, 64)
    }

    /// Posts one request at the client and waits for its end.
    pub fn run(&mut self, endpoint: EndpointId, verb: Verb<'_>) -> (Status, u64) {
        let id = self.id();
        self.here.post(endpoint, &mut vec![WorkRequest { id, verb }]).unwrap();
        let done = wait(&mut *self.here, |c| matches!(c.event, Event::Done { id: done, .. } if done == id));
        match done.last().unwrap().event {
            Event::Done { status, old, .. } => (status, old),
            other => panic!("{other:?} is not the end of a work request"),
        }
    }

    /// Reads `bytes` bytes at `offset` of the heap.
    pub fn read(&mut self, endpoint: EndpointId, offset: u64, bytes: usize) -> (Status, Vec<u8>) {
        let from = self.heap.1.remote().at(offset, bytes as u64).unwrap();
        let mut buffer = self.pool.take().unwrap();
        let lease = WorkId(self.next_id + 1);
        let into = buffer.lend(0..bytes, lease);
        let (status, _) = self.run(endpoint, Verb::Read { into, from });
        buffer.give_back(lease);
        (status, buffer.bytes()[..bytes].to_vec())
    }
}

pub fn server_memory(fabric: &Arc<dyn Fabric>, bytes: usize, access: Access) -> (View, Registered) {
    let seals = if access == Access::RemoteRead { Seals::ReadOnly } else { Seals::Shared };
    let map = Arc::new(Mapping::memfd("contract", bytes, HugepageMode::Off, seals).unwrap());
    let registered = fabric.register(&map, access).unwrap();
    (View::whole(map), registered)
}

pub fn buffers(fabric: &Arc<dyn Fabric>, count: usize) -> BufferPool {
    let map = Arc::new(Mapping::anonymous("buffers", count * BUFFER_BYTES).unwrap());
    let registered = fabric.register(&map, Access::Local).unwrap();
    BufferPool::new(map, registered, BUFFER_BYTES)
}

pub fn port(fabric: &Arc<dyn Fabric>, completions: u32) -> Box<dyn Port> {
    fabric.port(PortSpec { name: "contract".into(), completions }).unwrap()
}

pub fn connect(here: &mut dyn Port, there: &mut dyn Port, ours: Role, theirs: Role, send_depth: u32, recv_depth: u32) -> Pair {
    let opened_there = there.open(&EndpointSpec { role: theirs, send_depth, recv_depth }).unwrap();
    let opened_here = here.open(&EndpointSpec { role: ours, send_depth, recv_depth }).unwrap();
    there.connect(opened_there.endpoint, &opened_here.info).unwrap();
    here.connect(opened_here.endpoint, &opened_there.info).unwrap();
    Pair { ours: opened_here.endpoint, theirs: opened_there.endpoint, staging: opened_there.staging }
}

/// Polls until a completion satisfies `last`, and returns all up to it. Fails when none does in time.
pub fn wait(port: &mut dyn Port, mut last: impl FnMut(&Completion) -> bool) -> Vec<Completion> {
    let mut all = Vec::new();
    let started = Instant::now();
    let mut seen = 0;
    loop {
        if port.poll(&mut all) == 0 {
            port.sleep(Duration::from_millis(100)).unwrap();
        }
        while seen < all.len() {
            seen += 1;
            if last(&all[seen - 1]) {
                assert_eq!(seen, all.len(), "more came than was waited for: {:?}", &all[seen..]);
                return all;
            }
        }
        assert!(started.elapsed() < PATIENCE, "not in time; so far {all:?}");
    }
}

/// Polls until `count` completions are there.
pub fn take(port: &mut dyn Port, count: usize) -> Vec<Completion> {
    let mut left = count;
    wait(port, |_| {
        left -= 1;
        left == 0
    })
}

/// Nothing comes within a short while.
pub fn assert_quiet(port: &mut dyn Port) {
    let mut all = Vec::new();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(20) {
        port.poll(&mut all);
    }
    assert_eq!(all, []);
}

/// Takes the message of a completion.
pub fn message(port: &mut dyn Port, completion: &Completion) -> Vec<u8> {
    let Event::Message { slot } = completion.event else { panic!("{completion:?} is not a message") };
    let mut into = [0; MESSAGE_BYTES];
    let bytes = port.take_message(completion.endpoint, slot, &mut into).unwrap();
    into[..bytes].to_vec()
}

/// A buffer filled with `bytes`.
pub fn filled(pool: &BufferPool, bytes: &[u8]) -> Buffer {
    let mut buffer = pool.take().unwrap();
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    buffer
}

//! A server's workers over shared memory, and a client that speaks to them in raw requests.
#![allow(dead_code, reason = "each test file uses its part")]

use crossbeam::channel::{Sender, bounded};
use kv_server::store::{Settings, Store};
use kv_server::worker::{Command, OpenError, OpenedEndpoint, Pinning, Workers};
use sidewire_common::cluster::MemberId;
use sidewire_common::fabric::{
    EndpointId, EndpointSpec, Event, Fabric, PeerInfo, Port, PortSpec, RemoteRegion, Role, Verb, WorkId, WorkRequest, shm,
};
use sidewire_common::id::ClientId;
use sidewire_common::layout::ack::{self, Ack};
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::replica_entry::Entry;
use sidewire_common::layout::request::{Condition, Operation, Request, immediate};
use sidewire_common::limits::{MESSAGE_BYTES, MESSAGE_CREDITS};
use sidewire_common::memory::{BufferPool, HugepageMode, Mapping};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(5);
pub const HOLDER: u32 = 7;

pub struct Server {
    pub store: Arc<Store>,
    pub workers: Arc<Workers>,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(1, None)
    }

    pub fn start_with(worker_count: u32, hash_seed: Option<u64>) -> Self {
        let settings = Settings {
            memory_bytes: 64 << 20,
            chunk_bytes: Some(16 << 20),
            staging_bytes: 1 << 20,
            values: kv_server::value_limits::ValueLimits::default(),
            worker_count,
            hugepages: HugepageMode::Off,
            cell_count: 64,
            lease: Duration::from_secs(1),
            spin: Duration::from_micros(20),
            pin: Pinning::Off,
            clients_max: 8,
            hash_seed,
        };
        let store = Store::build(settings, Arc::new(shm::Host::start().unwrap())).unwrap();
        let workers = Arc::new(Workers::start(&store).unwrap());
        Self { store, workers }
    }

    pub fn client(&self) -> Client {
        let id = ClientId::random();
        let guest = Arc::new(shm::Guest::new());
        guest.link(&self.store.fabric().admit(id).unwrap()).unwrap();
        let port = guest.port(PortSpec { name: "test".into(), completions: 1024 }).unwrap();
        let mut client =
            Client { id, guest, port, pool: None, writer: EndpointId(0), staging: None, sequence: 0, line: 1, acks: Vec::new() };
        let map = Arc::new(Mapping::anonymous("test", 1 << 20).unwrap());
        let registered = client.guest.register(&map, sidewire_common::fabric::Access::Local).unwrap();
        client.pool = Some(BufferPool::new(map, registered, 64 << 10));
        client.connect(self);
        client
    }
}

impl Server {
    pub fn stop(self) {
        self.workers.stop();
    }
}

pub struct Client {
    pub id: ClientId,
    guest: Arc<shm::Guest>,
    pub port: Box<dyn Port>,
    pool: Option<BufferPool>,
    pub writer: EndpointId,
    staging: Option<RemoteRegion>,
    pub sequence: u64,
    /// What it says of resolved sequences.
    pub line: u64,
    pub acks: Vec<Ack>,
}

impl Client {
    pub fn connect(&mut self, server: &Server) {
        let (client, session) = (self.id, 1);
        self.open(server, |reply| Command::OpenWriter { client, holder: HOLDER, session, peer: PeerInfo::Unneeded, reply });
    }

    /// The same as another server's worker 0, to tell its entries.
    pub fn connect_as(&mut self, member: u32, server: &Server) {
        let member = MemberId(member);
        self.open(server, |reply| Command::OpenPeer { member, worker: 0, peer: PeerInfo::Unneeded, reply });
        self.sequence = 0;
    }

    fn open(&mut self, server: &Server, ask: impl FnOnce(Sender<Result<OpenedEndpoint, OpenError>>) -> Command) {
        let spec = EndpointSpec { role: Role::Writer, send_depth: MESSAGE_CREDITS, recv_depth: MESSAGE_CREDITS };
        let opened = self.port.open(&spec).unwrap();
        let (reply, told) = bounded(1);
        server.workers.send(0, ask(reply)).unwrap();
        let there = told.recv_timeout(PATIENCE).unwrap().unwrap();
        self.port.connect(opened.endpoint, &there.peer).unwrap();
        (self.writer, self.staging) = (opened.endpoint, there.staging);
    }

    /// Tells an entry, and what it is answered.
    pub fn tell(&mut self, entry: Entry, key: &[u8], value: &[u8]) -> Ack {
        let sequence = self.next();
        let entry = Entry { sequence, key_len: key.len() as u16, value_len: value.len() as u32, ..entry };
        let unit = (sequence as u32 % 60) * 256;
        self.write(unit, &[&entry.encode()[..], key, value].concat(), immediate(unit, sequence));
        self.ack(sequence)
    }

    /// Writes bytes at a unit of the ring with this immediate.
    pub fn write(&mut self, unit: u32, bytes: &[u8], imm: u32) {
        let mut buffer = self.pool.as_ref().unwrap().take().unwrap();
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let id = WorkId(u64::from(imm) << 32 | 1);
        let from = buffer.lend(0..bytes.len(), id);
        let to = self.staging.unwrap().base.plus(u64::from(unit) * 64);
        self.port.post(self.writer, &mut vec![WorkRequest { id, verb: Verb::WriteImm { from, to, imm } }]).unwrap();
        self.until(|_, event| matches!(event, Event::Done { id: done, .. } if *done == id));
        buffer.give_back(id);
    }

    pub fn until(&mut self, over: impl FnMut(&mut Self, &Event) -> bool) {
        assert!(self.comes_within(PATIENCE, over), "nothing happened in time");
    }

    /// Whether what is waited for comes in this time. Acks that come are kept.
    pub fn comes_within(&mut self, time: Duration, mut over: impl FnMut(&mut Self, &Event) -> bool) -> bool {
        let deadline = Instant::now() + time;
        let mut out = Vec::new();
        while Instant::now() < deadline {
            self.port.poll(&mut out);
            let mut found = false;
            for completion in std::mem::take(&mut out) {
                if let Event::Message { slot } = completion.event {
                    let mut bytes = [0; MESSAGE_BYTES];
                    let length = self.port.take_message(completion.endpoint, slot, &mut bytes).unwrap();
                    self.acks.extend(ack::decode(&bytes[..length]).unwrap());
                }
                found |= over(self, &completion.event);
            }
            if found {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    pub fn send(&mut self, request: Request, key: &[u8], fence_key: &[u8], value: &[u8]) -> u64 {
        self.sequence = self.sequence.max(request.sequence);
        let request = Request {
            key_len: key.len() as u16,
            fence_key_len: fence_key.len() as u16,
            value_len: value.len() as u32,
            resolved_below: self.line,
            ..request
        };
        let bytes = [&request.encode()[..], key, fence_key, value].concat();
        let unit = (request.sequence as u32 % 60) * 256;
        self.write(unit, &bytes, immediate(unit, request.sequence));
        request.sequence
    }

    pub fn ack(&mut self, sequence: u64) -> Ack {
        let find = |acks: &Vec<Ack>| acks.iter().position(|a| a.sequence == sequence);
        if find(&self.acks).is_none() {
            self.until(|client, _| find(&client.acks).is_some());
        }
        let at = find(&self.acks).unwrap();
        self.acks.remove(at)
    }

    pub fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub fn ask(&mut self, request: Request, key: &[u8], value: &[u8]) -> Ack {
        let sequence = self.send(request, key, b"", value);
        self.ack(sequence)
    }

    pub fn put(&mut self, key: &[u8], value: &[u8], condition: Condition) -> Ack {
        let request = Request { condition, ..Request::new(Operation::Put, self.next()) };
        self.ask(request, key, value)
    }

    pub fn create(&mut self, kind: Kind, key: &[u8]) -> Ack {
        let request = Request { kind, ..Request::new(Operation::Put, self.next()) };
        self.ask(request, key, b"")
    }

    pub fn is_cut_off(&mut self) {
        self.until(|_, event| matches!(event, Event::Broken));
    }
}

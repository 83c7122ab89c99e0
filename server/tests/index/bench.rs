//! One worker's data structures, without the worker.

use kv_server::heap::Heap;
use kv_server::shard::{Index, PutAsk, Unmet, delete, put};
use kv_server::store::{Settings, Store};
use kv_server::worker::{Memory, Pinning};
use sidewire_common::fabric::{
    Access, AtomicExecutor, Fabric, FabricError, FabricInfo, FabricKind, PeerInfo, Port, PortSpec, Registered, RemoteAddr,
    RemoteRegion,
};
use sidewire_common::id::ClientId;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::bucket::{BUCKET_BYTES, Bucket};
use sidewire_common::layout::directory::{DirectoryEntry, entry_offset};
use sidewire_common::layout::location::Location;
use sidewire_common::layout::record::{self, Kind, State, Version};
use sidewire_common::layout::request::Condition;
use sidewire_common::layout::segment::{home_offset, overflow_offset};
use sidewire_common::memory::{HugepageMode, Mapping};
use std::sync::Arc;
use std::time::Duration;

/// A fabric that registers memory and connects nobody.
struct Nowhere(FabricInfo);

impl Nowhere {
    fn fabric() -> Arc<dyn Fabric> {
        Arc::new(Self(FabricInfo {
            kind: FabricKind::Shm,
            device: String::new(),
            port: 0,
            gid: String::new(),
            gid_index: 0,
            link_layer: String::new(),
            mtu_bytes: 0,
            atomics: AtomicExecutor::Cpu,
            read_depth: 1,
            inline_bytes: 0,
        }))
    }
}

fn nowhere<T>() -> Result<T, FabricError> {
    Err(FabricError::Unsupported { kind: FabricKind::Shm, what: "a connection in this test".into() })
}

impl Fabric for Nowhere {
    fn info(&self) -> &FabricInfo {
        &self.0
    }
    fn register(&self, map: &Arc<Mapping>, access: Access) -> Result<Registered, FabricError> {
        let base = RemoteAddr { addr: 0, rkey: 0 };
        let remote = RemoteRegion { base, bytes: map.len() as u64, atomic: access == Access::RemoteReadAtomic };
        Ok(Registered::new(remote, 0, Arc::new(Arc::clone(map))))
    }
    fn port(&self, _: PortSpec) -> Result<Box<dyn Port>, FabricError> {
        nowhere()
    }
    fn admit(&self, _: ClientId) -> Result<PeerInfo, FabricError> {
        nowhere()
    }
    fn dismiss(&self, _: ClientId) {}
    fn departed(&self) -> Vec<ClientId> {
        Vec::new()
    }
    fn link(&self, _: &PeerInfo) -> Result<(), FabricError> {
        nowhere()
    }
    fn link_alive(&self) -> bool {
        true
    }
    fn adopt(&self, _: &[RemoteRegion]) -> Result<(), FabricError> {
        nowhere()
    }
}

/// One worker's data structures.
pub struct Bench {
    pub store: Arc<Store>,
    pub memory: Memory,
    pub index: Index,
    pub heap: Heap,
    pub version: u64,
}

impl Bench {
    pub fn new(memory_bytes: u64) -> Self {
        let settings = Settings {
            memory_bytes,
            chunk_bytes: Some(memory_bytes / 2),
            staging_bytes: 1 << 20,
            values: kv_server::value_limits::ValueLimits::default(),
            worker_count: 1,
            hugepages: HugepageMode::Off,
            cell_count: 16,
            lease: Duration::from_secs(1),
            spin: Duration::ZERO,
            pin: Pinning::Off,
            clients_max: 1,
            hash_seed: None,
        };
        let store = Store::build(settings, Nowhere::fabric()).unwrap();
        let mut memory = Memory::new(Arc::clone(store.pools()));
        let index = Index::new(&store, &mut memory, 0).unwrap();
        let heap = Heap::new(Arc::clone(store.pools()), 1);
        Self { store, memory, index, heap, version: 0 }
    }

    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.store.hash_seed())
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Location {
        self.try_put(key, value).unwrap()
    }

    pub fn try_put(&mut self, key: &[u8], value: &[u8]) -> Result<Location, Unmet> {
        self.version += 1;
        let hash = self.hash(key);
        let found = self.index.find(&mut self.memory, hash, key);
        let ask = PutAsk {
            key,
            hash,
            value,
            kind: Kind::Value,
            condition: Condition::None,
            expiry_ms: 0,
            version: Version::new(1, self.version),
            found,
        };
        put(&self.store, &mut self.memory, &mut self.index, &mut self.heap, ask, &mut Vec::new()).map(|done| done.location)
    }

    pub fn delete(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let Some(found) = self.index.find(&mut self.memory, hash, key) else { return false };
        delete(&mut self.memory, &mut self.heap, &found);
        true
    }

    fn bucket(&mut self, segment: sidewire_common::layout::location::Place, offset: u64) -> [u8; BUCKET_BYTES] {
        let mut bytes = [0; BUCKET_BYTES];
        self.memory.read(segment, offset, &mut bytes);
        bytes
    }

    /// A Get as a client does it, without the retries that a single thread never needs. Also counts Reads.
    pub fn get(&mut self, key: &[u8]) -> (Option<Vec<u8>>, u32) {
        let hash = self.hash(key);
        let bits = self.store.directory_bits();
        let word = self.memory.load(self.store.directories(), entry_offset(hash.shard(), hash.directory_index(bits), bits));
        let segment = DirectoryEntry::from_raw(word).expect("each entry names a segment").segment();
        let mut reads = 1;
        let mut bucket = self.bucket(segment, home_offset(hash.home_bucket()));
        assert!(Bucket::new(&bucket).header().serves(hash), "the directory leads to a segment that serves the key");
        loop {
            for location in Bucket::new(&bucket).matches(hash.fingerprint()).collect::<Vec<_>>() {
                reads += 1;
                let mut bytes = vec![0; location.read_bytes().unwrap()];
                self.memory.read(location.place(), 0, &mut bytes);
                if let Ok(whole) = record::examine(&bytes, location.place(), key) {
                    assert_eq!(whole.state, State::Live(whole.version), "a slot that is at rest names a live record");
                    return (Some(bytes[whole.value_at..][..whole.value_len].to_vec()), reads);
                }
            }
            match Bucket::new(&bucket).header().overflow() {
                Some(index) if reads < 100 => {
                    let next = self.bucket(segment, overflow_offset(index));
                    if next == bucket {
                        return (None, reads);
                    }
                    bucket = next;
                    reads += 1;
                }
                _ => return (None, reads),
            }
        }
    }
}

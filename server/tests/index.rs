//! The index by itself, without workers or clients.
//!
//! What could break: a split that loses or misplaces a key, an overflow bucket that a reader does not find, blocks
//! handed out twice, an index that costs more than it should. Keys are put through the real path and looked up
//! through the bytes that a client reads: directory entry, home bucket, overflow bucket, record.

use kv_server::heap::Heap;
use kv_server::shard::{Index, PutAsk, delete, put};
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
use sidewire_common::layout::segment::{SEGMENT_BYTES, home_offset, overflow_offset};
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
struct Bench {
    store: Arc<Store>,
    memory: Memory,
    index: Index,
    heap: Heap,
    version: u64,
}

impl Bench {
    fn new(memory_bytes: u64) -> Self {
        let settings = Settings {
            memory_bytes,
            chunk_bytes: Some(memory_bytes / 2),
            staging_bytes: 1 << 20,
            worker_count: 1,
            hugepages: HugepageMode::Off,
            cell_count: 16,
            lease: Duration::from_secs(1),
            spin: Duration::ZERO,
            pin: Pinning::Off,
            clients_max: 1,
        };
        let store = Store::build(settings, Nowhere::fabric()).unwrap();
        let mut memory = Memory::new(Arc::clone(store.pools()));
        let index = Index::new(&store, &mut memory, 0).unwrap();
        let heap = Heap::new(Arc::clone(store.pools()));
        Self { store, memory, index, heap, version: 0 }
    }

    fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.store.hash_seed())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Location {
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
        put(&self.store, &mut self.memory, &mut self.index, &mut self.heap, ask, &mut Vec::new()).unwrap().location
    }

    fn delete(&mut self, key: &[u8]) -> bool {
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
    fn get(&mut self, key: &[u8]) -> (Option<Vec<u8>>, u32) {
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

#[test]
fn every_key_is_found_through_splits_and_the_index_stays_small() {
    const KEYS: u32 = 400_000;
    let mut bench = Bench::new(512 << 20);
    let key = |n: u32| format!("key-{n:012}").into_bytes();
    for n in 0..KEYS {
        bench.put(&key(n), &n.to_le_bytes());
    }
    let mut reads = 0;
    for n in 0..KEYS {
        let (value, cost) = bench.get(&key(n));
        assert_eq!(value.as_deref(), Some(&n.to_le_bytes()[..]), "key {n}");
        reads += cost;
    }
    assert_eq!(bench.get(b"no such key").0, None);
    let (segments, splits) = bench.index.figures();
    assert!(splits > 0);
    let per_key = (segments as usize * SEGMENT_BYTES) as f64 / f64::from(KEYS);
    let per_get = f64::from(reads) / f64::from(KEYS);
    assert!(per_key < 25.0, "{per_key} bytes of segments a key");
    assert!((2.0..2.06).contains(&per_get), "{per_get} Reads per Get");
}

#[test]
fn updates_and_deletes_give_their_blocks_back() {
    let mut bench = Bench::new(64 << 20);
    let used = |bench: &Bench| bench.store.pools().report().heap.used_bytes;
    for round in 0..20u8 {
        for n in 0..10_000u32 {
            bench.put(&n.to_le_bytes(), &[round; 100]);
        }
    }
    // 10,000 live blocks of 192 bytes and one slab's worth of slack.
    assert!(used(&bench) < 10_000 * 192 + (256 << 10), "{} bytes for 10,000 records", used(&bench));
    for n in 0..10_000u32 {
        assert!(bench.delete(&n.to_le_bytes()));
        assert_eq!(bench.get(&n.to_le_bytes()).0, None);
        assert!(!bench.delete(&n.to_le_bytes()));
    }
}

#[test]
fn pages_that_left_a_class_wait_for_an_epoch() {
    let mut bench = Bench::new(64 << 20);
    let epochs = Arc::clone(bench.store.epochs());
    let big = vec![7u8; 3 << 20];
    for n in 0..10u8 {
        bench.put(&[n], &big);
        assert!(bench.delete(&[n]));
    }
    // Thirty of 32 MiB have been freed and none may be used again before the epoch is acknowledged.
    let hash = bench.hash(b"one more");
    let ask = |value| PutAsk {
        key: b"one more",
        hash,
        value,
        kind: Kind::Value,
        condition: Condition::None,
        expiry_ms: 0,
        version: Version::new(1, 99),
        found: None,
    };
    let full = put(&bench.store, &mut bench.memory, &mut bench.index, &mut bench.heap, ask(&big), &mut Vec::new());
    assert_eq!(full.unwrap_err().outcome, sidewire_common::layout::ack::Outcome::Busy);
    let now = epochs.advance();
    epochs.set_acknowledged(now);
    assert!(put(&bench.store, &mut bench.memory, &mut bench.index, &mut bench.heap, ask(&big), &mut Vec::new()).is_ok());
}

#[test]
fn a_segment_that_was_split_never_changes_again() {
    let mut bench = Bench::new(64 << 20);
    let bits = bench.store.directory_bits();
    let entry = |bench: &mut Bench, hash: KeyHash| {
        let at = entry_offset(hash.shard(), hash.directory_index(bits), bits);
        DirectoryEntry::from_raw(bench.memory.load(bench.store.directories(), at)).unwrap().segment()
    };
    let watched = bench.hash(b"0");
    let first = entry(&mut bench, watched);
    let mut old: Option<Vec<u8>> = None;
    for n in 0..400_000u32 {
        bench.put(n.to_string().as_bytes(), b"v");
        let mut now = vec![0; SEGMENT_BYTES];
        if n % 64 == 0 || old.is_none() {
            if entry(&mut bench, watched) == first {
                continue;
            }
            bench.memory.read(first, 0, &mut now);
            let before = old.get_or_insert_with(|| now.clone());
            assert_eq!(*before, now, "after {n} puts");
            assert!(now.chunks_exact(BUCKET_BYTES).all(|b| Bucket::new(b.try_into().unwrap()).header().is_moved()));
        }
        if n > 300_000 && old.is_some() {
            return;
        }
    }
    panic!("the watched segment was never split");
}

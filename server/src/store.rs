//! What all threads of a server share.

use crate::cells::Cells;
use crate::cluster::{Alone, ClockAhead, Hands};
use crate::epochs::Epochs;
use crate::pools::{ChunkUse, PoolLimits, Pools};
use crate::refusals::Refusals;
use crate::reserved::Reserved;
use crate::value_limits::ValueLimits;
use crate::worker::Pinning;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{Fabric, FabricError};
use sidewire_common::host;
use sidewire_common::id::Incarnation;
use sidewire_common::key::{SHARD_BITS, SHARD_COUNT};
use sidewire_common::layout::descriptor::{DESCRIPTOR_BYTES, Descriptor};
use sidewire_common::layout::directory::{DIRECTORY_BITS_MAX, DIRECTORY_BITS_MIN, ENTRY_BYTES};
use sidewire_common::layout::location::Place;
use sidewire_common::layout::record::UNIT_BYTES;
use sidewire_common::layout::segment::SEGMENT_BYTES;
use sidewire_common::limits::{CHUNK_BYTES_MAX, CHUNKS_MAX};
use sidewire_common::memory::{HugepageMode, MappingError};
use sidewire_proto::convert::{RegionUse, UsedRegion};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How far the shard clock that clients are told may be off, ms.
pub const CLOCK_ERROR_MS: u32 = 1;
/// Bytes of memory for each directory entry: sets how far a shard's directory reaches.
const MEMORY_PER_ENTRY: u64 = 32 << 10;
/// Values that are being written may take one part in so many of the memory, or as much as one of them needs.
const RESERVED_SHARE: u64 = 4;
/// Smallest chunk, bytes.
pub const CHUNK_BYTES_MIN: u64 = 8 << 20;

/// What the operator decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of all pools.
    pub memory_bytes: u64,
    /// Bytes of one chunk; `None` = a sixteenth of the memory, between 16 MiB and 1 GiB.
    pub chunk_bytes: Option<u64>,
    /// Bytes of a staging ring.
    pub staging_bytes: usize,
    /// How long values may be.
    pub values: ValueLimits,
    /// Workers.
    pub worker_count: u32,
    /// Hugepages.
    pub hugepages: HugepageMode,
    /// Cells for counters, sequences and locks.
    pub cell_count: u32,
    /// Lease of a client.
    pub lease: Duration,
    /// How long an idle worker spins before it sleeps.
    pub spin: Duration,
    /// Where workers run.
    pub pin: Pinning,
    /// Clients admitted at once.
    pub clients_max: u32,
    /// Seed of the key hash, for a server that shares it with others; random otherwise.
    pub hash_seed: Option<u64>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Memory could not be mapped.
    #[error(transparent)]
    Memory(#[from] MappingError),
    /// The fabric refused.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The chunk number has 14 bits.
    #[error("more than {limit} chunks; choose a larger --chunk")]
    TooManyChunks {
        /// How many there may be.
        limit: u32,
    },
    /// A setting is out of its range.
    #[error("{setting} is {value}; it must be {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// A thread could not be made.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// What all threads of a server share.
pub struct Store {
    settings: Settings,
    fabric: Arc<dyn Fabric>,
    incarnation: Incarnation,
    hash_seed: u64,
    directory_bits: u32,
    started: BootInstant,
    clock_base_ms: u64,
    epochs: Arc<Epochs>,
    pools: Arc<Pools>,
    cells: Cells,
    refusals: Refusals,
    values: ValueLimits,
    reserved: Reserved,
    token_floor: AtomicU64,
    clock: ClockAhead,
    hands: OnceLock<Arc<dyn Hands>>,
}

impl Store {
    /// Maps, prefaults and registers the first chunks and the cells, and writes the descriptor.
    ///
    /// # Errors
    /// When a setting is out of range, or memory or the fabric cannot give what is needed.
    pub fn build(settings: Settings, fabric: Arc<dyn Fabric>) -> Result<Arc<Self>, StartError> {
        let chunk_bytes = chunk_bytes(&settings)?;
        let values = settings.values.within(settings.staging_bytes, chunk_bytes)?;
        let directory_bits = directory_bits(settings.memory_bytes);
        let reserved = reserved_bytes(directory_bits);
        if reserved as u64 + (SHARD_COUNT as usize * SEGMENT_BYTES) as u64 > chunk_bytes {
            return Err(StartError::Setting {
                setting: "chunk",
                value: format!("{chunk_bytes} bytes"),
                expected: format!("at least {} bytes for this memory", reserved + SHARD_COUNT as usize * SEGMENT_BYTES),
            });
        }
        let epochs = Arc::new(Epochs::default());
        let limits = PoolLimits { memory_bytes: settings.memory_bytes, chunk_bytes, hugepages: settings.hugepages };
        let pools = Pools::new(limits, Arc::clone(&fabric), Arc::clone(&epochs), reserved)?;
        let reserved = Reserved::up_to((settings.memory_bytes / RESERVED_SHARE).max(values.record_bytes()));
        let cells = Cells::new(settings.cell_count, &*fabric, Arc::clone(&epochs))?;
        let hash_seed = settings.hash_seed.unwrap_or_else(host::random);
        let store = Self {
            settings,
            fabric,
            incarnation: Incarnation(host::random::<u64>().max(1)),
            hash_seed,
            directory_bits,
            started: BootInstant::now(),
            clock_base_ms: unix_ms(),
            epochs,
            pools,
            cells,
            refusals: Refusals::default(),
            values,
            reserved,
            token_floor: AtomicU64::new(0),
            clock: ClockAhead::default(),
            hands: OnceLock::new(),
        };
        store.write_descriptor();
        Ok(Arc::new(store))
    }

    fn write_descriptor(&self) {
        let descriptor =
            Descriptor { incarnation: self.incarnation, directory_bits: self.directory_bits, directories: self.directories() };
        let chunk = self.pools.chunk(0).expect("chunk 0 was just made");
        chunk.view().copy_in(0, &descriptor.encode()).expect("chunk 0 begins with the descriptor");
    }

    /// What the operator decided.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The fabric.
    #[must_use]
    pub fn fabric(&self) -> &Arc<dyn Fabric> {
        &self.fabric
    }

    /// This life.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Seed of the key hash, random in each life.
    #[must_use]
    pub fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    /// Directory bits of each shard.
    #[must_use]
    pub fn directory_bits(&self) -> u32 {
        self.directory_bits
    }

    /// Where the directories begin.
    #[must_use]
    pub fn directories(&self) -> Place {
        Place { chunk: 0, unit: (DESCRIPTOR_BYTES / UNIT_BYTES) as u32 }
    }

    /// When this life began.
    #[must_use]
    pub fn started(&self) -> BootInstant {
        self.started
    }

    /// The shard clock, ms: wall-clock time at the start plus what `CLOCK_BOOTTIME` has run since. Never goes back.
    #[must_use]
    pub fn clock_ms(&self) -> u64 {
        self.clock_us() / 1_000
    }

    /// The same, us.
    #[must_use]
    pub fn clock_us(&self) -> u64 {
        self.host_us() + self.clock.ahead_us()
    }

    /// This host's own clock, us.
    fn host_us(&self) -> u64 {
        let since = BootInstant::now().since(self.started);
        self.clock_base_ms * 1_000 + u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2)
    }

    /// Another server's shard clock showed this: this one never falls behind it for good.
    pub fn hear_clock(&self, theirs_us: u64) {
        self.clock.hear(theirs_us, self.host_us(), self.settings.lease);
    }

    /// Makes a step of the clock that clients know of by now.
    pub fn settle_clock(&self) {
        self.clock.settle();
    }

    /// How far the shard clock that clients are told may be off, ms.
    #[must_use]
    pub fn clock_error_ms(&self) -> u32 {
        CLOCK_ERROR_MS + self.clock.pending_ms()
    }

    /// Whether another server's clock was seen to be ahead, and clients do not all know yet.
    #[must_use]
    pub fn clock_is_behind(&self) -> bool {
        self.clock.pending_ms() > 0
    }

    /// No lock of the cluster has granted a token above this, as far as was told.
    #[must_use]
    pub fn token_floor(&self) -> u64 {
        self.token_floor.load(Ordering::Relaxed)
    }

    /// Tokens up to this were granted.
    pub fn raise_token_floor(&self, token: u64) {
        self.token_floor.fetch_max(token, Ordering::Relaxed);
    }

    /// The hands of a clustered server: what its workers ask of the rest of it.
    pub fn join(&self, hands: Arc<dyn Hands>) {
        self.cells.reserve();
        let _ = self.hands.set(hands);
    }

    /// The lease that a client may be given now: no longer than this server's own.
    #[must_use]
    pub fn grantable_lease(&self) -> Duration {
        let own = self.cluster().lease_left();
        own.map_or(self.settings.lease, |own| own.min(self.settings.lease))
    }

    /// What workers of a clustered server ask of the rest of it.
    #[must_use]
    pub fn cluster(&self) -> &dyn Hands {
        self.hands.get().map_or(&Alone, |hands| &**hands)
    }

    /// Layout epochs.
    #[must_use]
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// Cells.
    #[must_use]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// What peers were refused for.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Longest value that a client may store here. Replication carries no more than one request does.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        if self.hands.get().is_some() { self.values.in_one_request() } else { self.values.longest() }
    }

    /// Longest value, or part of one, that a single request may carry.
    #[must_use]
    pub fn request_value_bytes_max(&self) -> usize {
        self.values.in_one_request()
    }

    /// Memory that long values take while they are being written.
    #[must_use]
    pub fn reserved(&self) -> &Reserved {
        &self.reserved
    }

    /// Pools.
    #[must_use]
    pub fn pools(&self) -> &Arc<Pools> {
        &self.pools
    }

    /// The layout epoch and all regions that clients reach. The epoch is read first, so that a list that is told
    /// with it is never older than it.
    #[must_use]
    pub fn regions(&self) -> (u64, Vec<UsedRegion>) {
        let epoch = self.epochs.current();
        let mut regions: Vec<_> = self
            .pools
            .chunks()
            .iter()
            .map(|chunk| {
                let used_for = match chunk.used_for() {
                    ChunkUse::Index => RegionUse::Index,
                    ChunkUse::Heap => RegionUse::Heap,
                };
                UsedRegion { used_for, chunk: chunk.number(), region: chunk.registered().remote() }
            })
            .collect();
        regions.push(UsedRegion { used_for: RegionUse::Cells, chunk: 0, region: self.cells.region() });
        (epoch, regions)
    }

    /// How long until locks are granted: in its first lease a life grants none, since holders of the life before
    /// may not know yet that theirs is over.
    #[must_use]
    pub fn locks_open_in(&self) -> Duration {
        self.settings.lease.saturating_sub(BootInstant::now().since(self.started))
    }
}

fn unix_ms() -> u64 {
    u64::try_from(host::unix_time().as_millis()).unwrap_or(0)
}

fn reserved_bytes(directory_bits: u32) -> usize {
    DESCRIPTOR_BYTES + ((SHARD_COUNT as usize) << directory_bits) * ENTRY_BYTES
}

/// Enough entries that a shard's directory is not what fills up first.
fn directory_bits(memory_bytes: u64) -> u32 {
    let entries = (memory_bytes / MEMORY_PER_ENTRY / u64::from(SHARD_COUNT)).max(1).next_power_of_two();
    entries.ilog2().clamp(DIRECTORY_BITS_MIN, DIRECTORY_BITS_MAX)
}

fn chunk_bytes(settings: &Settings) -> Result<u64, StartError> {
    const STEP: u64 = 2 << 20;
    let automatic = (settings.memory_bytes / 16).clamp(16 << 20, 1 << 30);
    let automatic = automatic.max(settings.values.chunk_bytes_for(settings.memory_bytes));
    let bytes = settings.chunk_bytes.unwrap_or(automatic).next_multiple_of(STEP);
    let refuse =
        |value: u64, expected: String| Err(StartError::Setting { setting: "chunk", value: format!("{value} bytes"), expected });
    if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes) {
        return refuse(bytes, format!("between {CHUNK_BYTES_MIN} and {CHUNK_BYTES_MAX} bytes"));
    }
    if bytes * 2 > settings.memory_bytes {
        return refuse(bytes, format!("at most half of the memory of {} bytes", settings.memory_bytes));
    }
    if settings.memory_bytes / bytes > u64::from(CHUNKS_MAX) {
        return Err(StartError::TooManyChunks { limit: CHUNKS_MAX });
    }
    Ok(bytes)
}

const _: () = assert!(SHARD_BITS + DIRECTORY_BITS_MAX <= 32);

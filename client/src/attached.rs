//! One attachment: what a client knows of one life of the server. It never serves another life.

use crate::epoch::EpochGate;
use crate::lease::{Lease, ShardClock};
use crate::locate::{Directory, LocationCache};
use crate::op::LockAttempts;
use crate::regions::RegionTable;
use parking_lot::Mutex;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{AtomicExecutor, Fabric};
use sidewire_common::id::{ClientId, Incarnation};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::descriptor::Descriptor;
use sidewire_common::layout::location::Place;
use sidewire_common::layout::record::{UNIT_BYTES, record_bytes};
use sidewire_common::limits::KEY_BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Values over this many bytes are sent in parts even if a ring has room for more: below the longest message of every
/// device.
const LONE_VALUE_BYTES: usize = 4 << 20;

/// What the attach reply told, checked.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub client: ClientId,
    pub incarnation: Incarnation,
    pub atomics: AtomicExecutor,
    pub lease: Duration,
    pub hash_seed: u64,
    pub holder_id: u32,
    pub worker_count: u32,
    pub directory_bits: u32,
    pub directories: Place,
    pub staging_bytes: usize,
    pub credits: u32,
    pub value_bytes_max: usize,
    pub request_value_bytes_max: usize,
    pub cell_count: u32,
    pub locks_open_at: BootInstant,
}

impl Terms {
    /// What the first line of chunk 0 must say.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor { incarnation: self.incarnation, directory_bits: self.directory_bits, directories: self.directories }
    }

    /// The worker of a key's shard.
    #[inline]
    pub fn worker_of(&self, hash: KeyHash) -> usize {
        (hash.shard() % self.worker_count) as usize
    }

    /// Bytes of the longest value that is sent in one request; longer ones are sent in parts if the server takes them.
    pub fn lone_value_bytes_max(&self) -> usize {
        if self.value_bytes_max > self.request_value_bytes_max {
            self.request_value_bytes_max.min(LONE_VALUE_BYTES)
        } else {
            self.value_bytes_max
        }
    }

    /// Bytes of the longest record, in whole units.
    pub fn record_bytes_max(&self) -> usize {
        record_bytes(KEY_BYTES_MAX, self.value_bytes_max).next_multiple_of(UNIT_BYTES)
    }
}

/// The attachment; shared by the heartbeat's thread and all sessions.
pub(crate) struct Attached {
    pub terms: Terms,
    pub fabric: Arc<dyn Fabric>,
    pub lease: Lease,
    pub clock: ShardClock,
    pub gate: Arc<EpochGate>,
    pub directory: Directory,
    pub locations: LocationCache,
    pub lock_attempts: LockAttempts,
    regions: Mutex<Arc<RegionTable>>,
    next_session: AtomicU32,
    ended: AtomicBool,
}

impl Attached {
    /// A new attachment at `epoch`.
    pub fn new(terms: Terms, fabric: Arc<dyn Fabric>, regions: RegionTable, epoch: u64, location_cache_entries: usize) -> Self {
        Self {
            fabric,
            lease: Lease::default(),
            clock: ShardClock::default(),
            gate: Arc::new(EpochGate::new(epoch)),
            directory: Directory::new(terms.directory_bits),
            locations: LocationCache::new(location_cache_entries),
            lock_attempts: LockAttempts::default(),
            regions: Mutex::new(Arc::new(regions)),
            // 0 is the beat's.
            next_session: AtomicU32::new(1),
            ended: AtomicBool::new(false),
            terms,
        }
    }

    /// The regions as they were last told.
    pub fn regions(&self) -> Arc<RegionTable> {
        Arc::clone(&self.regions.lock())
    }

    /// Regions of `epoch` have been adopted: from here on the client is in that epoch.
    pub fn enter_epoch(&self, epoch: u64, regions: RegionTable) {
        *self.regions.lock() = Arc::new(regions);
        self.directory.epoch_comes(epoch);
        self.gate.enter(epoch);
    }

    /// A session number that no other session of this attachment has had.
    pub fn next_session(&self) -> u32 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// Nothing is believed any more.
    pub fn end(&self) {
        self.lease.end();
        self.ended.store(true, Ordering::Release);
    }

    /// Whether it has ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("client", &self.terms.client).field("incarnation", &self.terms.incarnation).finish()
    }
}

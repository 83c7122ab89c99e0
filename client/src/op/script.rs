//! A server's memory in a vector, and a way to run machines against it step by step.

use super::{Ask, CellVerb, Context, Done, Get, Input, LockAttempts, ReadTag, Step, What};
use crate::error::Error;
use crate::lease::ShardClock;
use crate::locate::{CellCache, Directory, LocationCache};
use crate::stats::SessionStats;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{Access, Fabric, WorkId, shm};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::bucket::{BUCKET_BYTES, BucketHeader, slot_offset};
use sidewire_common::layout::counter_cell::CELL_BYTES;
use sidewire_common::layout::directory::{DirectoryEntry, entry_offset};
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::{Fields, Kind, State, UNIT_BYTES, Version, encode, location_of, record_bytes};
use sidewire_common::layout::request::Request;
use sidewire_common::layout::segment::{BUCKETS, home_offset, overflow_offset};
use sidewire_common::memory::{Buffer, BufferPool, Mapping};
use std::sync::Arc;

const BITS: u32 = 4;
const DIRECTORIES: Place = Place { chunk: 0, unit: 1 };
pub(super) const SEGMENT: Place = Place { chunk: 0, unit: 1024 };
pub(super) const OTHER_SEGMENT: Place = Place { chunk: 0, unit: 1536 };
const CELLS_UNIT: u32 = 3000;
const MEMORY_UNITS: usize = 4096;
pub(super) const SEED: u64 = 11;
pub(super) const HOLDER: u32 = 7;

/// A place for a record.
pub(super) fn at(unit: u32) -> Place {
    Place { chunk: 0, unit: 2048 + unit }
}

/// The server's memory, and what a client remembers of it.
pub(super) struct World {
    pub memory: Vec<u8>,
    pub key: Vec<u8>,
    pub hash: KeyHash,
    pub epoch: u64,
    pub reign: u32,
    pub locations: LocationCache,
    pub stats: SessionStats,
    pub cells: CellCache,
    pub clock: ShardClock,
    pub attempts: LockAttempts,
    directory: Directory,
    buffers: BufferPool,
    pub asks: Vec<Ask>,
}

impl World {
    /// One segment that serves every key, and a key to look for.
    pub fn new(key: &[u8]) -> Self {
        let map = Arc::new(Mapping::anonymous("script", 256 << 10).unwrap());
        let registered = shm::Guest::new().register(&map, Access::Local).unwrap();
        let hash = KeyHash::of(key, SEED);
        let mut world = Self {
            memory: vec![0; MEMORY_UNITS * UNIT_BYTES],
            key: key.to_vec(),
            hash,
            epoch: 1,
            reign: 0,
            locations: LocationCache::new(64),
            stats: SessionStats::default(),
            cells: CellCache::default(),
            clock: ShardClock::default(),
            attempts: LockAttempts::default(),
            directory: Directory::new(BITS),
            buffers: BufferPool::new(map, registered, 4096),
            asks: Vec::new(),
        };
        world.cells.enter(1);
        world.lay_segment(SEGMENT);
        world.point_directory(SEGMENT);
        world
    }

    pub fn put(&mut self, place: Place, offset: u64, bytes: &[u8]) {
        let at = (place.offset() + offset) as usize;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A segment for the key's shard.
    pub fn lay_segment(&mut self, segment: Place) {
        let header = BucketHeader::new(self.hash.top32(), 8).raw();
        for bucket in 0..BUCKETS {
            self.put(segment, u64::from(bucket) * BUCKET_BYTES as u64, &header.to_le_bytes());
        }
    }

    /// All entries of the key's shard name this segment.
    pub fn point_directory(&mut self, segment: Place) {
        let entry = DirectoryEntry::new(segment, 8).raw().to_le_bytes();
        for index in 0..1 << BITS {
            self.put(DIRECTORIES, entry_offset(self.hash.shard(), index, BITS), &entry);
        }
    }

    pub fn set_moved(&mut self, segment: Place) {
        let header = BucketHeader::new(self.hash.top32(), 8).moved().raw();
        self.put(segment, home_offset(self.hash.home_bucket()), &header.to_le_bytes());
    }

    pub fn set_slot(&mut self, segment: Place, slot: usize, location: Location) {
        let offset = home_offset(self.hash.home_bucket()) + slot_offset(slot) as u64;
        self.put(segment, offset, &location.raw().to_le_bytes());
    }

    /// The key's home bucket names overflow bucket `index`, which holds `location`.
    pub fn set_overflow(&mut self, segment: Place, index: u32, location: Location) {
        let header = BucketHeader::new(self.hash.top32(), 8).with_overflow(index).raw();
        self.put(segment, home_offset(self.hash.home_bucket()), &header.to_le_bytes());
        self.put(segment, overflow_offset(index) + slot_offset(0) as u64, &location.raw().to_le_bytes());
    }

    /// Writes a whole record in this state and returns its location, with the fingerprint of the key looked for.
    pub fn record(&mut self, place: Place, key: &[u8], value: &[u8], version: u64, state: State) -> Location {
        self.record_of(place, Kind::Value, key, value, version, 0, state)
    }

    #[allow(clippy::too_many_arguments, reason = "a test's table of everything")]
    pub fn record_of(
        &mut self,
        place: Place,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        version: u64,
        expiry_ms: u64,
        state: State,
    ) -> Location {
        let mut image = vec![0; record_bytes(key.len(), value.len())];
        let fields = Fields { version: Version::from_raw(version), expiry_ms, kind, key, value };
        encode(&mut image, place, fields, None);
        image[..8].copy_from_slice(&state.raw().to_le_bytes());
        self.put(place, 0, &image);
        location_of(self.hash.fingerprint(), key.len(), value.len(), place)
    }

    pub fn set_state(&mut self, place: Place, state: State) {
        self.put(place, 0, &state.raw().to_le_bytes());
    }

    pub fn cell(&self, index: u32) -> u64 {
        let at = CELLS_UNIT as usize * UNIT_BYTES + index as usize * CELL_BYTES;
        u64::from_le_bytes(self.memory[at..at + 8].try_into().unwrap())
    }

    pub fn set_cell(&mut self, index: u32, word: u64) {
        let place = Place { chunk: 0, unit: CELLS_UNIT };
        self.put(place, u64::from(index) * CELL_BYTES as u64, &word.to_le_bytes());
    }

    fn buffer_with(&self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.buffers.take().expect("tests read little");
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let id = WorkId(1);
        drop(buffer.lend(0..1, id));
        buffer.give_back(id);
        buffer
    }

    /// Carries out a read, as memory is now.
    pub fn read(&self, place: Place, offset: u64, bytes: usize, tag: ReadTag) -> Input {
        let at = (place.offset() + offset) as usize;
        match self.memory.get(at..at + bytes) {
            Some(found) if place.chunk == 0 => Input::Read { tag, buffer: self.buffer_with(found), bytes },
            _ => Input::Unknown { tag },
        }
    }

    /// Carries out what was asked, as memory is now. Requests are answered by `worker`.
    pub fn carry_out(&mut self, ask: Ask, worker: &mut dyn FnMut(&mut Self, Request) -> (Outcome, u8)) -> Input {
        match ask {
            Ask::Read { place, offset, bytes, tag } => self.read(place, offset, bytes, tag),
            Ask::Cell { index, verb } => {
                let old = self.cell(index);
                match verb {
                    CellVerb::Read => {}
                    CellVerb::Add(delta) => self.set_cell(index, old.wrapping_add(delta as u64)),
                    CellVerb::Swap { expect, swap } if old == expect => self.set_cell(index, swap),
                    CellVerb::Swap { .. } => {}
                }
                Input::Cell { old }
            }
            Ask::Request(request) => {
                let (outcome, detail) = worker(self, request);
                Input::Ack(Ack { sequence: 1, outcome, detail, figures: [0; 2] })
            }
        }
    }

    pub fn context(&mut self) -> Context<'_> {
        Context {
            key: &self.key,
            hash: self.hash,
            reign: self.reign,
            locks_open_at: BootInstant::from_nanos(0),
            epoch: self.epoch,
            directory: &self.directory,
            directories: DIRECTORIES,
            locations: &self.locations,
            cells: &mut self.cells,
            clock: &self.clock,
            record_bytes_max: 1 << 20,
            cell_count: 16,
            holder: HOLDER,
            lock_attempts: &self.attempts,
            stats: &self.stats,
            asks: &mut self.asks,
        }
    }

    /// Runs a machine to its end. `between` sees each ask before it is carried out, with its number.
    pub fn run(
        &mut self,
        on: &mut dyn FnMut(Input, &mut Context<'_>) -> Step,
        between: &mut dyn FnMut(&mut Self, usize, &Ask),
        worker: &mut dyn FnMut(&mut Self, Request) -> (Outcome, u8),
    ) -> Result<Done, Error> {
        let mut step = on(Input::Resume, &mut self.context());
        for number in 0..200 {
            match step {
                Step::Finished(result) => return result,
                Step::Exhausted => panic!("gave up"),
                Step::Pause(_) => step = on(Input::Resume, &mut self.context()),
                Step::Reconnect => step = on(Input::Restart, &mut self.context()),
                Step::Wait => {
                    let ask = self.asks.remove(0);
                    between(self, number, &ask);
                    let input = self.carry_out(ask, worker);
                    step = on(input, &mut self.context());
                }
            }
        }
        panic!("did not end within 200 steps")
    }

    /// Runs a Get; `between` sees each read before it is carried out.
    pub fn get_with(&mut self, between: &mut dyn FnMut(&mut Self, usize, What)) -> Option<Vec<u8>> {
        let mut get = Get::default();
        let mut seen = |world: &mut Self, number: usize, ask: &Ask| {
            if let Ask::Read { tag, .. } = ask {
                between(world, number, tag.what);
            }
        };
        let done = self.run(&mut |input, cx| get.on(input, cx), &mut seen, &mut |_, _| (Outcome::Busy, 0));
        match done {
            Ok(Done::Found(super::Found::Record(record))) => Some(record.value().to_vec()),
            Ok(Done::Found(super::Found::Absent)) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Runs a Get while nothing changes.
    pub fn get(&mut self) -> Option<Vec<u8>> {
        self.get_with(&mut |_, _, _| {})
    }
}

/// The version with this counter.
pub(super) fn version(counter: u64) -> Version {
    Version::from_raw(counter)
}

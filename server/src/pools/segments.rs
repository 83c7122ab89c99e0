//! Places for segments: bump within index chunks, then what was given back.

use sidewire_common::layout::location::Place;
use sidewire_common::layout::record::UNIT_BYTES;
use sidewire_common::layout::segment::{SEGMENT_BYTES, SEGMENT_UNITS};

struct ChunkRest {
    number: u16,
    next: u32,
    end: u32,
}

/// Which places are free.
#[derive(Default)]
pub(super) struct SegmentMap {
    rest: Vec<ChunkRest>,
    free: Vec<Place>,
    used: u64,
    total: u64,
    reserved: u64,
}

impl SegmentMap {
    pub(super) fn open(&mut self, number: u16, reserved_bytes: usize, bytes: usize) {
        let next = reserved_bytes.div_ceil(UNIT_BYTES) as u32;
        let end = (bytes / UNIT_BYTES) as u32;
        self.rest.push(ChunkRest { number, next, end });
        self.total += u64::from((end - next) / SEGMENT_UNITS);
        self.reserved += reserved_bytes as u64;
    }

    pub(super) fn take(&mut self) -> Option<Place> {
        let place = self.free.pop().or_else(|| self.bump())?;
        self.used += 1;
        Some(place)
    }

    fn bump(&mut self) -> Option<Place> {
        let chunk = self.rest.iter_mut().find(|c| c.end - c.next >= SEGMENT_UNITS)?;
        let place = Place { chunk: chunk.number, unit: chunk.next };
        chunk.next += SEGMENT_UNITS;
        Some(place)
    }

    pub(super) fn give(&mut self, place: Place) {
        self.free.push(place);
        self.used -= 1;
    }

    pub(super) fn free_bytes(&self) -> u64 {
        (self.total - self.used) * SEGMENT_BYTES as u64
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.reserved + self.used * SEGMENT_BYTES as u64
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.reserved + self.total * SEGMENT_BYTES as u64
    }
}

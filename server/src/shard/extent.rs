//! Extents: blocks whose value comes in parts, before it is known whether it will be stored.

use super::put::no_memory;
use super::{Draft, PutAsk, Unmet};
use crate::heap::Heap;
use crate::worker::Memory;
use sidewire_common::layout::digest::ValueDigest;
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::{Fields, HEADER_BYTES, encode_front, record_bytes};
use sidewire_common::memory::View;

/// A block that nobody knows, with a part of a value.
#[derive(Debug)]
pub struct Extent {
    place: Place,
    key_len: usize,
    value_len: usize,
    filled: usize,
    digest: ValueDigest,
    /// Nobody can know of any record there, not even of one that is gone.
    is_unknown: bool,
}

impl Extent {
    /// A block for a record with a key and a value of these lengths.
    ///
    /// # Errors
    /// What the ack says when there is no memory.
    pub fn reserve(memory: &mut Memory, heap: &mut Heap, key_len: usize, value_len: usize) -> Result<Self, Unmet> {
        let (place, is_unknown) = heap.allocate_unknown(record_bytes(key_len, value_len)).map_err(no_memory)?;
        memory.begin_record(place);
        Ok(Self { place, key_len, value_len, filled: 0, digest: ValueDigest::new(place), is_unknown })
    }

    /// Bytes of the record.
    #[must_use]
    pub fn bytes(&self) -> usize {
        record_bytes(self.key_len, self.value_len)
    }

    /// Bytes of the value that have not come.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.value_len - self.filled
    }

    /// Takes the next `bytes` bytes of the value out of a ring.
    ///
    /// # Panics
    /// When they are more than are missing.
    pub fn fill(&mut self, memory: &mut Memory, ring: &View, from: usize, bytes: usize) {
        assert!(bytes <= self.missing(), "checked by whoever takes chunks");
        let offset = (HEADER_BYTES + self.key_len + self.filled) as u64;
        memory.fill_record(self.place, offset, ring, from, bytes, &mut self.digest);
        self.filled += bytes;
    }

    /// The record is whole, in state *pending*. `ask` names the key that the extent was reserved for; its value counts for
    /// nothing.
    #[must_use]
    pub fn into_draft(self, memory: &mut Memory, ask: &PutAsk<'_>) -> Draft {
        let PutAsk { key, hash, kind, expiry_ms, version, found, .. } = *ask;
        let fields = Fields { version, expiry_ms, kind, key, value: &[] };
        let replaces = found.map(|found| found.header.version);
        let front = encode_front(self.place, fields, self.value_len as u32, self.digest.finish(), replaces);
        memory.write_record(self.place, &front);
        let bytes = self.bytes();
        Draft { location: Location::new(hash.fingerprint(), bytes, self.place), version, bytes, expiry_ms, hash }
    }

    /// Gives the block back.
    pub fn discard(self, heap: &mut Heap) {
        if self.is_unknown {
            heap.give_back(self.place, self.bytes());
        } else {
            heap.free(self.place, self.bytes());
        }
    }
}

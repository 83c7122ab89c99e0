//! A worker's way to bytes in chunks: by place, with the chunk's view cached.

use crate::pools::Pools;
use sidewire_common::layout::digest::ValueDigest;
use sidewire_common::layout::location::Place;
use sidewire_common::layout::record::{HEADER_BYTES, Header, State};
use sidewire_common::memory::View;
use std::sync::Arc;

/// Bytes of index and heap, by place.
///
/// Places come from the server's own index. One that lies outside a chunk means that the index is corrupt:
/// there is no right answer then, so these methods panic, and the worker's end stops the server.
pub struct Memory {
    pools: Arc<Pools>,
    views: Vec<View>,
}

/// Bytes that are copied and hashed at once: they stay in the core's nearest cache.
const PIECE_BYTES: usize = 16 << 10;
const OWN_INDEX: &str = "the index names places within chunks";

impl Memory {
    /// Over the server's pools.
    #[must_use]
    pub fn new(pools: Arc<Pools>) -> Self {
        Self { pools, views: Vec::new() }
    }

    #[inline]
    fn view(&mut self, chunk: u16) -> &View {
        while self.views.len() <= chunk as usize {
            let next = self.pools.chunk(self.views.len() as u16).expect(OWN_INDEX);
            self.views.push(next.view().clone());
        }
        &self.views[chunk as usize]
    }

    /// Loads a word.
    #[inline]
    pub fn load(&mut self, at: Place, offset: u64) -> u64 {
        self.view(at.chunk).load((at.offset() + offset) as usize).expect(OWN_INDEX)
    }

    /// Tells the CPU that these bytes will be touched soon.
    #[inline]
    pub fn prefetch(&mut self, at: Place, offset: u64) {
        self.view(at.chunk).prefetch((at.offset() + offset) as usize);
    }

    /// Stores a word after all earlier stores.
    #[inline]
    pub fn publish(&mut self, at: Place, offset: u64, word: u64) {
        self.view(at.chunk).store_release((at.offset() + offset) as usize, word).expect(OWN_INDEX);
    }

    /// Stores a word that nobody is told of yet.
    #[inline]
    pub fn prepare(&mut self, at: Place, offset: u64, word: u64) {
        self.view(at.chunk).store((at.offset() + offset) as usize, word).expect(OWN_INDEX);
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&mut self, at: Place, offset: u64, into: &mut [u8]) {
        self.view(at.chunk).copy_out((at.offset() + offset) as usize, into).expect(OWN_INDEX);
    }

    /// Writes a record's image into its block: the state word first, so that while the body changes the block is
    /// *pending*, then the body.
    pub fn write_record(&mut self, at: Place, image: &[u8]) {
        let state = u64::from_le_bytes(*image.first_chunk().expect("a record begins with its state word"));
        let view = self.view(at.chunk);
        let offset = at.offset() as usize;
        view.store(offset, state).expect(OWN_INDEX);
        sidewire_common::memory::to_device_barrier();
        view.copy_in(offset + 8, &image[8..]).expect(OWN_INDEX);
    }

    /// A block becomes that of a record whose value is to come: *pending* from now on, whatever it was before.
    pub fn begin_record(&mut self, at: Place) {
        let pending = State::Pending { replaces: None };
        self.view(at.chunk).store(at.offset() as usize, pending.raw()).expect(OWN_INDEX);
        sidewire_common::memory::to_device_barrier();
    }

    /// Copies `bytes` bytes at `from` of a ring into the block at `at`, `offset` bytes behind its start, and hashes what was
    /// copied. The ring may change meanwhile: what is hashed is what the block gets.
    pub fn fill_record(&mut self, at: Place, offset: u64, ring: &View, from: usize, bytes: usize, digest: &mut ValueDigest) {
        let view = self.view(at.chunk);
        let to = (at.offset() + offset) as usize;
        let mut piece = [0; PIECE_BYTES];
        for done in (0..bytes).step_by(PIECE_BYTES) {
            let piece = &mut piece[..PIECE_BYTES.min(bytes - done)];
            ring.copy_out(from + done, piece).expect("the request lies in its ring, checked at intake");
            digest.add(piece);
            view.copy_in(to + done, piece).expect(OWN_INDEX);
        }
    }

    /// A record's state word becomes `state`, after all earlier stores.
    #[inline]
    pub fn publish_state(&mut self, at: Place, state: State) {
        self.publish(at, 0, state.raw());
    }

    /// A record's header.
    #[inline]
    pub fn header(&mut self, at: Place) -> Header {
        let mut head = [0; HEADER_BYTES];
        self.read(at, 0, &mut head);
        Header::read(&head)
    }

    /// A record's header, if its key is `key`.
    #[inline]
    pub fn header_if(&mut self, at: Place, key: &[u8], scratch: &mut Vec<u8>) -> Option<Header> {
        scratch.clear();
        scratch.resize(HEADER_BYTES + key.len(), 0);
        // A record has at least a unit, and a shorter key's record is told apart by its key length first.
        self.read(at, 0, &mut scratch[..HEADER_BYTES]);
        let header = Header::read(scratch.first_chunk().expect("just sized"));
        if header.key_len as usize != key.len() {
            return None;
        }
        let (_, stored) = scratch.split_at_mut(HEADER_BYTES);
        self.read(at, HEADER_BYTES as u64, stored);
        (stored == key).then_some(header)
    }
}

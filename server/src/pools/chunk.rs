//! One chunk.

use super::{Pools, pages::PageMap, segments::SegmentMap};
use crate::store::StartError;
use sidewire_common::fabric::{Access, Registered};
use sidewire_common::limits::CHUNKS_MAX;
use sidewire_common::memory::{Mapping, PageKind, Seals, View};
use std::sync::Arc;

/// What a chunk holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkUse {
    /// Segments and directories.
    Index,
    /// Records.
    Heap,
}

/// A mapped and registered range. It lives as long as the server.
pub struct Chunk {
    number: u16,
    used_for: ChunkUse,
    registered: Registered,
    view: View,
}

impl Chunk {
    /// Its number in places.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// What it holds.
    #[must_use]
    pub fn used_for(&self) -> ChunkUse {
        self.used_for
    }

    /// Its bytes.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Its registration.
    #[must_use]
    pub fn registered(&self) -> &Registered {
        &self.registered
    }

    /// Whether it is made of hugepages.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.view.mapping().pages() == PageKind::Huge
    }
}

impl Pools {
    /// Maps, prefaults, registers and publishes a chunk; nothing is handed out of it yet.
    pub(super) fn make_chunk(&self, used_for: ChunkUse) -> Result<Arc<Chunk>, StartError> {
        let what = match used_for {
            ChunkUse::Index => "index",
            ChunkUse::Heap => "heap",
        };
        let bytes = usize::try_from(self.limits.chunk_bytes).unwrap_or(usize::MAX);
        let mapping = Arc::new(Mapping::memfd(what, bytes, self.limits.hugepages, Seals::ReadOnly)?);
        let registered = self.fabric.register(&mapping, Access::RemoteRead)?;
        let mut chunks = self.chunks.write();
        let number = u16::try_from(chunks.len()).ok().filter(|&n| u32::from(n) < CHUNKS_MAX);
        let number = number.ok_or(StartError::TooManyChunks { limit: CHUNKS_MAX })?;
        let chunk = Arc::new(Chunk { number, used_for, registered, view: View::whole(mapping) });
        chunks.push(Arc::clone(&chunk));
        Ok(chunk)
    }

    /// Begins to hand out of a chunk, but for its first `reserved_bytes`.
    pub(super) fn open_chunk(&self, chunk: &Chunk, reserved_bytes: usize) {
        let bytes = chunk.view.len();
        let mut inner = self.inner.lock();
        match chunk.used_for {
            ChunkUse::Index => SegmentMap::open(&mut inner.segments, chunk.number, reserved_bytes, bytes),
            ChunkUse::Heap => PageMap::open(&mut inner.pages, chunk.number, bytes),
        }
    }
}

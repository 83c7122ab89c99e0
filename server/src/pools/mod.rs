//! Pools: chunks of registered memory, handed out as pages (heap) and segments (index).
//!
//! Index and heap chunks share one number space, so that a [`Place`] names either. Chunk 0 is an index chunk and
//! begins with the store descriptor and the directories of all shards.

mod chunk;
mod grow;
mod pages;
mod segments;

pub use chunk::{Chunk, ChunkUse};
pub use grow::GrowerHandle;
pub use pages::PageRun;

use crate::epochs::Epochs;
use crate::heap::{HeapError, PAGE_BYTES};
use crate::store::StartError;
use pages::PageMap;
use parking_lot::{Condvar, Mutex, RwLock};
use segments::SegmentMap;
use sidewire_common::fabric::Fabric;
use sidewire_common::layout::location::Place;
use sidewire_common::layout::segment::SEGMENT_BYTES;
use sidewire_common::memory::HugepageMode;
use std::collections::VecDeque;
use std::sync::Arc;

/// How large pools may become and what they are made of.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Bytes of all chunks together.
    pub memory_bytes: u64,
    /// Bytes of one chunk.
    pub chunk_bytes: u64,
    /// Hugepages.
    pub hugepages: HugepageMode,
}

/// Figures of one pool.
#[derive(Clone, Copy, Default, Debug)]
pub struct PoolFigures {
    /// Chunks.
    pub chunks: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes handed out.
    pub used_bytes: u64,
    /// Bytes mapped.
    pub reserved_bytes: u64,
}

/// Figures of all pools.
#[derive(Clone, Copy, Debug)]
pub struct PoolsReport {
    /// Segments, directories, descriptor.
    pub index: PoolFigures,
    /// Records.
    pub heap: PoolFigures,
    /// `hugepages`, `4 KiB pages` or `mixed`.
    pub pages: &'static str,
}

/// What waits for an epoch.
struct Retired<T> {
    after: u64,
    what: T,
}

struct Inner {
    pages: PageMap,
    segments: SegmentMap,
    retired_pages: VecDeque<Retired<PageRun>>,
    retired_segments: VecDeque<Retired<Place>>,
    /// Chunks that are published and not yet usable.
    growing: bool,
    wants_heap: bool,
    wants_index: bool,
}

/// All chunks of a server.
pub struct Pools {
    limits: PoolLimits,
    fabric: Arc<dyn Fabric>,
    epochs: Arc<Epochs>,
    chunks: RwLock<Vec<Arc<Chunk>>>,
    inner: Mutex<Inner>,
    wake_grower: Condvar,
}

impl Pools {
    /// Makes the first index chunk, whose first `reserved_bytes` stay with the caller, and the first heap chunk.
    ///
    /// # Errors
    /// When memory cannot be mapped or registered.
    pub fn new(
        limits: PoolLimits,
        fabric: Arc<dyn Fabric>,
        epochs: Arc<Epochs>,
        reserved_bytes: usize,
    ) -> Result<Arc<Self>, StartError> {
        let inner = Inner {
            pages: PageMap::default(),
            segments: SegmentMap::default(),
            retired_pages: VecDeque::new(),
            retired_segments: VecDeque::new(),
            growing: false,
            wants_heap: false,
            wants_index: false,
        };
        let pools = Self {
            limits,
            fabric,
            epochs,
            chunks: RwLock::new(Vec::new()),
            inner: Mutex::new(inner),
            wake_grower: Condvar::new(),
        };
        let index = pools.make_chunk(ChunkUse::Index)?;
        pools.open_chunk(&index, reserved_bytes);
        let heap = pools.make_chunk(ChunkUse::Heap)?;
        pools.open_chunk(&heap, 0);
        Ok(Arc::new(pools))
    }

    /// Bytes of all pools together, at most.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.limits.memory_bytes
    }

    /// The chunk with this number, if there is one.
    #[must_use]
    pub fn chunk(&self, number: u16) -> Option<Arc<Chunk>> {
        self.chunks.read().get(number as usize).cloned()
    }

    /// All chunks, those that hold nothing yet included.
    #[must_use]
    pub fn chunks(&self) -> Vec<Arc<Chunk>> {
        self.chunks.read().clone()
    }

    /// Takes `count` neighbouring pages, aligned to `count` when it is a power of two.
    ///
    /// # Errors
    /// When there are none now, or at all.
    pub fn take_pages(&self, count: u32) -> Result<PageRun, HeapError> {
        let mut inner = self.inner.lock();
        if let Some(run) = inner.pages.take(count) {
            if inner.pages.free_bytes() * 4 < self.limits.chunk_bytes {
                self.want(&mut inner, ChunkUse::Heap);
            }
            return Ok(run);
        }
        self.collect_pages(&mut inner);
        if let Some(run) = inner.pages.take(count) {
            return Ok(run);
        }
        let fits = u64::from(count) * PAGE_BYTES as u64 <= self.limits.chunk_bytes;
        let can_grow = fits && self.can_grow();
        if can_grow {
            self.want(&mut inner, ChunkUse::Heap);
        }
        if can_grow || inner.growing || !inner.retired_pages.is_empty() {
            return Err(HeapError::Soon);
        }
        Err(HeapError::Full { in_use: inner.pages.used_bytes(), limit: inner.pages.total_bytes() })
    }

    /// Gives pages back; they are handed out again when every live client has acknowledged a later epoch.
    pub fn retire_pages(&self, run: PageRun) {
        let after = self.epochs.retire();
        self.inner.lock().retired_pages.push_back(Retired { after, what: run });
    }

    /// Gives back pages of which nobody was told: nothing can be in flight there.
    pub fn return_pages(&self, run: PageRun) {
        self.inner.lock().pages.give(run);
    }

    fn collect_pages(&self, inner: &mut Inner) {
        while let Some(retired) = inner.retired_pages.pop_front_if(|r| self.epochs.is_over(r.after)) {
            inner.pages.give(retired.what);
        }
    }

    /// A place for a segment.
    ///
    /// # Errors
    /// When there is none now, or at all.
    pub fn take_segment(&self) -> Result<Place, HeapError> {
        let mut inner = self.inner.lock();
        while let Some(retired) = inner.retired_segments.pop_front_if(|r| self.epochs.is_over(r.after)) {
            inner.segments.give(retired.what);
        }
        if let Some(place) = inner.segments.take() {
            if inner.segments.free_bytes() * 4 < self.limits.chunk_bytes {
                self.want(&mut inner, ChunkUse::Index);
            }
            return Ok(place);
        }
        let can_grow = self.can_grow();
        if can_grow {
            self.want(&mut inner, ChunkUse::Index);
        }
        if can_grow || inner.growing || !inner.retired_segments.is_empty() {
            return Err(HeapError::Soon);
        }
        Err(HeapError::Full { in_use: inner.segments.used_bytes(), limit: inner.segments.total_bytes() })
    }

    /// Gives a segment's place back, for a later epoch.
    pub fn retire_segment(&self, place: Place) {
        let after = self.epochs.retire();
        self.inner.lock().retired_segments.push_back(Retired { after, what: place });
    }

    /// Gives back a segment's place that was never published.
    pub fn return_segment(&self, place: Place) {
        self.inner.lock().segments.give(place);
    }

    fn can_grow(&self) -> bool {
        (self.chunks.read().len() as u64 + 1) * self.limits.chunk_bytes <= self.limits.memory_bytes
    }

    fn want(&self, inner: &mut Inner, used_for: ChunkUse) {
        if !self.can_grow() {
            return;
        }
        match used_for {
            ChunkUse::Index => inner.wants_index = true,
            ChunkUse::Heap => inner.wants_heap = true,
        }
        self.wake_grower.notify_one();
    }

    /// Figures for people.
    #[must_use]
    pub fn report(&self) -> PoolsReport {
        let chunks = self.chunks();
        let (mut index, mut heap) = (PoolFigures::default(), PoolFigures::default());
        let mut huge = 0;
        for chunk in &chunks {
            let figures = if chunk.used_for() == ChunkUse::Index { &mut index } else { &mut heap };
            figures.chunks += 1;
            figures.chunk_bytes = self.limits.chunk_bytes;
            figures.reserved_bytes += chunk.view().len() as u64;
            huge += usize::from(chunk.is_huge());
        }
        let inner = self.inner.lock();
        index.used_bytes = inner.segments.used_bytes();
        heap.used_bytes = inner.pages.used_bytes();
        let pages = match huge {
            0 => "4 KiB pages",
            n if n == chunks.len() => "hugepages",
            _ => "mixed",
        };
        PoolsReport { index, heap, pages }
    }
}

const _: () = assert!(SEGMENT_BYTES.is_multiple_of(64));

//! Slabs of one worker.

use super::size_class::{CLASSES, PAGE_BYTES, PAGE_UNITS, SizeClass, block_units, class_of, slab_pages};
use super::spares::Spares;
use crate::fast_map::FastMap;
use crate::pools::{PageRun, Pools};
use sidewire_common::layout::location::Place;
use std::sync::Arc;

/// All spare runs of a server are at most one part in so many of its memory.
const SPARE_SHARE: u64 = 16;

/// Why a block could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapError {
    /// A chunk is being made, or freed pages wait for an epoch: soon.
    Soon,
    /// The limit is reached.
    Full {
        /// Bytes of heap taken.
        in_use: u64,
        /// Bytes of heap there may be.
        limit: u64,
    },
}

/// A slab: pages of one class and the blocks of it that are free.
struct Slab {
    run: PageRun,
    free: Vec<u16>,
}

#[derive(Default)]
struct Class {
    /// First units of slabs that have a free block.
    open: Vec<Place>,
}

/// One worker's blocks.
pub struct Heap {
    pools: Arc<Pools>,
    slabs: FastMap<Place, Slab>,
    classes: Vec<Class>,
    spares: Spares,
}

impl Heap {
    /// An empty heap over the server's pools, one of `heaps`.
    #[must_use]
    pub fn new(pools: Arc<Pools>, heaps: u32) -> Self {
        let spare = pools.memory_bytes() / SPARE_SHARE / u64::from(heaps.max(1)) / PAGE_BYTES as u64;
        let spares = Spares::up_to(u32::try_from(spare).unwrap_or(u32::MAX));
        Self { pools, slabs: FastMap::default(), classes: (0..CLASSES).map(|_| Class::default()).collect(), spares }
    }

    /// A block for a record of `bytes` bytes.
    ///
    /// # Errors
    /// When there is no memory now, or at all.
    pub fn allocate(&mut self, bytes: usize) -> Result<Place, HeapError> {
        match class_of(bytes) {
            SizeClass::Pages(pages) => match self.spares.take(pages) {
                Some(place) => Ok(place),
                None => Ok(self.take_pages(pages)?.start()),
            },
            SizeClass::Block(class) => self.allocate_block(class),
        }
    }

    /// Pages of the pools. When there are none, the spare ones go there.
    fn take_pages(&mut self, pages: u32) -> Result<PageRun, HeapError> {
        self.pools.take_pages(pages).map_err(|error| {
            let spare = self.spares.drop_all();
            let error = if spare.is_empty() { error } else { HeapError::Soon };
            spare.into_iter().for_each(|run| self.pools.retire_pages(run));
            error
        })
    }

    /// A block for a record of `bytes` bytes, and whether nobody can know of any record there, not even of one that is gone.
    ///
    /// # Errors
    /// As [`Heap::allocate`].
    pub fn allocate_unknown(&mut self, bytes: usize) -> Result<(Place, bool), HeapError> {
        let is_spare = matches!(class_of(bytes), SizeClass::Pages(pages) if self.spares.has(pages));
        Ok((self.allocate(bytes)?, !is_spare))
    }

    fn allocate_block(&mut self, class: usize) -> Result<Place, HeapError> {
        let start = match self.classes[class].open.last() {
            Some(&start) => start,
            None => self.open_slab(class)?,
        };
        let slab = self.slabs.get_mut(&start).expect("open slabs exist");
        let block = slab.free.pop().expect("open slabs have a free block");
        if slab.free.is_empty() {
            self.classes[class].open.pop();
        }
        Ok(Place { chunk: start.chunk, unit: start.unit + u32::from(block) * block_units(class) })
    }

    fn open_slab(&mut self, class: usize) -> Result<Place, HeapError> {
        let run = self.take_pages(slab_pages(class))?;
        let blocks = slab_pages(class) * PAGE_UNITS / block_units(class);
        let free = (0..blocks as u16).rev().collect();
        let start = run.start();
        self.slabs.insert(start, Slab { run, free });
        self.classes[class].open.push(start);
        Ok(start)
    }

    /// Gives back a block that nobody can know of.
    pub fn give_back(&mut self, place: Place, bytes: usize) {
        match class_of(bytes) {
            SizeClass::Pages(pages) => self.pools.return_pages(PageRun::at(place, pages)),
            SizeClass::Block(_) => self.free(place, bytes),
        }
    }

    /// Gives back the block of a record of `bytes` bytes.
    ///
    /// # Panics
    /// When no such block was given out: the index is then wrong, and going on would corrupt it.
    pub fn free(&mut self, place: Place, bytes: usize) {
        let class = match class_of(bytes) {
            SizeClass::Pages(pages) => {
                let gone = self.spares.keep(place, pages);
                return gone.into_iter().for_each(|run| self.pools.retire_pages(run));
            }
            SizeClass::Block(class) => class,
        };
        let pages = slab_pages(class);
        let start = Place { chunk: place.chunk, unit: place.unit / (pages * PAGE_UNITS) * (pages * PAGE_UNITS) };
        let slab = self.slabs.get_mut(&start).expect("a freed block lies in a slab of its class");
        slab.free.push(((place.unit - start.unit) / block_units(class)) as u16);
        let blocks = (pages * PAGE_UNITS / block_units(class)) as usize;
        let was_full = slab.free.len() == 1;
        if was_full {
            self.classes[class].open.push(start);
        }
        // The last empty slab of a class stays, or a key updated back and forth would move pages each time.
        if slab.free.len() == blocks && self.classes[class].open.len() > 1 {
            self.classes[class].open.retain(|&open| open != start);
            let slab = self.slabs.remove(&start).expect("just looked up");
            self.pools.retire_pages(slab.run);
        }
    }
}

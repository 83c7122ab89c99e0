//! Slabs of one worker.

use super::size_class::{CLASSES, PAGE_UNITS, SizeClass, block_units, class_of, slab_pages};
use crate::pools::{PageRun, Pools};
use sidewire_common::layout::location::Place;
use std::collections::HashMap;
use std::sync::Arc;

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
    slabs: HashMap<Place, Slab>,
    classes: Vec<Class>,
}

impl Heap {
    /// An empty heap over the server's pools.
    #[must_use]
    pub fn new(pools: Arc<Pools>) -> Self {
        Self { pools, slabs: HashMap::new(), classes: (0..CLASSES).map(|_| Class::default()).collect() }
    }

    /// A block for a record of `bytes` bytes.
    ///
    /// # Errors
    /// When there is no memory now, or at all.
    pub fn allocate(&mut self, bytes: usize) -> Result<Place, HeapError> {
        match class_of(bytes) {
            SizeClass::Pages(pages) => Ok(self.pools.take_pages(pages)?.start()),
            SizeClass::Block(class) => self.allocate_block(class),
        }
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
        let run = self.pools.take_pages(slab_pages(class))?;
        let blocks = slab_pages(class) * PAGE_UNITS / block_units(class);
        let free = (0..blocks as u16).rev().collect();
        let start = run.start();
        self.slabs.insert(start, Slab { run, free });
        self.classes[class].open.push(start);
        Ok(start)
    }

    /// Gives back the block of a record of `bytes` bytes.
    ///
    /// # Panics
    /// When no such block was given out: the index is then wrong, and going on would corrupt it.
    pub fn free(&mut self, place: Place, bytes: usize) {
        let class = match class_of(bytes) {
            SizeClass::Pages(pages) => return self.pools.retire_pages(PageRun::at(place, pages)),
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

//! Runs of heap pages: first fit over a bitmap a chunk.

use crate::heap::{PAGE_BYTES, PAGE_UNITS};
use sidewire_common::layout::location::Place;

/// Neighbouring pages of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    chunk: u16,
    first: u32,
    count: u32,
}

impl PageRun {
    /// The run of `count` pages that begins at `start`.
    #[must_use]
    pub fn at(start: Place, count: u32) -> Self {
        debug_assert!(start.unit.is_multiple_of(PAGE_UNITS));
        Self { chunk: start.chunk, first: start.unit / PAGE_UNITS, count }
    }

    /// Its first unit.
    #[must_use]
    pub fn start(self) -> Place {
        Place { chunk: self.chunk, unit: self.first * PAGE_UNITS }
    }
}

struct ChunkPages {
    number: u16,
    /// One bit a page, set when free.
    free: Vec<u64>,
    pages: u32,
    /// No page below it is free.
    hint: u32,
}

/// Which pages are free.
#[derive(Default)]
pub(super) struct PageMap {
    chunks: Vec<ChunkPages>,
    free: u64,
    total: u64,
}

impl PageMap {
    pub(super) fn open(&mut self, number: u16, bytes: usize) {
        let pages = u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX);
        let mut chunk = ChunkPages { number, free: vec![0; pages.div_ceil(64) as usize], pages, hint: 0 };
        chunk.set(0, pages, true);
        self.free += u64::from(pages);
        self.total += u64::from(pages);
        self.chunks.push(chunk);
    }

    pub(super) fn take(&mut self, count: u32) -> Option<PageRun> {
        let align = if count.is_power_of_two() { count } else { 1 };
        let (number, first) = self.chunks.iter_mut().find_map(|c| Some((c.number, c.take(count, align)?)))?;
        self.free -= u64::from(count);
        Some(PageRun { chunk: number, first, count })
    }

    pub(super) fn give(&mut self, run: PageRun) {
        let chunk = self.chunks.iter_mut().find(|c| c.number == run.chunk).expect("a run lies in an open chunk");
        debug_assert!((run.first..run.first + run.count).all(|page| !chunk.is_free(page)), "given back twice");
        chunk.set(run.first, run.count, true);
        chunk.hint = chunk.hint.min(run.first);
        self.free += u64::from(run.count);
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free * PAGE_BYTES as u64
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total * PAGE_BYTES as u64
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.total_bytes() - self.free_bytes()
    }
}

impl ChunkPages {
    fn is_free(&self, page: u32) -> bool {
        self.free[page as usize / 64] >> (page % 64) & 1 == 1
    }

    fn set(&mut self, first: u32, count: u32, free: bool) {
        for page in first..first + count {
            let bit = 1u64 << (page % 64);
            let word = &mut self.free[page as usize / 64];
            *word = if free { *word | bit } else { *word & !bit };
        }
    }

    fn take(&mut self, count: u32, align: u32) -> Option<u32> {
        let mut first = self.hint.next_multiple_of(align);
        let mut only_taken_so_far = first == self.hint;
        while first + count <= self.pages {
            // The last page of the run that is taken: the next candidate begins behind it.
            match (first..first + count).rev().find(|&page| !self.is_free(page)) {
                None => {
                    self.set(first, count, false);
                    if only_taken_so_far {
                        self.hint = first + count;
                    }
                    return Some(first);
                }
                Some(taken) => {
                    only_taken_so_far &= count == 1;
                    first = (taken + 1).next_multiple_of(align);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Runs never overlap, are aligned, and all memory comes back.
        #[test]
        fn runs_never_overlap(steps in proptest::collection::vec((any::<bool>(), 1u32..40), 1..200)) {
            let mut map = PageMap::default();
            map.open(3, 256 * PAGE_BYTES);
            let mut held: Vec<PageRun> = Vec::new();
            for (take, number) in steps {
                if take {
                    if let Some(run) = map.take(number) {
                        prop_assert!(!number.is_power_of_two() || run.first % number == 0);
                        prop_assert!(run.first + run.count <= 256);
                        prop_assert!(held.iter().all(|h| h.first + h.count <= run.first || run.first + run.count <= h.first));
                        held.push(run);
                    }
                } else if !held.is_empty() {
                    let run = held.swap_remove(number as usize % held.len());
                    map.give(run);
                }
                let used: u32 = held.iter().map(|h| h.count).sum();
                prop_assert_eq!(map.used_bytes(), u64::from(used) * PAGE_BYTES as u64);
            }
            for run in held.drain(..) {
                map.give(run);
            }
            prop_assert!(map.take(256).is_some());
        }
    }
}

//! Cells of counters and locks that a session has resolved, for one layout epoch and one reign of their shards.

use sidewire_common::cluster::Reign;
use sidewire_common::layout::cell_reference::CellReference;
use std::collections::HashMap;

/// Cells that a session remembers at most.
const CELLS_MAX: usize = 1 << 16;

/// The cache; one for each session.
#[derive(Default)]
pub(crate) struct CellCache {
    epoch: u64,
    cells: HashMap<Box<[u8]>, (CellReference, u8, Reign)>,
}

impl CellCache {
    /// Forgets everything if the epoch is another one than before.
    #[inline]
    pub fn enter(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.cells.clear();
            self.epoch = epoch;
        }
    }

    /// The cell of `key`, if it is known to hold a record of `kind` in this reign.
    #[inline]
    pub fn find(&self, key: &[u8], kind: u8, reign: Reign) -> Option<CellReference> {
        self.cells.get(key).filter(|(_, known, of)| *known == kind && *of == reign).map(|(cell, ..)| *cell)
    }

    /// The key was resolved.
    pub fn learned(&mut self, key: &[u8], kind: u8, reign: Reign, cell: CellReference) {
        if self.cells.len() >= CELLS_MAX {
            self.cells.clear();
        }
        self.cells.insert(key.into(), (cell, kind, reign));
    }

    /// The key's cell is retired.
    pub fn forget(&mut self, key: &[u8]) {
        self.cells.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_what_is_known() {
        let mut cache = CellCache::default();
        let cell = CellReference { index: 5, generation: 2 };
        cache.enter(1);
        cache.learned(b"k", 1, 7, cell);
        assert_eq!((cache.find(b"k", 1, 7), cache.find(b"k", 3, 7)), (Some(cell), None));
        assert_eq!(cache.find(b"k", 1, 8), None, "the shard may have been elsewhere since");
        cache.enter(2);
        assert_eq!(cache.find(b"k", 1, 7), None);
    }
}

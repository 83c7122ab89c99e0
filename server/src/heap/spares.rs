//! Spare runs: pages of a large record that was replaced, kept for the next record of as many pages.
//!
//! Such a run is like a block: the next record begins where the last one did, so a late reader finds a record's beginning
//! there, whose checksum tells it. Only as anything else its pages must wait for an epoch. Without spares a large key that is
//! written again and again would take fresh pages each time and wait for clients' heartbeats.

use crate::pools::PageRun;
use sidewire_common::layout::location::Place;
use std::collections::VecDeque;

/// Most spare runs of a worker.
const RUNS_MAX: usize = 4;

/// The spare runs of one worker, oldest first.
pub(super) struct Spares {
    runs: VecDeque<(Place, u32)>,
    pages: u32,
    pages_max: u32,
}

impl Spares {
    /// None yet, and never more than `pages_max` pages.
    pub fn up_to(pages_max: u32) -> Self {
        Self { runs: VecDeque::new(), pages: 0, pages_max }
    }

    /// Whether there is a run of exactly so many pages.
    pub fn has(&self, pages: u32) -> bool {
        self.runs.iter().any(|&(_, of)| of == pages)
    }

    /// A run of exactly so many pages, if there is one.
    pub fn take(&mut self, pages: u32) -> Option<Place> {
        let at = self.runs.iter().position(|&(_, of)| of == pages)?;
        self.pages -= pages;
        self.runs.remove(at).map(|(place, _)| place)
    }

    /// Keeps a run; tells which must go for it, itself perhaps.
    pub fn keep(&mut self, place: Place, pages: u32) -> Vec<PageRun> {
        self.runs.push_back((place, pages));
        self.pages += pages;
        let mut gone = Vec::new();
        while self.runs.len() > RUNS_MAX || self.pages > self.pages_max {
            gone.extend(self.drop_oldest());
        }
        gone
    }

    fn drop_oldest(&mut self) -> Option<PageRun> {
        let (place, pages) = self.runs.pop_front()?;
        self.pages -= pages;
        Some(PageRun::at(place, pages))
    }

    /// All go: memory is wanted.
    pub fn drop_all(&mut self) -> Vec<PageRun> {
        std::iter::from_fn(|| self.drop_oldest()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(page: u32) -> Place {
        Place { chunk: 1, unit: page * crate::heap::PAGE_UNITS }
    }

    #[test]
    fn spares_are_bounded_and_fit_exactly() {
        let mut spares = Spares::up_to(10);
        assert_eq!(spares.keep(at(0), 11), [PageRun::at(at(0), 11)], "too large to be kept");
        assert!(spares.keep(at(20), 4).is_empty() && spares.keep(at(30), 6).is_empty());
        assert_eq!(spares.take(5), None);
        assert_eq!(spares.keep(at(40), 1), [PageRun::at(at(20), 4)], "the oldest goes");
        assert_eq!(spares.take(6), Some(at(30)));
        assert_eq!(spares.take(6), None);
        assert_eq!(spares.drop_all(), [PageRun::at(at(40), 1)]);
        assert!((0..4).all(|n| spares.keep(at(n), 1).is_empty()));
        assert_eq!(spares.keep(at(9), 1).len(), 1, "never more than so many");
    }
}

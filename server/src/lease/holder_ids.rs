//! Holder ids: what a client is called in lock words.

use sidewire_common::layout::lock_word::HOLDER_MAX;
use std::collections::HashSet;

/// Ids in use, and where the search for the next one begins.
///
/// Ids go round: a freed one comes back only after all others were given out, so that a lock word written late by
/// a client that was paused does not name a client of today.
#[derive(Debug)]
pub struct HolderIds {
    used: HashSet<u32>,
    next: u32,
    max: u32,
}

impl Default for HolderIds {
    fn default() -> Self {
        Self::up_to(HOLDER_MAX)
    }
}

impl HolderIds {
    /// Ids from 1 to `max`.
    #[must_use]
    pub fn up_to(max: u32) -> Self {
        Self { used: HashSet::new(), next: 1, max }
    }

    /// An id that nobody has; `None` when all are taken.
    #[must_use]
    pub fn take(&mut self) -> Option<u32> {
        if self.used.len() as u64 >= u64::from(self.max) {
            return None;
        }
        loop {
            let id = self.next;
            self.next = if id >= self.max { 1 } else { id + 1 };
            if self.used.insert(id) {
                return Some(id);
            }
        }
    }

    /// Gives an id back.
    pub fn give(&mut self, id: u32) {
        self.used.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_go_round() {
        let mut ids = HolderIds::up_to(3);
        assert_eq!((ids.take(), ids.take()), (Some(1), Some(2)));
        ids.give(1);
        assert_eq!(ids.take(), Some(3), "a freed id waits for its turn");
        assert_eq!(ids.take(), Some(1));
        assert_eq!(ids.take(), None, "all are taken");
        ids.give(2);
        assert_eq!(ids.take(), Some(2));
    }

    #[test]
    fn zero_and_the_retired_mark_are_never_given_out() {
        let mut ids = HolderIds { next: HOLDER_MAX, ..HolderIds::default() };
        assert_eq!((ids.take(), ids.take()), (Some(HOLDER_MAX), Some(1)));
    }
}

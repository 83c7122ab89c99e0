//! Space in a staging ring: taken in order, given back in any order, never wrapping.
//!
//! A request that does not fit before the end of the ring begins at its start, and the tail is skipped.

use crate::layout::record::UNIT_BYTES;
use std::collections::VecDeque;

/// A run of units that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    number: u64,
    /// First unit.
    pub unit: u32,
}

struct Taken {
    units: u32,
    free: bool,
}

/// The ring's bookkeeping.
pub struct Ring {
    units: u32,
    /// Where the next run begins.
    head: u32,
    used: u32,
    /// Number of the oldest run.
    oldest: u64,
    runs: VecDeque<Taken>,
}

impl Ring {
    /// An empty ring of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        Self { units, head: 0, used: 0, oldest: 0, runs: VecDeque::new() }
    }

    /// Takes space for `bytes` bytes, if there is some.
    pub fn take(&mut self, bytes: usize) -> Option<Span> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        if self.used == 0 {
            self.head = 0;
        }
        let to_end = self.units - self.head;
        let skipped = if units <= to_end { 0 } else { to_end };
        if units == 0 || self.used.checked_add(skipped)?.checked_add(units)? > self.units {
            return None;
        }
        if skipped > 0 {
            self.push(skipped, true);
        }
        let unit = self.head;
        let number = self.push(units, false);
        Some(Span { number, unit })
    }

    fn push(&mut self, units: u32, free: bool) -> u64 {
        self.used += units;
        self.head = (self.head + units) % self.units;
        self.runs.push_back(Taken { units, free });
        self.oldest + self.runs.len() as u64 - 1
    }

    /// Gives space back, once for each span.
    pub fn give_back(&mut self, span: Span) {
        let Some(at) = span.number.checked_sub(self.oldest).and_then(|n| usize::try_from(n).ok()) else { return };
        if at + 1 == self.runs.len() {
            // The latest: as if it had never been taken.
            self.used -= self.runs.pop_back().map_or(0, |run| run.units);
            self.head = span.unit;
        } else if let Some(run) = self.runs.get_mut(at) {
            run.free = true;
        }
        while let Some(run) = self.runs.front().filter(|run| run.free) {
            self.used -= run.units;
            self.oldest += 1;
            self.runs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_tail_is_skipped_and_comes_back() {
        let mut ring = Ring::new(10 * UNIT_BYTES);
        let first = ring.take(6 * UNIT_BYTES).unwrap();
        let second = ring.take(2 * UNIT_BYTES).unwrap();
        assert_eq!((first.unit, second.unit), (0, 6));
        assert_eq!(ring.take(3 * UNIT_BYTES), None, "two at the end and none at the start");
        ring.give_back(first);
        let third = ring.take(3 * UNIT_BYTES).unwrap();
        assert_eq!(third.unit, 0);
        ring.give_back(third);
        ring.give_back(second);
        assert_eq!(ring.take(10 * UNIT_BYTES).unwrap().unit, 0, "an empty ring begins anew");
    }

    #[test]
    fn the_latest_is_undone() {
        let mut ring = Ring::new(10 * UNIT_BYTES);
        let first = ring.take(8 * UNIT_BYTES).unwrap();
        let second = ring.take(UNIT_BYTES).unwrap();
        ring.give_back(second);
        let again = ring.take(2 * UNIT_BYTES).unwrap();
        assert_eq!((second.unit, again.unit), (8, 8));
        ring.give_back(first);
        let third = ring.take(7 * UNIT_BYTES).unwrap();
        ring.give_back(third);
        assert_eq!((third.unit, ring.take(3 * UNIT_BYTES).unwrap().unit), (0, 0));
    }

    proptest! {
        #[test]
        fn runs_never_overlap_nor_leave_the_ring(
            units in 4u32..64,
            steps in proptest::collection::vec((any::<bool>(), 1usize..1200, any::<prop::sample::Index>()), 1..300),
        ) {
            let mut ring = Ring::new(units as usize * UNIT_BYTES);
            let mut held: Vec<(Span, u32)> = Vec::new();
            for (take, bytes, which) in steps {
                if take || held.is_empty() {
                    let Some(span) = ring.take(bytes) else { continue };
                    let length = bytes.div_ceil(UNIT_BYTES) as u32;
                    prop_assert!(span.unit + length <= units);
                    for (other, other_length) in &held {
                        prop_assert!(span.unit + length <= other.unit || other.unit + other_length <= span.unit);
                    }
                    held.push((span, length));
                } else {
                    let (span, _) = held.swap_remove(which.index(held.len()));
                    ring.give_back(span);
                }
            }
            for (span, _) in held.drain(..) {
                ring.give_back(span);
            }
            prop_assert!(ring.take(units as usize * UNIT_BYTES).is_some(), "everything came back");
        }
    }
}

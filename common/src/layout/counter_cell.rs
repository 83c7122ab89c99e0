//! Counter cells: one aligned word each, on a cache line of its own.
//!
//! A signed value within ±2^60. Deltas stay within ±2^40, so no add that was told `OutOfRange` or *frozen* can
//! carry the word into another class. At or above 2^61 the cell is frozen: an add did not count. Freezing adds
//! 2^62 by compare-and-swap, never by fetch-and-add: a retried one would add twice.

/// Bytes between cells.
pub const CELL_BYTES: usize = 64;
/// Largest magnitude of a counted value.
pub const VALUE_MAX: i64 = 1 << 60;
/// Largest magnitude of one add.
pub const DELTA_MAX: i64 = 1 << 40;
const FROZEN_FROM: i64 = 1 << 61;
const FREEZE: i64 = 1 << 62;
const _: () = assert!(VALUE_MAX + DELTA_MAX < FROZEN_FROM && FREEZE - VALUE_MAX > FROZEN_FROM);

/// What the word before an add, or the word that was read, says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterState {
    /// The value; the add counted.
    Counted(i64),
    /// Beyond ±2^60; the add counted, and the counter needs attention.
    OutOfRange(i64),
    /// The cell is retired; the add did not count. Resolve the key again.
    Frozen,
}

/// What `word` says.
#[must_use]
#[inline]
pub const fn classify(word: u64) -> CounterState {
    let value = word as i64;
    if value >= FROZEN_FROM {
        CounterState::Frozen
    } else if value > VALUE_MAX || value < -VALUE_MAX {
        CounterState::OutOfRange(value)
    } else {
        CounterState::Counted(value)
    }
}

/// The frozen word of a value that is not frozen yet.
#[must_use]
pub const fn frozen(value: i64) -> u64 {
    value.wrapping_add(FREEZE) as u64
}

/// The value inside a frozen word, as far as adds after the freeze have not changed it.
#[must_use]
pub const fn thawed(word: u64) -> i64 {
    (word as i64).wrapping_sub(FREEZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counted_value_freezes_into_the_frozen_class() {
        for value in [-VALUE_MAX, -1, 0, 1, VALUE_MAX] {
            assert_eq!(classify(value as u64), CounterState::Counted(value));
            assert_eq!(classify(frozen(value)), CounterState::Frozen);
            assert_eq!(thawed(frozen(value)), value);
        }
        assert_eq!(classify((VALUE_MAX + 1) as u64), CounterState::OutOfRange(VALUE_MAX + 1));
    }
}

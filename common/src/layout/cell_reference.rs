//! Cell references: the value of a counter's, sequence's or lock's record. Cell index 4 bytes, generation 4 bytes.
//!
//! The generation tells two lives of one cell apart in logs and tools; the protocol relies on epochs instead.

use super::wire::{put, u32_at};

/// Bytes of a reference.
pub const REFERENCE_BYTES: usize = 8;

/// Names a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CellReference {
    /// Its index in the cells region.
    pub index: u32,
    /// How often it was given out before.
    pub generation: u32,
}

impl CellReference {
    /// The record's value.
    #[must_use]
    pub fn encode(self) -> [u8; REFERENCE_BYTES] {
        let mut bytes = [0; REFERENCE_BYTES];
        put(&mut bytes, 0, &self.index.to_le_bytes());
        put(&mut bytes, 4, &self.generation.to_le_bytes());
        bytes
    }

    /// From a record's value; `None` when it has another length or names no cell of `cell_count`.
    #[must_use]
    pub fn decode(value: &[u8], cell_count: u32) -> Option<Self> {
        let bytes = <&[u8; REFERENCE_BYTES]>::try_from(value).ok()?;
        let reference = Self { index: u32_at(bytes, 0), generation: u32_at(bytes, 4) };
        (reference.index < cell_count).then_some(reference)
    }

    /// Byte offset of the cell in its region.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.index as u64 * super::counter_cell::CELL_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_come_back_and_are_bounded() {
        let reference = CellReference { index: 5, generation: 2 };
        assert_eq!(reference.encode(), [5, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(CellReference::decode(&reference.encode(), 6), Some(reference));
        assert_eq!(CellReference::decode(&reference.encode(), 5), None);
        assert_eq!(CellReference::decode(&[0; 7], 6), None);
    }
}

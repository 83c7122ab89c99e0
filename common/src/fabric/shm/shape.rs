//! Where things are in the memory of an endpoint. Both ends compute it from four figures.
//!
//! | memory | at | field | written by |
//! | --- | --- | --- | --- |
//! | A | 0 | sleeper word | client |
//! | A | 64 | messages taken | client |
//! | A | 128 | ring of immediates | client |
//! | A | next line | messages to the server | client |
//! | A | next page | staging ring | client |
//! | B | 0 | immediates taken | server |
//! | B | 64 | messages taken | server |
//! | B | 128 | messages to the client | server |
//! | S | 0 | sleeper word of the server's port | server |
//!
//! What one end writes often and the other reads often is alone on its cache line.

use super::messages::SLOT_BYTES;
use super::ring::ENTRY_BYTES;
use crate::limits::STAGING_BYTES_MAX;
use crate::memory::PAGE_BYTES;
use std::ops::Range;

const LINE_BYTES: usize = 64;
const HEADER_BYTES: usize = 2 * LINE_BYTES;
/// Entries of the longest ring.
pub(super) const RING_ENTRIES_MAX: u32 = 1 << 14;

/// The first word of A and of S.
pub(super) const SLEEPER: Range<usize> = 0..8;
/// The second line of A: messages taken by the client.
pub(super) const CLIENT_TAKEN: Range<usize> = LINE_BYTES..LINE_BYTES + 8;
/// The first line of B: immediates taken by the server.
pub(super) const IMMEDIATES_TAKEN: Range<usize> = 0..8;
/// The second line of B: messages taken by the server.
pub(super) const SERVER_TAKEN: Range<usize> = LINE_BYTES..LINE_BYTES + 8;

/// The figures that decide it. A ring of no entries is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Shape {
    /// Entries of the ring of immediates.
    pub(super) immediates: u32,
    /// Messages towards the server.
    pub(super) up: u32,
    /// Messages towards the client.
    pub(super) down: u32,
    /// Bytes of the staging ring.
    pub(super) staging_bytes: u32,
}

impl Shape {
    /// The field that is out of bounds, if one is.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let ring = |entries: u32| entries == 0 || (entries.is_power_of_two() && entries <= RING_ENTRIES_MAX);
        match self {
            Self { immediates, .. } if !ring(*immediates) => Some("ring of immediates"),
            Self { up, .. } if !ring(*up) => Some("message ring of the client"),
            Self { down, .. } if !ring(*down) => Some("message ring of the server"),
            Self { staging_bytes, .. } if *staging_bytes as usize > STAGING_BYTES_MAX => Some("staging ring"),
            _ => None,
        }
    }

    /// In A.
    pub(super) fn immediates(&self) -> Range<usize> {
        HEADER_BYTES..HEADER_BYTES + self.immediates as usize * ENTRY_BYTES
    }

    /// In A.
    pub(super) fn up(&self) -> Range<usize> {
        let start = self.immediates().end.next_multiple_of(LINE_BYTES);
        start..start + self.up as usize * SLOT_BYTES
    }

    /// In A.
    pub(super) fn staging(&self) -> Range<usize> {
        let start = self.up().end.next_multiple_of(PAGE_BYTES);
        start..start + self.staging_bytes as usize
    }

    /// Length of A.
    pub(super) fn client_bytes(&self) -> usize {
        self.staging().end.next_multiple_of(PAGE_BYTES)
    }

    /// In B.
    pub(super) fn down(&self) -> Range<usize> {
        HEADER_BYTES..HEADER_BYTES + self.down as usize * SLOT_BYTES
    }

    /// Length of B.
    pub(super) fn server_bytes(&self) -> usize {
        self.down().end.next_multiple_of(PAGE_BYTES)
    }
}

const _: () = {
    assert!(CLIENT_TAKEN.end <= HEADER_BYTES && SERVER_TAKEN.end <= HEADER_BYTES);
    assert!(HEADER_BYTES.is_multiple_of(LINE_BYTES) && PAGE_BYTES.is_multiple_of(LINE_BYTES));
    assert!(STAGING_BYTES_MAX <= u32::MAX as usize);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_fit() {
        let shape = Shape { immediates: 64, up: 16, down: 128, staging_bytes: 65_536 };
        assert_eq!(shape.fault(), None);
        assert_eq!(shape.immediates(), 128..640);
        assert_eq!(shape.up(), 640..640 + 16 * 320);
        assert_eq!(shape.staging(), 8192..8192 + 65_536);
        assert_eq!(shape.client_bytes(), 8192 + 65_536);
        assert_eq!(shape.down(), 128..128 + 128 * 320);
        assert_eq!(shape.server_bytes(), 45_056);
    }

    #[test]
    fn the_field_at_fault_is_named() {
        assert_eq!(Shape { immediates: 3, ..Shape::default() }.fault(), Some("ring of immediates"));
        assert_eq!(Shape { up: 1 << 15, ..Shape::default() }.fault(), Some("message ring of the client"));
        assert_eq!(Shape { down: 5, ..Shape::default() }.fault(), Some("message ring of the server"));
        assert_eq!(Shape { staging_bytes: u32::MAX, ..Shape::default() }.fault(), Some("staging ring"));
    }
}

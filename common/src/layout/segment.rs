//! Segments: 64 home buckets, then 8 overflow buckets. Keys never move within one.

use super::bucket::{BUCKET_BYTES, SLOTS};
use super::record::UNIT_BYTES;
use crate::key::HOME_BITS;

/// Home buckets of a segment.
pub const HOME_BUCKETS: u32 = 1 << HOME_BITS;
/// Overflow buckets of a segment.
pub const OVERFLOW_BUCKETS: u32 = 8;
/// All buckets of a segment.
pub const BUCKETS: u32 = HOME_BUCKETS + OVERFLOW_BUCKETS;
/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = BUCKETS as usize * BUCKET_BYTES;
/// Bytes of a segment in units.
pub const SEGMENT_UNITS: u32 = (SEGMENT_BYTES / UNIT_BYTES) as u32;
/// Locations of a segment.
pub const SEGMENT_SLOTS: usize = BUCKETS as usize * SLOTS;
const _: () = assert!(SEGMENT_BYTES.is_multiple_of(UNIT_BYTES));

/// Byte offset of home bucket `index` in its segment.
#[must_use]
#[inline]
pub const fn home_offset(index: u32) -> u64 {
    index as u64 * BUCKET_BYTES as u64
}

/// Byte offset of overflow bucket `index` in its segment.
#[must_use]
#[inline]
pub const fn overflow_offset(index: u32) -> u64 {
    (HOME_BUCKETS + index) as u64 * BUCKET_BYTES as u64
}

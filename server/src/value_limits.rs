//! How long values may be: a record lies in one chunk.

use crate::store::StartError;
use sidewire_common::layout::record::{UNIT_BYTES, record_bytes};
use sidewire_common::limits::{KEY_BYTES_MAX, VALUE_BYTES_DEFAULT, VALUE_BYTES_MAX, value_bytes_max};

/// A default limit makes chunks larger only where they stay below this part of the memory.
const CHUNK_SHARE: u64 = 8;

/// Limits of values, as the operator set them, or as they are in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValueLimits {
    /// Longest value, bytes; `None` = 64 MiB, or what a chunk holds.
    pub longest: Option<u64>,
    /// Longest value that one request carries, bytes; `None` = half a staging ring. Longer ones come in parts.
    pub in_one_request: Option<usize>,
}

/// Bytes of the longest record with a value of `value` bytes.
fn room_for(value: u64) -> u64 {
    value + (record_bytes(KEY_BYTES_MAX, 0) as u64).next_multiple_of(UNIT_BYTES as u64)
}

impl ValueLimits {
    /// Bytes that a chunk must have for these limits, if it may be that large. 0 = any.
    pub(crate) fn chunk_bytes_for(self, memory_bytes: u64) -> u64 {
        match self.longest {
            Some(longest) => room_for(longest),
            None => Some(room_for(VALUE_BYTES_DEFAULT as u64)).filter(|&bytes| bytes <= memory_bytes / CHUNK_SHARE).unwrap_or(0),
        }
    }

    /// The limits in force with rings and chunks of these sizes.
    ///
    /// # Errors
    /// When the longest value that was asked for does not fit a chunk.
    pub(crate) fn within(self, staging_bytes: usize, chunk_bytes: u64) -> Result<Self, StartError> {
        let room = chunk_bytes.saturating_sub(room_for(0)).min(VALUE_BYTES_MAX as u64);
        let half_ring = value_bytes_max(staging_bytes);
        let longest = match self.longest {
            Some(longest) if longest > room => {
                return Err(StartError::Setting {
                    setting: "value_max",
                    value: format!("{longest} bytes"),
                    expected: format!("at most {room} bytes with chunks of {chunk_bytes} bytes; raise --chunk or --memory"),
                });
            }
            Some(longest) => longest,
            None => room.min(VALUE_BYTES_DEFAULT.max(half_ring) as u64),
        };
        let in_one_request = self.in_one_request.unwrap_or(half_ring).min(half_ring).min(longest as usize);
        Ok(Self { longest: Some(longest), in_one_request: Some(in_one_request) })
    }

    /// Longest value, bytes.
    pub(crate) fn longest(self) -> usize {
        self.longest.map_or(VALUE_BYTES_DEFAULT, |bytes| bytes as usize)
    }

    /// Longest value that one request carries, bytes.
    pub(crate) fn in_one_request(self) -> usize {
        self.in_one_request.unwrap_or_else(|| self.longest())
    }

    /// Bytes of the longest record.
    pub(crate) fn record_bytes(self) -> u64 {
        room_for(self.longest() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_never_exceeds_what_a_chunk_holds() {
        let limits = ValueLimits::default();
        assert_eq!(limits.within(1 << 20, 16 << 20).unwrap().longest(), (16 << 20) - 4160);
        assert_eq!(limits.within(1 << 20, 128 << 20).unwrap().longest(), 64 << 20);
        assert_eq!(limits.within(256 << 20, 1 << 30).unwrap().longest(), 128 << 20, "half a large ring counts for more");
        let asked = ValueLimits { longest: Some(32 << 20), ..limits };
        assert!(asked.within(1 << 20, 16 << 20).is_err());
        assert_eq!(asked.within(1 << 20, asked.chunk_bytes_for(0)).unwrap().longest(), 32 << 20);
        let small = ValueLimits { longest: Some(1000), ..limits };
        assert_eq!(small.within(1 << 20, 16 << 20).unwrap().in_one_request(), 1000);
    }

    #[test]
    fn a_default_makes_chunks_larger_where_memory_allows() {
        assert!(ValueLimits::default().chunk_bytes_for(1 << 30) > 64 << 20);
        assert_eq!(ValueLimits::default().chunk_bytes_for(256 << 20), 0);
    }
}

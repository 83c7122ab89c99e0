//! Keys of a fixed width, written into one buffer: `user` and the record's number, zero-padded.

use sidewire_common::limits::KEY_BYTES_MAX;

/// What keys begin with where the width leaves room for it.
const PREFIX: &[u8] = b"user";
/// Digits of the largest record number.
const DIGITS_MAX: usize = 20;

/// Bytes of the keys of counters and locks.
const NAMED_BYTES: usize = 16;

/// Writes keys; each overwrites the one before it.
#[derive(Debug, Clone)]
pub struct KeyFormat {
    key: Box<[u8]>,
    /// Digits begin here.
    from: usize,
    /// The first digit that may be none of the padding.
    first: usize,
}

/// A width that cannot hold the keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyWidthError {
    /// No key, or one that no server takes.
    #[error("a key has 1 to {KEY_BYTES_MAX} bytes, not {0}")]
    OutOfRange(u64),
    /// Fewer digits than the largest record number has.
    #[error("{records} records have no distinct keys of {width} bytes")]
    TooNarrow {
        /// The width.
        width: u64,
        /// The number of records.
        records: u64,
    },
}

impl KeyFormat {
    /// Keys of `width` bytes for records 0 to `records - 1`.
    pub fn new(width: u64, records: u64) -> Result<Self, KeyWidthError> {
        if width == 0 || width > KEY_BYTES_MAX as u64 {
            return Err(KeyWidthError::OutOfRange(width));
        }
        let digits = records.saturating_sub(1).checked_ilog10().unwrap_or(0) + 1;
        if width < u64::from(digits) {
            return Err(KeyWidthError::TooNarrow { width, records });
        }
        let mut key = vec![b'0'; width as usize].into_boxed_slice();
        // Inserts of a run may take more digits than the records it began with.
        if key.len() >= PREFIX.len() + 12.max(digits as usize) {
            key[..PREFIX.len()].copy_from_slice(PREFIX);
        }
        let digits = key.len().min(DIGITS_MAX);
        let from = if key[0] == PREFIX[0] { (key.len() - digits).max(PREFIX.len()) } else { 0 };
        Ok(Self { first: key.len(), key, from })
    }

    /// Keys of counters and locks, which begin with a word of their own.
    pub fn named(prefix: [u8; 4]) -> Self {
        let mut key = vec![b'0'; NAMED_BYTES].into_boxed_slice();
        key[..prefix.len()].copy_from_slice(&prefix);
        Self { first: key.len(), key, from: prefix.len() }
    }

    /// The key of record `index`.
    #[inline]
    pub fn write(&mut self, index: u64) -> &[u8] {
        let mut rest = index;
        let mut at = self.key.len();
        while rest > 0 && at > self.from {
            at -= 1;
            self.key[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        debug_assert_eq!(rest, 0, "record {index} has no key of {} bytes", self.key.len());
        // What a longer number left there.
        if self.first < at {
            self.key[self.first..at].fill(b'0');
        }
        self.first = at;
        &self.key
    }

    /// Records that have distinct keys of this width.
    pub fn records_max(&self) -> u64 {
        let digits = if self.key[0] == PREFIX[0] { self.key.len() - PREFIX.len() } else { self.key.len() };
        10u64.checked_pow(digits.min(DIGITS_MAX) as u32).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_width_and_differ() {
        let mut format = KeyFormat::new(16, 1_000_000).expect("it fits");
        assert_eq!(format.write(0), b"user000000000000");
        assert_eq!(format.write(987_654_321), b"user000987654321");
        assert_eq!(format.write(7), b"user000000000007");
        assert_eq!(format.records_max(), 1_000_000_000_000);
        let mut narrow = KeyFormat::new(3, 1_000).expect("it fits");
        assert_eq!(narrow.write(999), b"999");
        assert_eq!(narrow.write(1), b"001");
        let mut wide = KeyFormat::new(40, 10).expect("it fits");
        assert_eq!(wide.write(u64::MAX), b"user000000000000000018446744073709551615");
        assert_eq!(wide.write(5), b"user000000000000000000000000000000000005");
    }

    #[test]
    fn a_width_that_cannot_hold_the_keys_is_refused() {
        assert_eq!(KeyFormat::new(0, 1).err(), Some(KeyWidthError::OutOfRange(0)));
        assert_eq!(KeyFormat::new(4_097, 1).err(), Some(KeyWidthError::OutOfRange(4_097)));
        assert_eq!(KeyFormat::new(3, 1_001).err(), Some(KeyWidthError::TooNarrow { width: 3, records: 1_001 }));
        assert!(KeyFormat::new(1, 10).is_ok());
    }
}

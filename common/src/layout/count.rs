//! A count that lies in its record: counters and sequences of a cluster with several copies. The count, signed, 8
//! bytes; 8 bytes of zero, which tell it from a [cell reference](super::cell_reference).

use super::wire::{put, u64_at};

/// Bytes of the record's value.
pub const COUNT_BYTES: usize = 16;

/// The record's value.
#[must_use]
pub fn encode(count: i64) -> [u8; COUNT_BYTES] {
    let mut bytes = [0; COUNT_BYTES];
    put(&mut bytes, 0, &count.to_le_bytes());
    bytes
}

/// From a record's value; `None` when it is no count.
#[must_use]
pub fn decode(value: &[u8]) -> Option<i64> {
    let bytes = <&[u8; COUNT_BYTES]>::try_from(value).ok()?;
    (u64_at(bytes, 8) == 0).then(|| u64_at(bytes, 0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_and_nothing_else_does() {
        assert_eq!(encode(-2), [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode(&encode(i64::MIN)), Some(i64::MIN));
        assert_eq!(decode(&[0; 8]), None);
        assert_eq!(decode(&[1; 16]), None);
    }
}

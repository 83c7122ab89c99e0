//! Values that prove themselves: which key, which version, every byte.

use std::fmt;

const HEAD_BYTES: usize = 16;

/// Least bytes of a stamped value.
pub const STAMPED_BYTES_MIN: usize = HEAD_BYTES;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn(pub String);

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Mixes two words into one; every bit depends on every bit (splitmix64).
#[must_use]
pub const fn mixed(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_add(b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A value of `bytes` bytes for key number `key`: number, version, then bytes that follow from both and the length.
///
/// # Panics
/// When `bytes` is too small for the head.
#[must_use]
pub fn stamp(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    assert!(bytes >= HEAD_BYTES);
    let mut value = Vec::with_capacity(bytes + 8);
    value.extend_from_slice(&key.to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    let seed = mixed(mixed(key, version), bytes as u64);
    for word in 0.. {
        if value.len() >= bytes {
            break;
        }
        value.extend_from_slice(&mixed(seed, word).to_le_bytes());
    }
    value.truncate(bytes);
    value
}

/// The version of a value that was stamped for key number `key`.
///
/// # Errors
/// When any byte differs from what was stamped, or it was stamped for another key.
pub fn version_of(value: &[u8], key: u64) -> Result<u64, Torn> {
    let (head, _) = value.split_at_checked(HEAD_BYTES).ok_or_else(|| Torn(format!("{} bytes only", value.len())))?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let version = word(8);
    if word(0) != key {
        return Err(Torn(format!("of key {}, not {key}", word(0))));
    }
    let whole = stamp(key, version, value.len());
    match whole.iter().zip(value).position(|(a, b)| a != b) {
        None => Ok(version),
        Some(at) => Err(Torn(format!("key {key}, version {version}: byte {at} of {} differs", value.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_seen() {
        let value = stamp(7, 9, 100);
        assert_eq!(version_of(&value, 7), Ok(9));
        assert!(version_of(&value, 8).is_err());
        assert!(version_of(&value[..99], 7).is_err(), "the length is part of it");
        for at in 0..100 {
            let mut torn = value.clone();
            torn[at] ^= 1;
            assert!(version_of(&torn, 7).is_err(), "byte {at}");
        }
    }
}

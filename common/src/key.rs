//! Keys: their limits, their hash and the `{tag}` that decides their shard.

use crate::limits::KEY_BYTES_MAX;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Why a key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No bytes at all.
    #[error("the key is empty; a key has 1 to {KEY_BYTES_MAX} bytes")]
    Empty,
    /// More bytes than a key may have.
    #[error("the key has {0} bytes; a key has 1 to {KEY_BYTES_MAX} bytes")]
    TooLong(usize),
}

/// Checks a key's length.
///
/// # Errors
/// When it is empty or longer than [`KEY_BYTES_MAX`].
#[inline]
pub const fn check(key: &[u8]) -> Result<(), KeyError> {
    if key.is_empty() {
        Err(KeyError::Empty)
    } else if key.len() > KEY_BYTES_MAX {
        Err(KeyError::TooLong(key.len()))
    } else {
        Ok(())
    }
}

/// Bits of the hash that name the shard, counted from the top.
pub const SHARD_BITS: u32 = 8;
/// Shards of a store.
pub const SHARD_COUNT: u32 = 1 << SHARD_BITS;
/// Bits of a fingerprint.
pub const FINGERPRINT_BITS: u32 = 12;
/// Bits that name the home bucket within a segment.
pub const HOME_BITS: u32 = 6;

/// Where a key belongs. From the top: shard 8 · directory bits; from the bottom: fingerprint 12 · home bucket 6.
///
/// The seed is random per store, so that keys cannot be crafted to collide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyHash(u64);

impl KeyHash {
    /// XXH3-64 of the key; if it holds a `{tag}`, the shard bits are those of the tag alone.
    #[must_use]
    #[inline]
    pub fn of(key: &[u8], seed: u64) -> Self {
        let whole = xxh3_64_with_seed(key, seed);
        match tag(key) {
            None => Self(whole),
            Some(tag) => {
                let low = u64::MAX >> SHARD_BITS;
                Self((xxh3_64_with_seed(tag, seed) & !low) | (whole & low))
            }
        }
    }

    /// The hash with these 64 bits, for tests and for figures that carry it.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// All 64 bits.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The shard, `0..SHARD_COUNT`.
    #[must_use]
    #[inline]
    pub const fn shard(self) -> u32 {
        (self.0 >> (64 - SHARD_BITS)) as u32
    }

    /// The shard's directory index of `directory_bits` bits.
    #[must_use]
    #[inline]
    pub const fn directory_index(self, directory_bits: u32) -> u32 {
        if directory_bits == 0 {
            return 0;
        }
        ((self.0 << SHARD_BITS) >> (64 - directory_bits)) as u32
    }

    /// The topmost 32 bits: what a segment's prefix is compared with.
    #[must_use]
    #[inline]
    pub const fn top32(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The 12-bit fingerprint.
    #[must_use]
    #[inline]
    pub const fn fingerprint(self) -> u16 {
        (self.0 & ((1 << FINGERPRINT_BITS) - 1)) as u16
    }

    /// The home bucket, `0..64`.
    #[must_use]
    #[inline]
    pub const fn home_bucket(self) -> u32 {
        ((self.0 >> FINGERPRINT_BITS) & ((1 << HOME_BITS) - 1)) as u32
    }
}

/// What stands between the first `{` and the next `}`, when it is not empty.
#[must_use]
#[inline]
pub fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&b| b == b'{')?;
    let length = key[open + 1..].iter().position(|&b| b == b'}')?;
    (length > 0).then(|| &key[open + 1..open + 1 + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_decides_the_shard_and_nothing_else() {
        let seed = 7;
        let lock = KeyHash::of(b"{user:7}.lock", seed);
        let data = KeyHash::of(b"profile{user:7}", seed);
        assert_eq!(lock.shard(), data.shard());
        assert_ne!(lock.raw(), data.raw());
        assert_eq!(lock.shard(), KeyHash::of(b"user:7", seed).shard());
    }

    #[test]
    fn empty_and_unclosed_tags_are_no_tags() {
        assert_eq!(tag(b"a{}b"), None);
        assert_eq!(tag(b"a{b"), None);
        assert_eq!(tag(b"a}b{c}"), Some(&b"c"[..]));
    }

    #[test]
    fn placement_is_pinned() {
        // A hash that moves a key is data loss: these values never change.
        let hash = KeyHash::of(b"sidewire", 1);
        assert_eq!(hash.raw(), 5_164_885_181_247_854_920);
        assert_eq!(hash.directory_index(0), 0);
        assert_eq!(KeyHash::from_raw(0xab12_3456_789a_bcde).shard(), 0xab);
        assert_eq!(KeyHash::from_raw(0xab12_3456_789a_bcde).directory_index(8), 0x12);
        assert_eq!(KeyHash::from_raw(0xab12_3456_789a_bcde).fingerprint(), 0xcde);
        assert_eq!(KeyHash::from_raw(0xab12_3456_789a_bcde).home_bucket(), 0x2b);
    }
}

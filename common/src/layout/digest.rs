//! Digests: a long value stands under its record's checksum by a digest of its own, so that it can be hashed as its bytes
//! come, before version and expiry are known, and storing it costs no second pass over all of it.
//!
//! Checksum of such a record: XXH3-64 of bytes 16 to the end of the key, then of the digest (8 bytes, little endian), seeded
//! with the record's place like any other. The digest is XXH3-64 of the value with the same seed.

use super::location::Place;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// The digest of a value whose bytes come in parts.
#[derive(Clone)]
pub struct ValueDigest(Xxh3);

impl std::fmt::Debug for ValueDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueDigest").finish_non_exhaustive()
    }
}

impl ValueDigest {
    /// Of no bytes yet, for a record at `place`.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Self(Xxh3::with_seed(place.pack()))
    }

    /// The next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

/// The digest of a whole value.
#[must_use]
pub fn digest(value: &[u8], place: Place) -> u64 {
    xxh3_64_with_seed(value, place.pack())
}

/// The checksum of a record by its value's digest; `covered` is what stands before the value, from byte 16 on.
#[must_use]
pub fn checksum_by_digest(covered: &[u8], digest: u64, place: Place) -> u64 {
    let mut sum = Xxh3::with_seed(place.pack());
    sum.update(covered);
    sum.update(&digest.to_le_bytes());
    sum.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_have_the_digest_of_the_whole(value in proptest::collection::vec(any::<u8>(), 0..3000), cut in 1usize..700) {
            let place = Place { chunk: 3, unit: 77 };
            let mut parts = ValueDigest::new(place);
            for part in value.chunks(cut) {
                parts.add(part);
            }
            prop_assert_eq!(parts.finish(), digest(&value, place));
            prop_assert_ne!(digest(&value, Place { unit: 78, ..place }), parts.finish());
        }
    }
}

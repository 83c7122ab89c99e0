//! Values that say whose they are: record number and version in front, and a body that follows from both.
//!
//! A swapped value names another record, a torn one has words of two versions, a damaged one a word that
//! follows from nothing. Values shorter than 16 bytes carry a hash of the record number, cut to length.

/// Record number and version.
const HEADER_BYTES: usize = 16;
/// The odd number nearest to 2^64 over the golden ratio: words of a body are this far apart.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a value turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Another record's value.
    Swapped {
        /// The record it names.
        names: u64,
    },
    /// Bytes that no single Put wrote.
    Damaged {
        /// Offset of the first wrong byte, at a word's precision.
        offset: usize,
    },
}

/// Spreads the bits of a word over all of its bits.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[inline]
fn seed(index: u64, version: u64) -> u64 {
    mix(index.wrapping_mul(STEP) ^ mix(version))
}

/// The bytes of a value too short for a header.
fn short(index: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&mix(index ^ STEP).to_le_bytes());
    bytes[8..].copy_from_slice(&mix(index.wrapping_add(STEP)).to_le_bytes());
    bytes
}

/// Writes version `version` of record `index`'s value over all of `value`.
pub fn fill(value: &mut [u8], index: u64, version: u64) {
    if value.len() < HEADER_BYTES {
        let bytes = short(index);
        let length = value.len();
        value.copy_from_slice(&bytes[..length]);
        return;
    }
    value[..8].copy_from_slice(&index.to_le_bytes());
    value[8..HEADER_BYTES].copy_from_slice(&version.to_le_bytes());
    let mut word = seed(index, version);
    let (words, tail) = value[HEADER_BYTES..].as_chunks_mut::<8>();
    for place in words {
        *place = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
    let length = tail.len();
    tail.copy_from_slice(&word.to_le_bytes()[..length]);
}

/// Whether `value` is a whole value of record `index`, of any version.
#[inline]
pub fn check(value: &[u8], index: u64) -> Result<(), Fault> {
    let Some((header, body)) = value.split_first_chunk::<HEADER_BYTES>() else {
        let same = value == &short(index)[..value.len()];
        return if same { Ok(()) } else { Err(Fault::Damaged { offset: 0 }) };
    };
    let ([names, version], _) = header.as_chunks::<8>() else { unreachable!("a header is two words") };
    let (names, version) = (u64::from_le_bytes(*names), u64::from_le_bytes(*version));
    let start = seed(names, version);
    let mut word = start;
    let mut wrong = 0;
    let (words, tail) = body.as_chunks::<8>();
    // No early way out: the loop is plain enough for vector instructions.
    for place in words {
        wrong |= u64::from_le_bytes(*place) ^ word;
        word = word.wrapping_add(STEP);
    }
    if wrong != 0 || *tail != word.to_le_bytes()[..tail.len()] {
        return Err(Fault::Damaged { offset: first_wrong(body, start) });
    }
    if names == index { Ok(()) } else { Err(Fault::Swapped { names }) }
}

#[cold]
fn first_wrong(body: &[u8], mut word: u64) -> usize {
    for (index, place) in body.chunks(8).enumerate() {
        if *place != word.to_le_bytes()[..place.len()] {
            return HEADER_BYTES + index * 8;
        }
        word = word.wrapping_add(STEP);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(length: usize, index: u64, version: u64) -> Vec<u8> {
        let mut bytes = vec![0; length];
        fill(&mut bytes, index, version);
        bytes
    }

    #[test]
    fn whole_values_pass_at_any_length_and_version() {
        for length in (0..70).chain([1_000, 1_024, 4_097]) {
            for version in [0, 1, u64::MAX] {
                assert_eq!(check(&value(length, 42, version), 42), Ok(()), "{length} bytes");
            }
        }
    }

    #[test]
    fn any_flipped_bit_is_caught() {
        for length in [1, 8, 15, 16 + 8, 64, 67] {
            let whole = value(length, 7, 3);
            for bit in 0..length * 8 {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(check(&damaged, 7).is_err(), "bit {bit} of {length} bytes");
            }
        }
    }

    #[test]
    fn a_swapped_value_names_its_owner() {
        assert_eq!(check(&value(64, 8, 1), 7), Err(Fault::Swapped { names: 8 }));
        assert!(check(&value(8, 8, 1), 7).is_err());
    }

    #[test]
    fn a_torn_value_is_caught_wherever_it_is_torn() {
        let (old, new) = (value(256, 7, 1), value(256, 7, 2));
        for at in (16..256).step_by(8) {
            let torn = [&new[..at], &old[at..]].concat();
            assert_eq!(check(&torn, 7), Err(Fault::Damaged { offset: at }), "torn at {at}");
        }
    }
}

//! Buckets as a reader gets them. Input: hash 8 bytes · bucket 128.

use super::cut::Cut;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::bucket::{BUCKET_BYTES, Bucket, BucketHeader, SLOTS};
use sidewire_common::layout::location::{LENGTH_UNKNOWN, Location};
use sidewire_common::layout::record::UNIT_BYTES;
use sidewire_common::layout::segment::OVERFLOW_BUCKETS;
use sidewire_common::limits::CHUNKS_MAX;

/// Feeds it; true when the bucket serves the hash.
///
/// # Panics
/// When it serves a key of another prefix, names a bucket that does not exist, or gives a location that is none.
pub fn run(bytes: &[u8]) -> bool {
    let mut cut = Cut::new(bytes);
    let hash = KeyHash::from_raw(cut.word());
    let image: [u8; BUCKET_BYTES] = cut.array();
    let bucket = Bucket::new(&image);
    header(bucket.header(), hash);
    let word = |slot: usize| u64::from_le_bytes(std::array::from_fn(|byte| image[8 + slot * 8 + byte]));
    let expected: Vec<u64> = (0..SLOTS)
        .map(word)
        .filter(|word| word >> 52 == u64::from(hash.fingerprint()) && (word >> 40) & u64::from(LENGTH_UNKNOWN) != 0)
        .collect();
    let found: Vec<u64> = bucket.matches(hash.fingerprint()).map(Location::raw).collect();
    assert_eq!(found, expected, "matches are the slots with the fingerprint that are not empty");
    (0..SLOTS).for_each(|slot| location(bucket.slot(slot)));
    bucket.header().serves(hash)
}

fn header(header: BucketHeader, hash: KeyHash) {
    let depth = header.depth();
    let same = (1..=32).contains(&depth) && (hash.top32() ^ header.prefix()).leading_zeros() >= depth;
    let bare = depth != 0 && depth <= 32 && header.prefix().trailing_zeros() >= 32 - depth;
    if header.serves(hash) {
        assert!(same && bare && !header.is_moved(), "serves a key of another prefix: {:#x}", header.raw());
    } else {
        assert!(!same || !bare || header.is_moved(), "does not serve its own key: {:#x}", header.raw());
    }
    assert!(!header.moved().serves(hash) && header.moved().is_moved());
    assert!(header.overflow().is_none_or(|index| index < OVERFLOW_BUCKETS));
    for index in 0..OVERFLOW_BUCKETS {
        let named = header.with_overflow(index);
        assert_eq!(named.overflow(), Some(index));
        assert_eq!((named.prefix(), named.depth(), named.is_moved()), (header.prefix(), depth, header.is_moved()));
    }
    if (1..=32).contains(&depth) {
        assert!(BucketHeader::new(hash.top32(), depth).serves(hash));
    }
}

fn location(location: Location) {
    assert_eq!(Location::from_raw(location.raw()), location);
    let place = location.place();
    assert!(u32::from(place.chunk) < CHUNKS_MAX && place.offset() < sidewire_common::limits::CHUNK_BYTES_MAX);
    let longest = (LENGTH_UNKNOWN as usize - 1) * UNIT_BYTES;
    assert!(location.read_bytes().is_none_or(|bytes| bytes <= longest && bytes.is_multiple_of(UNIT_BYTES)));
    let again = Location::from_successor_tag(location.successor_tag(), location.fingerprint());
    assert_eq!(again, location, "a successor's tag says all but the fingerprint");
}

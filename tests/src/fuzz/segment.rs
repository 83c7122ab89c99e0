//! The way of a Get through the index: descriptor, directory entry, home bucket, overflow bucket.
//! Input: hash 8 bytes · directory entry 8 · descriptor 64 · segment.

use super::cut::Cut;
use sidewire_common::id::Incarnation;
use sidewire_common::key::{KeyHash, SHARD_COUNT};
use sidewire_common::layout::bucket::{BUCKET_BYTES, Bucket, SLOTS};
use sidewire_common::layout::descriptor::{DESCRIPTOR_BYTES, Descriptor};
use sidewire_common::layout::directory::{DIRECTORY_BITS_MAX, DIRECTORY_BITS_MIN, DirectoryEntry, entry_offset};
use sidewire_common::layout::location::Place;
use sidewire_common::layout::segment::{HOME_BUCKETS, SEGMENT_BYTES, home_offset, overflow_offset};
use sidewire_common::limits::CHUNKS_MAX;

/// Follows the way; true when the segment serves the hash.
///
/// # Panics
/// When a step leads out of its structure.
pub fn run(bytes: &[u8]) -> bool {
    let mut cut = Cut::new(bytes);
    let hash = KeyHash::from_raw(cut.word());
    entry(cut.word(), hash);
    descriptor(&cut.array(), hash);
    let mut segment = vec![0; SEGMENT_BYTES];
    let rest = cut.bytes(SEGMENT_BYTES);
    segment[..rest.len()].copy_from_slice(rest);
    walk(&segment, hash)
}

fn bucket(segment: &[u8], offset: u64) -> &[u8; BUCKET_BYTES] {
    segment[offset as usize..].first_chunk().expect("a bucket lies in its segment")
}

fn walk(segment: &[u8], hash: KeyHash) -> bool {
    let home_at = home_offset(hash.home_bucket());
    let home = Bucket::new(bucket(segment, home_at));
    if !home.header().serves(hash) {
        return false;
    }
    let mut candidates = home.matches(hash.fingerprint()).count();
    if let Some(index) = home.header().overflow() {
        let at = overflow_offset(index);
        assert!(at >= home_offset(HOME_BUCKETS) && at != home_at, "an overflow bucket is no home bucket");
        candidates += Bucket::new(bucket(segment, at)).matches(hash.fingerprint()).count();
    }
    assert!(candidates <= 2 * SLOTS, "a lookup has a bound");
    true
}

fn entry(word: u64, hash: KeyHash) {
    match DirectoryEntry::from_raw(word) {
        None => assert!((word >> 40) & 0xff == 0 || word >> 48 != 0, "{word:#x} is an entry"),
        Some(entry) => {
            assert!(entry.depth() > 0 && entry.raw() == word);
            assert!(u32::from(entry.segment().chunk) < CHUNKS_MAX);
            assert_eq!(DirectoryEntry::new(entry.segment(), entry.depth()), entry);
        }
    }
    for bits in DIRECTORY_BITS_MIN..=DIRECTORY_BITS_MAX {
        let index = hash.directory_index(bits);
        assert!(index < 1 << bits);
        assert!(entry_offset(hash.shard(), index, bits) < entry_offset(SHARD_COUNT, 0, bits));
    }
}

fn descriptor(bytes: &[u8; DESCRIPTOR_BYTES], hash: KeyHash) {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let told = Descriptor {
        incarnation: Incarnation(word(16)),
        directory_bits: u16::from_le_bytes([bytes[14], bytes[15]]).into(),
        directories: Place::unpack(word(24)),
    };
    match told.check(bytes) {
        Ok(()) => assert_eq!(told.encode()[..32], bytes[..32]),
        Err(error) => assert!(error.value != error.expected && !error.field.is_empty()),
    }
    let other = Descriptor { incarnation: Incarnation(told.incarnation.0 ^ (hash.raw() | 1)), ..told };
    assert!(other.check(bytes).is_err(), "another life's descriptor");
}

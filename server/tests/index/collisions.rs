//! Keys made to collide.
//!
//! What could break: whoever knows the hash, or its seed too (an attached client does), fills one bucket: lookups grow
//! long, splits go on without telling the keys apart, other keys find no room.
//!
//! XXH3 of 17 to 128 bytes multiplies the first word, mixed with secret and seed, by the second one. A first word that
//! mixes to zero makes the second one mean nothing: any number of keys with all 64 bits equal, without a search.

use crate::bench::Bench;
use sidewire_common::key::{KeyHash, SHARD_COUNT};
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::bucket::SLOTS;
use sidewire_common::layout::segment::SEGMENT_BYTES;
use std::collections::HashSet;

/// The first word of the hash's own secret.
const SECRET: u64 = u64::from_le_bytes([0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe]);
/// Keys of one home bucket that the index takes: that bucket and an overflow bucket.
const ROOM: usize = 2 * SLOTS;

/// Keys with the same 64 bits of hash under `seed`; another `group` has others.
fn colliding(seed: u64, group: u64) -> impl Iterator<Item = Vec<u8>> {
    let first = SECRET.wrapping_add(seed).to_le_bytes();
    let key = move |n: u64| [&first[..], &n.to_le_bytes(), &group.to_le_bytes(), b"collides"].concat();
    let mut expected = None;
    let has_no_tag = |key: &Vec<u8>| sidewire_common::key::tag(key).is_none();
    (0u64..).map(key).filter(has_no_tag).inspect(move |key| {
        let hash = KeyHash::of(key, seed);
        assert_eq!(*expected.get_or_insert(hash), hash, "the keys do not collide");
    })
}

struct Cost {
    reads_per_get: f64,
    bytes_per_key: f64,
    splits: u64,
}

fn cost_of(keys: &[Vec<u8>]) -> Cost {
    let mut bench = Bench::new(256 << 20);
    for key in keys {
        bench.put(key, b"value");
    }
    let mut reads = 0;
    for key in keys {
        let (value, cost) = bench.get(key);
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
        reads += cost;
    }
    let (segments, splits) = bench.index.figures();
    let count = keys.len() as f64;
    Cost { reads_per_get: f64::from(reads) / count, bytes_per_key: (segments as usize * SEGMENT_BYTES) as f64 / count, splits }
}

/// Keys with one hash under seed 0, and keys of one tag, under the server's own seed.
#[test]
fn keys_that_collide_without_the_seed_are_like_any_others() {
    const KEYS: usize = 250_000;
    let usual: Vec<_> = (0..KEYS).map(|n| format!("key-{n:028}").into_bytes()).collect();
    let crafted: Vec<_> = colliding(0, 0).take(KEYS).collect();
    let (usual, crafted) = (cost_of(&usual), cost_of(&crafted));
    println!(
        "Reads per Get {:.3} and {:.3}, index bytes a key {:.1} and {:.1}, splits {} and {}",
        usual.reads_per_get, crafted.reads_per_get, usual.bytes_per_key, crafted.bytes_per_key, usual.splits, crafted.splits
    );
    assert!((crafted.reads_per_get - usual.reads_per_get).abs() < 0.02);
    assert!((crafted.bytes_per_key / usual.bytes_per_key - 1.0).abs() < 0.1);
    assert!(crafted.splits.abs_diff(usual.splits) <= usual.splits / 10 + 16);
}

/// A tag puts its keys into one shard and no closer: they cost more Reads than others only by the shard's fullness.
#[test]
fn keys_of_one_tag_share_a_shard_and_nothing_else() {
    let mut bench = Bench::new(256 << 20);
    let key = |n: u32| format!("{{one}}key-{n:09}").into_bytes();
    let mut kept = 0;
    for n in 0..20_000 {
        match bench.try_put(&key(n), b"value") {
            Ok(_) => kept += 1,
            Err(unmet) => assert_eq!(unmet.outcome, Outcome::IndexFull),
        }
    }
    // 32 segments of 1,080 slots are one shard's directory here.
    assert!(kept > 19_000, "{kept} of 20,000 found room in their shard");
    let reads: u32 = (0..20_000).map(|n| bench.get(&key(n))).filter(|(value, _)| value.is_some()).map(|(_, reads)| reads).sum();
    let per_get = f64::from(reads) / f64::from(kept);
    println!("{kept} keys of one tag, {per_get:.3} Reads per Get");
    assert!(per_get < 2.2, "{per_get} Reads per Get");
}

/// What a hash shares with others at the end of all splits: shard, directory bits, home bucket.
fn bucket_at_last(hash: KeyHash, directory_bits: u32) -> (u32, u32, u32) {
    (hash.shard(), hash.directory_index(directory_bits), hash.home_bucket())
}

/// Under the run's own seed: the surplus is refused, splits end with the directory, and the others do not notice.
#[test]
fn keys_crafted_with_the_seed_are_refused_and_splits_have_an_end() {
    const GROUPS: u64 = 200;
    let mut bench = Bench::new(64 << 20);
    let (seed, bits) = (bench.store.hash_seed(), bench.store.directory_bits());
    let other = |n: u32| format!("other-{n}").into_bytes();
    for n in 0..5_000 {
        bench.put(&other(n), &n.to_le_bytes());
    }
    let (segments, splits) = bench.index.figures();
    let heap = |bench: &Bench| bench.store.pools().report().heap.used_bytes;
    let (mut taken, mut refused, mut crowded, before) = (0, 0, HashSet::new(), heap(&bench));
    for group in 0..GROUPS {
        let keys: Vec<_> = colliding(seed, group).take(500).collect();
        let outcomes: Vec<_> = keys.iter().map(|key| bench.try_put(key, b"crafted").map_err(|unmet| unmet.outcome)).collect();
        let room = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(room <= ROOM && outcomes[room..].iter().all(|outcome| *outcome == Err(Outcome::IndexFull)), "{outcomes:?}");
        (taken, refused) = (taken + room as u64, refused + keys.len() - room);
        if !crowded.insert(bucket_at_last(bench.hash(&keys[0]), bits)) {
            continue;
        }
        let (value, reads) = bench.get(&keys[0]);
        assert!(value.is_some() && reads as usize <= ROOM + 2, "{reads} Reads for one Get");
        // What was refused is not there, and what is there can go and make room.
        assert!(bench.get(&keys[499]).0.is_none());
        assert!(bench.delete(&keys[0]) && bench.try_put(&keys[499], b"crafted").is_ok());
    }
    let (segments_now, splits_now) = bench.index.figures();
    println!("{taken} taken, {refused} refused; segments {segments} to {segments_now}, splits {splits} to {splits_now}");
    assert!(refused as u64 >= GROUPS * (500 - ROOM as u64));
    assert!(splits_now - splits <= GROUPS * u64::from(bits), "{} splits for {GROUPS} groups", splits_now - splits);
    assert!(segments_now <= u64::from(SHARD_COUNT) << bits, "more segments than directory entries");
    assert!(heap(&bench) - before < 8 << 20, "refused keys left {} bytes behind", heap(&bench) - before);
    for n in 0..5_000 {
        assert_eq!(bench.get(&other(n)).0.as_deref(), Some(&n.to_le_bytes()[..]), "other {n}");
        bench.put(&other(n), b"again");
    }
    for n in 5_000..9_000 {
        let placed = bench.try_put(&other(n), b"new").is_ok();
        assert!(placed || crowded.contains(&bucket_at_last(bench.hash(&other(n)), bits)), "other {n} found no room");
    }
}

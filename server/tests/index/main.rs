//! The index by itself, without workers or clients.
//!
//! What could break: a split that loses or misplaces a key, an overflow bucket that a reader does not find, blocks
//! handed out twice, an index that costs more than it should. Keys are put through the real path and looked up
//! through the bytes that a client reads: directory entry, home bucket, overflow bucket, record.

mod bench;
mod collisions;

use bench::Bench;
use kv_server::shard::{PutAsk, put};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::bucket::{BUCKET_BYTES, Bucket};
use sidewire_common::layout::directory::{DirectoryEntry, entry_offset};
use sidewire_common::layout::record::{Kind, Version};
use sidewire_common::layout::request::Condition;
use sidewire_common::layout::segment::SEGMENT_BYTES;
use std::sync::Arc;

#[test]
fn every_key_is_found_through_splits_and_the_index_stays_small() {
    const KEYS: u32 = 400_000;
    let mut bench = Bench::new(512 << 20);
    let key = |n: u32| format!("key-{n:012}").into_bytes();
    for n in 0..KEYS {
        bench.put(&key(n), &n.to_le_bytes());
    }
    let mut reads = 0;
    for n in 0..KEYS {
        let (value, cost) = bench.get(&key(n));
        assert_eq!(value.as_deref(), Some(&n.to_le_bytes()[..]), "key {n}");
        reads += cost;
    }
    assert_eq!(bench.get(b"no such key").0, None);
    let (segments, splits) = bench.index.figures();
    assert!(splits > 0);
    let per_key = (segments as usize * SEGMENT_BYTES) as f64 / f64::from(KEYS);
    let per_get = f64::from(reads) / f64::from(KEYS);
    assert!(per_key < 25.0, "{per_key} bytes of segments a key");
    assert!((2.0..2.06).contains(&per_get), "{per_get} Reads per Get");
}

#[test]
fn updates_and_deletes_give_their_blocks_back() {
    let mut bench = Bench::new(64 << 20);
    let used = |bench: &Bench| bench.store.pools().report().heap.used_bytes;
    for round in 0..20u8 {
        for n in 0..10_000u32 {
            bench.put(&n.to_le_bytes(), &[round; 100]);
        }
    }
    // 10,000 live blocks of 192 bytes and one slab's worth of slack.
    assert!(used(&bench) < 10_000 * 192 + (256 << 10), "{} bytes for 10,000 records", used(&bench));
    for n in 0..10_000u32 {
        assert!(bench.delete(&n.to_le_bytes()));
        assert_eq!(bench.get(&n.to_le_bytes()).0, None);
        assert!(!bench.delete(&n.to_le_bytes()));
    }
}

#[test]
fn pages_that_left_a_class_wait_for_an_epoch() {
    let mut bench = Bench::new(64 << 20);
    let epochs = Arc::clone(bench.store.epochs());
    // More than a heap keeps for the next record of as many pages.
    let big = vec![7u8; 5 << 20];
    for n in 0..6u8 {
        bench.put(&[n], &big);
        assert!(bench.delete(&[n]));
    }
    // Thirty of 32 MiB have been freed and none may be used again before the epoch is acknowledged.
    let hash = bench.hash(b"one more");
    let ask = |value| PutAsk {
        key: b"one more",
        hash,
        value,
        kind: Kind::Value,
        condition: Condition::None,
        expiry_ms: 0,
        version: Version::new(1, 99),
        found: None,
    };
    let full = put(&bench.store, &mut bench.memory, &mut bench.index, &mut bench.heap, ask(&big), &mut Vec::new());
    assert_eq!(full.unwrap_err().outcome, sidewire_common::layout::ack::Outcome::Busy);
    let now = epochs.advance();
    epochs.set_acknowledged(now);
    assert!(put(&bench.store, &mut bench.memory, &mut bench.index, &mut bench.heap, ask(&big), &mut Vec::new()).is_ok());
}

#[test]
fn a_segment_that_was_split_never_changes_again() {
    let mut bench = Bench::new(64 << 20);
    let bits = bench.store.directory_bits();
    let entry = |bench: &mut Bench, hash: KeyHash| {
        let at = entry_offset(hash.shard(), hash.directory_index(bits), bits);
        DirectoryEntry::from_raw(bench.memory.load(bench.store.directories(), at)).unwrap().segment()
    };
    let watched = bench.hash(b"0");
    let first = entry(&mut bench, watched);
    let mut old: Option<Vec<u8>> = None;
    for n in 0..400_000u32 {
        bench.put(n.to_string().as_bytes(), b"v");
        let mut now = vec![0; SEGMENT_BYTES];
        if n % 64 == 0 || old.is_none() {
            if entry(&mut bench, watched) == first {
                continue;
            }
            bench.memory.read(first, 0, &mut now);
            let before = old.get_or_insert_with(|| now.clone());
            assert_eq!(*before, now, "after {n} puts");
            assert!(now.chunks_exact(BUCKET_BYTES).all(|b| Bucket::new(b.try_into().unwrap()).header().is_moved()));
        }
        if n > 300_000 && old.is_some() {
            return;
        }
    }
    panic!("the watched segment was never split");
}

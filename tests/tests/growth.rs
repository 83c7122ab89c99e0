//! From an empty table to many keys, with readers throughout.
//!
//! What could break: a key that exists is reported absent while its segment splits, since a reader looks into a
//! segment that has moved, or into a child that is not whole. Writers put keys in order and publish how far all
//! are acknowledged; readers pick any key below that line, the newest most of all, and must find it whole.
//!
//! `SIDEWIRE_TEST_KEYS=5000000` makes it the big run, in which the figures of memory are held to their limits.

use sidewire::{Error, Operation, OperationId, Outcome, Session, Write, WriteOptions};
use sidewire_tests::{Server, scale, server::client_builder, setting, stamped};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const WRITERS: u64 = 2;
const READERS: u64 = 2;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 64;
/// Limits of the big run.
const INDEX_BYTES_PER_KEY_MAX: f64 = 20.0;
const HEAP_OVERHEAD_MAX: f64 = 0.35;
/// Below this the fixed part of the index is most of it.
const BIG: u64 = 2_000_000;

/// Below this the keys go to a few shards only, by a tag, so that their segments split all the same.
const SMALL: u64 = 50_000;

fn key(n: u64, keys: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&stamped::mixed(n, 0).to_le_bytes());
    key[8..].copy_from_slice(&n.to_le_bytes());
    if keys < SMALL {
        key[..3].copy_from_slice(&[b'{', b'0' + (n % 8) as u8, b'}']);
    }
    key
}

/// Of each writer: all its keys below this are acknowledged.
struct Lines([AtomicU64; WRITERS as usize]);

/// Puts every `WRITERS`th key from `writer` on, as many at once as the session takes.
fn write(session: &Session, writer: u64, keys: u64, lines: &Lines) {
    let mut open: HashMap<OperationId, u64> = HashMap::new();
    let mut next = writer;
    let mut finished = Vec::new();
    while next < keys || !open.is_empty() {
        while next < keys {
            let value = stamped::stamp(next, 1, VALUE_BYTES);
            match session.submit(Operation::Put { key: &key(next, keys), value: &value, options: WriteOptions::new() }) {
                Ok(id) => {
                    open.insert(id, next);
                    next += WRITERS;
                }
                Err(Error::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        session.wait(&mut finished).unwrap();
        for (id, outcome) in finished.drain(..) {
            let n = open.remove(&id).expect("one of ours");
            match outcome {
                Ok(Outcome::Write(Write::Done(_))) => {}
                // Memory is on its way: once more.
                Err(Error::Busy) => {
                    while let Err(error) = session.put(&key(n, keys), &stamped::stamp(n, 1, VALUE_BYTES)) {
                        assert!(matches!(error, Error::Busy), "{error}");
                        std::thread::yield_now();
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        let line = open.values().copied().min().unwrap_or(next);
        lines.0[writer as usize].store(line, Ordering::SeqCst);
    }
}

/// Reads keys below the lines until told to stop; says how many.
fn read(session: &Session, reader: u64, keys: u64, lines: &Lines, stop: &AtomicBool) -> u64 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let dice = stamped::mixed(count, reader);
        let writer = dice % WRITERS;
        let line = lines.0[writer as usize].load(Ordering::SeqCst);
        // Keys of this writer below its line.
        let there = line.saturating_sub(writer).div_ceil(WRITERS);
        if there == 0 {
            std::thread::yield_now();
            continue;
        }
        let dice = stamped::mixed(dice, 1);
        let index = if dice.is_multiple_of(4) { there - 1 - (dice >> 8) % there.min(64) } else { (dice >> 8) % there };
        let n = index * WRITERS + writer;
        let value =
            session.get(&key(n, keys)).unwrap().unwrap_or_else(|| panic!("key {n} is absent, all below {line} are there"));
        assert_eq!(stamped::version_of(&value, n), Ok(1));
        count += 1;
    }
    count
}

#[test]
fn no_key_that_exists_is_ever_absent() {
    let asked = std::env::var("SIDEWIRE_TEST_KEYS").ok().map(|text| text.parse().expect("SIDEWIRE_TEST_KEYS is a number"));
    let keys: u64 = asked.unwrap_or_else(|| if setting::is_verbs() { scale(100_000) } else { scale(200_000) });
    let memory = format!("{}MiB", ((keys * 220) >> 20) + 128);
    let server = Server::builder().memory(&memory).workers(2).start();
    let (lines, stop) = (Lines(std::array::from_fn(|n| AtomicU64::new(n as u64))), AtomicBool::new(false));
    let started = Instant::now();
    let (took, reads) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (lines, stop, address) = (&lines, &stop, server.address());
                // One with a location cache, one without.
                let cache = if reader % 2 == 0 { 0 } else { 1 << 16 };
                scope.spawn(move || {
                    let client = client_builder(address).location_cache_entries(cache).connect().unwrap();
                    read(&client.session().unwrap(), reader, keys, lines, stop)
                })
            })
            .collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (lines, address) = (&lines, server.address());
                scope.spawn(move || {
                    let client = client_builder(address).connect().unwrap();
                    write(&client.session().unwrap(), writer, keys, lines);
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let took = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        let reads: u64 = readers.into_iter().map(|reader| reader.join().expect("a reader failed")).sum();
        ended.into_iter().for_each(|end| end.expect("a writer failed"));
        (took, reads)
    });

    let client = server.client();
    let session = client.session().unwrap();
    for n in 0..keys {
        let value = session.get(&key(n, keys)).unwrap().unwrap_or_else(|| panic!("key {n} is absent at the end"));
        assert_eq!(stamped::version_of(&value, n), Ok(1));
    }
    let info = server.info();
    let (index, heap) = (info.index.unwrap(), info.heap.unwrap());
    let per_key = index.used_bytes as f64 / keys as f64;
    let overhead = heap.used_bytes as f64 / info.record_bytes as f64 - 1.0;
    println!("{keys} keys of {KEY_BYTES} B with {VALUE_BYTES} B in {took:?}; {reads} reads meanwhile, none absent");
    println!(
        "{} segments, {} splits; index {per_key:.1} bytes a key; heap overhead {:.1}%",
        info.segments,
        info.splits,
        overhead * 100.0
    );
    println!("reads per Get {:.3}", client.stats().reads_per_get());
    assert_eq!(info.keys, keys);
    assert_eq!(info.record_bytes, keys * (40 + KEY_BYTES + VALUE_BYTES) as u64);
    assert!(info.splits > 0, "no segment was ever split: this shows nothing");
    if keys >= BIG {
        assert!(per_key < INDEX_BYTES_PER_KEY_MAX, "{per_key:.1} bytes a key");
        assert!(overhead < HEAP_OVERHEAD_MAX, "{overhead:.2}");
    }
}

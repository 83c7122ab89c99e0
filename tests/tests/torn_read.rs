//! Readers against writers of the same few keys.
//!
//! What could break: a Get returns bytes of two writes, or of another key whose block was reused; a reader goes back
//! to an older value, by itself or behind what another reader has seen; a Get misses a Put that was acknowledged
//! before it began; a key seems absent while it is being replaced. Each value says which key and version it is, in
//! every byte. For each key there are two marks that only rise: the last version acknowledged, and the last one that
//! any reader has seen. A reader notes the higher one before its Get, and must see that version or a later one.

use sidewire::Session;
use sidewire_tests::{Server, server::client_builder, setting, stamped};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 6;
const WRITERS: u64 = 2;
/// Location caches of the readers.
const CACHES: [usize; 3] = [0, 4096, 4096];
const RACERS: usize = WRITERS as usize + CACHES.len();
const VALUE_BYTES_MAX: u64 = 6000;

#[derive(Default)]
struct Marks {
    /// The last operation that was begun on the key: odd ones put, even ones delete (where there are deletes).
    begun: AtomicU64,
    acked: AtomicU64,
    seen: AtomicU64,
}

struct Race {
    marks: [Marks; KEYS as usize],
    stop: AtomicBool,
    /// Nobody races while others still attach: on few cores they would starve.
    ready: Barrier,
    /// Whether every second write is a delete.
    deletes: bool,
}

fn key(n: u64) -> Vec<u8> {
    // Some share a shard by their tag, some do not.
    if n.is_multiple_of(2) { format!("{{race}}{n}") } else { format!("race{n}") }.into_bytes()
}

fn length(version: u64, key: u64) -> usize {
    let dice = stamped::mixed(version, key);
    // Mostly one size class, so that blocks are reused at once; sometimes any.
    (if !dice.is_multiple_of(4) { 100 + dice % 60 } else { 16 + (dice >> 8) % (VALUE_BYTES_MAX - 16) }) as usize
}

fn write(session: &Session, race: &Race, writer: u64) -> u64 {
    let mut writes = 0;
    for version in 1.. {
        for n in (0..KEYS).filter(|n| n % WRITERS == writer) {
            let marks = &race.marks[n as usize];
            marks.begun.store(version, Ordering::SeqCst);
            if race.deletes && version % 2 == 0 {
                assert!(session.delete(&key(n)).unwrap(), "key {n} was put before");
            } else {
                session.put(&key(n), &stamped::stamp(n, version, length(version, n))).unwrap();
            }
            marks.acked.store(version, Ordering::SeqCst);
            writes += 1;
        }
        if race.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    writes
}

fn read(session: &Session, race: &Race, seed: u64) -> u64 {
    let mut reads = 0;
    while !race.stop.load(Ordering::Relaxed) {
        let n = stamped::mixed(reads, seed) % KEYS;
        let marks = &race.marks[n as usize];
        let floor = marks.acked.load(Ordering::SeqCst).max(marks.seen.load(Ordering::SeqCst));
        match session.get(&key(n)).unwrap() {
            Some(value) => {
                let version = stamped::version_of(&value, n).unwrap_or_else(|torn| panic!("torn: {torn}"));
                assert!(version >= floor, "key {n}: version {version} after {floor}");
                marks.seen.fetch_max(version, Ordering::SeqCst);
            }
            None => {
                // Not there before the first put, or between a delete that may have begun and the next put's ack.
                let begun = marks.begun.load(Ordering::SeqCst);
                let absent_at_some_time = floor == 0 || (race.deletes && (floor.is_multiple_of(2) || begun > floor));
                assert!(absent_at_some_time, "key {n} absent after {floor}, {begun} begun");
            }
        }
        reads += 1;
    }
    reads
}

/// Reads and writes without which a race shows nothing.
const ENOUGH: u64 = 100;

fn race(name: &str, deletes: bool) {
    let server = Server::builder().workers(2).start();
    let race = Race { marks: Default::default(), stop: AtomicBool::new(false), ready: Barrier::new(RACERS), deletes };
    let (writes, reads, stats) = std::thread::scope(|scope| {
        let (race, address) = (&race, server.address());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let opened = client_builder(address).connect().and_then(|client| client.session());
                    race.ready.wait();
                    write(&opened.unwrap(), race, writer)
                })
            })
            .collect();
        let readers: Vec<_> = CACHES
            .into_iter()
            .zip(0..)
            .map(|(cache, seed)| {
                scope.spawn(move || {
                    let opened =
                        client_builder(address).location_cache_entries(cache).connect().and_then(|client| client.session());
                    race.ready.wait();
                    let session = opened.unwrap();
                    (read(&session, race, seed), session.stats())
                })
            })
            .collect();
        let until = Instant::now() + setting::patience(Duration::from_secs(3));
        // On a machine that is busy with other things the writers may need longer to show something.
        let latest = until + setting::patience(Duration::from_secs(6));
        let written = || race.marks.iter().map(|m| m.acked.load(Ordering::Relaxed)).sum::<u64>();
        let goes_on = || Instant::now() < until || (written() <= 2 * ENOUGH && Instant::now() < latest);
        while goes_on() && !writers.iter().any(|w| w.is_finished()) && !readers.iter().any(|r| r.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        race.stop.store(true, Ordering::Relaxed);
        let writes: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        let readers: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        (writes, readers.iter().map(|r| r.0).sum::<u64>(), readers.iter().map(|r| r.1).collect::<Vec<_>>())
    });
    println!("{name}: {writes} writes, {reads} reads");
    for (cache, stats) in CACHES.into_iter().zip(stats) {
        println!(
            "  cache of {cache}: {:.2} reads a Get, {} hits, retries: {} torn, {} stale, {} pending, {} moved",
            stats.reads_per_get(),
            stats.location_hits,
            stats.retries_torn,
            stats.retries_stale,
            stats.retries_pending,
            stats.retries_moved
        );
    }
    assert!(reads > ENOUGH && writes > ENOUGH, "a race of {reads} reads and {writes} writes shows nothing");
}

#[test]
fn values_that_are_overwritten_are_whole_and_never_go_back() {
    race("overwritten", false);
}

#[test]
fn values_that_are_deleted_and_put_anew_are_whole_and_never_go_back() {
    race("deleted and put anew", true);
}

/// Blocks that are reused at once could be read as what they were: many keys of one size class, each deleted as soon
/// as it was put, while readers hold their locations.
#[test]
fn a_reused_block_is_never_taken_for_what_it_was() {
    let server = Server::start();
    let rounds = sidewire_tests::scale(8_000);
    let stop = AtomicBool::new(false);
    let round_now = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (stop, round_now, address) = (&stop, &round_now, server.address());
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                scope.spawn(move || {
                    let client = client_builder(address).connect().unwrap();
                    let session = client.session().unwrap();
                    let mut reads = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let before = round_now.load(Ordering::SeqCst);
                        let n = (before + stamped::mixed(reads, seed) % 4).saturating_sub(2);
                        if let Some(value) = session.get(format!("reused{n}").as_bytes()).unwrap() {
                            stamped::version_of(&value, n).unwrap_or_else(|torn| panic!("torn: {torn}"));
                            assert!(n + 1 >= before, "key {n} was deleted before round {before}");
                        }
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        let client = client_builder(address).connect().unwrap();
        let session = client.session().unwrap();
        for round in 0..rounds {
            session.put(format!("reused{round}").as_bytes(), &stamped::stamp(round, 1, 60)).unwrap();
            if round > 0 {
                assert!(session.delete(format!("reused{}", round - 1).as_bytes()).unwrap());
            }
            round_now.store(round, Ordering::SeqCst);
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let reads: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        println!("{rounds} blocks reused, {reads} reads");
    });
}

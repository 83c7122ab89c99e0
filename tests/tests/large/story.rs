//! Conditions, times, clients that die and servers that start again in the middle.

use crate::{HALF_RING, MIB, longest, patience, server};
use sidewire::{Error, Operation, Outcome, Unmet, Version, Write, WriteOptions};
use sidewire_tests::child::{self, Child};
use sidewire_tests::{Server, setting, stamped};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const KEY: &[u8] = b"long";

fn heap_bytes(server: &Server) -> u64 {
    server.info().heap.map_or(0, |heap| heap.used_bytes)
}

/// Waits until the heap holds as much as before.
fn comes_back(server: &Server, before: u64, limit: Duration) {
    let until = Instant::now() + limit;
    while heap_bytes(server) != before {
        assert!(Instant::now() < until, "{} bytes of heap, before there were {before}", heap_bytes(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn conditions_are_judged_when_the_value_is_whole() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(patience());
    let (one, two) = (stamped::stamp(1, 1, MIB), stamped::stamp(1, 2, 3 * MIB));
    let Write::Done(first) = session.put_if_absent(KEY, &one).unwrap() else { panic!("there was nothing") };
    session.create_counter(b"counter", 1).unwrap();
    let before = heap_bytes(&server);
    assert_eq!(session.put_if_absent(KEY, &two).unwrap(), Write::NotDone(Unmet::Exists(first)));
    let wrong = Version::from_raw(first.raw() + 1);
    assert_eq!(session.put_if_version(KEY, &two, wrong).unwrap(), Write::NotDone(Unmet::Mismatch(first)));
    assert_eq!(session.put_if_version(b"none", &two, first).unwrap(), Write::NotDone(Unmet::NotFound));
    assert!(matches!(session.put(b"counter", &two), Err(Error::WrongKind { .. })));
    assert_eq!(heap_bytes(&server), before, "what was refused is free again");
    assert_eq!(session.get(KEY).unwrap().map(|value| value.version()), Some(first));
    let Write::Done(second) = session.put_if_version(KEY, &two, first).unwrap() else { panic!("the version was right") };
    let value = session.get(KEY).unwrap().unwrap();
    assert!(*value == *two && value.version() == second && second > first);
}

#[test]
fn fences_and_times_hold_for_long_values() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(patience());
    let value = stamped::stamp(1, 1, MIB);
    let guard = session.lock(b"{t}lock", patience()).unwrap();
    session.put_with(b"{t}long", &value, &WriteOptions::new().fence(&guard)).unwrap();
    let token = guard.token();
    guard.unlock().unwrap();
    let late = WriteOptions::new().fence_raw(b"{t}lock", token);
    assert!(matches!(session.put_with(b"{t}long", &value, &late), Err(Error::Fenced { .. })));
    let ttl = setting::patience(Duration::from_millis(600));
    session.put_with(KEY, &value, &WriteOptions::new().ttl(ttl)).unwrap();
    assert!(session.get(KEY).unwrap().is_some_and(|value| value.expires_in_ms().is_some()));
    std::thread::sleep(ttl);
    assert!(session.get(KEY).unwrap().is_none());
    assert_eq!(server.info().keys, 2, "the lock and the fenced value are left");
}

/// Small writes of a session get between the parts of its long ones, and more long ones than may be reserved at once wait.
#[test]
fn many_at_once_all_end_well() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(patience());
    let value = |n: u64| stamped::stamp(n, 1, if n.is_multiple_of(4) { HALF_RING + 1000 * n as usize } else { 100 });
    let ids: Vec<_> = (1..=40_u64)
        .map(|n| {
            let (key, value) = (n.to_le_bytes(), value(n));
            let put = || Operation::Put { key: &key, value: &value, options: WriteOptions::new() };
            loop {
                match session.submit(put()) {
                    Err(Error::Full) => drop(session.wait(&mut Vec::new()).unwrap()),
                    id => break id.unwrap(),
                }
            }
        })
        .collect();
    assert_eq!(ids.len(), 40);
    let mut finished = Vec::new();
    while session.wait(&mut finished).unwrap() > 0 {
        for (_, result) in finished.drain(..) {
            assert!(matches!(result, Ok(Outcome::Write(Write::Done(_)))), "{result:?}");
        }
    }
    for n in 1..=40_u64 {
        assert!(*session.get(&n.to_le_bytes()).unwrap().unwrap() == *value(n), "{n}");
    }
}

/// What a reader gets is one of the values that were written, whatever is written meanwhile.
#[test]
fn no_reader_sees_parts_of_two_values() {
    let server = server();
    let (client, other) = (server.client(), server.client());
    let session = client.session().unwrap();
    session.set_deadline(patience());
    let stop = AtomicBool::new(false);
    session.put(KEY, &stamped::stamp(1, 1, MIB)).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let session = other.session().unwrap();
            session.set_deadline(patience());
            let (mut reads, mut last) = (0, 0);
            while !stop.load(Ordering::SeqCst) {
                let value = session.get(KEY).unwrap().expect("it is always there");
                let version = stamped::version_of(&value, 1).expect("one value");
                assert!(version >= last, "{version} after {last}");
                (reads, last) = (reads + 1, version);
            }
            reads
        });
        for version in 2..=setting::scale(60).max(8) {
            let bytes = if version % 3 == 0 { 2000 } else { HALF_RING + version as usize * 1000 };
            session.put(KEY, &stamped::stamp(1, version, bytes)).unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        assert!(reader.join().unwrap() > 0);
    });
}

/// A child's role: writes long values whose condition never holds, so that only unfinished ones take memory.
pub fn never_stored(arguments: &[String]) {
    let client = sidewire_tests::server::client_builder(&arguments[0]).connect().unwrap();
    let session = client.session().unwrap();
    session.set_deadline(patience());
    let value = vec![7; longest()];
    child::say("begins");
    loop {
        drop(session.put_if_version(KEY, &value, Version::new(1, 1)));
    }
}

#[test]
fn what_a_killed_client_had_not_finished_is_free_again() {
    let server = server();
    drop(server.client().session().unwrap());
    let before = heap_bytes(&server);
    let mut caught = 0;
    for round in 0..setting::scale(8).max(3) {
        let child = Child::start("never-stored", &[server.address()]);
        assert_eq!(child.hear(), "begins");
        let until = Instant::now() + patience();
        while heap_bytes(&server) == before && Instant::now() < until {}
        std::thread::sleep(Duration::from_millis(round * 3));
        drop(child);
        caught += u64::from(heap_bytes(&server) > before);
        comes_back(&server, before, server.lease() * 2 + patience());
    }
    println!("{caught} clients were killed while they had memory reserved");
}

/// The client lives on, and has given the write up: its connection stays, and the reservation ends with its time.
#[test]
fn what_is_not_finished_in_time_is_free_again() {
    let server = Server::builder().memory("384MiB").lease(setting::patience(Duration::from_millis(600))).start();
    let client = server.client();
    let session = client.session().unwrap();
    session.put(b"small", b"value").unwrap();
    let before = heap_bytes(&server);
    let value = vec![7; 16 * MIB];
    let mut left_behind = 0;
    for _ in 0..20 {
        session.set_deadline(Duration::from_millis(3));
        drop(session.put_if_version(KEY, &value, Version::new(1, 1)));
        left_behind += u64::from(heap_bytes(&server) > before);
        session.set_deadline(patience());
        comes_back(&server, before, server.lease() + patience());
        if left_behind > 1 {
            break;
        }
    }
    println!("{left_behind} writes were given up in the middle");
    assert_eq!(client.stats().reattaches, 0);
    session.put(KEY, &value).unwrap();
    assert!(*session.get(KEY).unwrap().unwrap() == *value);
}

#[test]
fn a_restart_in_the_middle_ends_in_a_result() {
    let mut server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(setting::patience(Duration::from_secs(30)));
    for round in 1..=setting::scale(4).max(2) {
        let value = stamped::stamp(1, round, longest());
        session.submit(Operation::Put { key: KEY, value: &value, options: WriteOptions::new() }).unwrap();
        let mut finished = Vec::new();
        std::thread::sleep(Duration::from_millis(round * 2));
        session.poll(&mut finished);
        server.kill();
        server.start_again();
        while finished.is_empty() {
            session.wait(&mut finished).unwrap();
        }
        let (_, result) = finished.pop().unwrap();
        println!("round {round}: {:?}", result.as_ref().map(|_| "stored"));
        assert!(matches!(result, Ok(_) | Err(Error::Indeterminate { .. } | Error::LeaseLapsed)), "{result:?}");
        session.put(KEY, &value).unwrap();
        assert!(*session.get(KEY).unwrap().unwrap() == *value);
    }
}

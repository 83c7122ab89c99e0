//! Counters, sequences, locks and values: each call on each kind.

use sidewire::{Error, Kind, Session};
use sidewire_tests::{Server, setting};
use std::time::Duration;

fn is_wrong<T: std::fmt::Debug>(what: &str, result: Result<T, Error>, there: Kind) {
    match result {
        Err(Error::WrongKind { found, .. }) => assert_eq!(found, there, "{what}"),
        other => panic!("{what} on a {}: {other:?}", there.name()),
    }
}

fn one_of_each(server: &Server, session: &Session) {
    session.put(b"value", b"v").unwrap();
    assert!(session.create_counter(b"counter", -5).unwrap());
    assert!(session.create_sequence(b"sequence", 100).unwrap());
    let guard = session.lock(b"lock", server.lease() * 2).unwrap();
    guard.unlock().unwrap();
}

#[test]
fn each_call_on_each_kind() {
    let server = Server::builder().lease(setting::patience(Duration::from_secs(1))).start();
    let client = server.client();
    let session = client.session().unwrap();
    one_of_each(&server, &session);
    let keys: [(&[u8], Kind); 4] =
        [(b"value", Kind::Value), (b"counter", Kind::Counter), (b"sequence", Kind::Sequence), (b"lock", Kind::Lock)];
    for (key, kind) in keys {
        assert!(session.exists(key).unwrap());
        assert_eq!(session.kind(key).unwrap(), Some(kind));
        if kind != Kind::Value {
            is_wrong("get", session.get(key), kind);
            is_wrong("put", session.put(key, b"v"), kind);
        }
        if kind != Kind::Counter {
            is_wrong("create_counter", session.create_counter(key, 1), kind);
        }
        if kind != Kind::Sequence {
            is_wrong("create_sequence", session.create_sequence(key, 1), kind);
            is_wrong("next", session.next(key), kind);
        }
        if matches!(kind, Kind::Value | Kind::Lock) {
            is_wrong("add", session.add(key, 1), kind);
            is_wrong("add_exactly_once", session.add_exactly_once(key, 1), kind);
            is_wrong("counter", session.counter(key), kind);
        }
        if kind != Kind::Lock {
            is_wrong("try_lock", session.try_lock(key), kind);
            is_wrong("lock", session.lock(key, Duration::from_millis(100)), kind);
            is_wrong("lock_state", session.lock_state(key), kind);
            is_wrong("break_lock", session.break_lock(key), kind);
        }
    }
    assert_eq!(&*session.get(b"value").unwrap().unwrap(), b"v");
    assert_eq!(session.counter(b"counter").unwrap(), Some(-5));
    assert_eq!(session.next(b"sequence").unwrap(), 100);
    // Whatever a key holds can be deleted, and the key used for something else.
    for (key, kind) in keys {
        assert!(session.delete(key).unwrap(), "{}", kind.name());
        assert!(!session.exists(key).unwrap());
        assert_eq!(session.kind(key).unwrap(), None);
    }
    assert_eq!(server.info().keys, 0);
    session.put(b"counter", b"now a value").unwrap();
    assert!(session.create_counter(b"value", 7).unwrap());
    assert_eq!(session.counter(b"value").unwrap(), Some(7));
    assert_eq!(&*session.get(b"counter").unwrap().unwrap(), b"now a value");
}

#[test]
fn a_counter_counts_and_keeps_its_bounds() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    assert!(matches!(session.add(b"n", 1), Err(Error::NotFound)));
    assert!(matches!(session.add_exactly_once(b"n", 1), Err(Error::NotFound)));
    assert_eq!(session.counter(b"n").unwrap(), None);
    assert!(session.create_counter(b"n", 10).unwrap());
    assert!(!session.create_counter(b"n", 99).unwrap(), "the one that is there stays");
    assert_eq!(session.add(b"n", 5).unwrap(), 15);
    assert_eq!(session.add(b"n", -20).unwrap(), -5);
    assert_eq!(session.add(b"n", 0).unwrap(), -5);
    assert_eq!(session.add_exactly_once(b"n", 7).unwrap(), 2);
    assert_eq!(session.counter(b"n").unwrap(), Some(2));
    let most = 1_i64 << 40;
    assert_eq!(session.add(b"n", most).unwrap(), most + 2);
    assert_eq!(session.add(b"n", -most).unwrap(), 2);
    for delta in [most + 1, -most - 1, i64::MAX, i64::MIN] {
        let refused = session.add(b"n", delta);
        assert!(matches!(refused, Err(Error::DeltaTooLarge { limit, .. }) if limit == most), "{delta}: {refused:?}");
        let refused = session.add_exactly_once(b"n", delta);
        assert!(matches!(refused, Err(Error::DeltaTooLarge { .. })), "{delta}: {refused:?}");
    }
    assert_eq!(session.counter(b"n").unwrap(), Some(2), "refused deltas count nothing");
    // At the end of the range: it counts, and says so.
    let end = 1_i64 << 60;
    assert!(session.create_counter(b"full", end).unwrap());
    assert_eq!(session.counter(b"full").unwrap(), Some(end));
    session
        .add(b"full", 1)
        .map_or_else(|e| assert!(matches!(e, Error::OutOfRange { .. }), "{e:?}"), |sum| assert_eq!(sum, end + 1));
    let beyond = session.add(b"full", 1);
    assert!(matches!(beyond, Err(Error::OutOfRange { .. })), "{beyond:?}");
    assert!(session.delete(b"full").unwrap());
    for initial in [end + 1, -end - 1, i64::MAX, i64::MIN] {
        let refused = session.create_counter(b"far", initial);
        assert!(refused.is_err(), "{initial}: {refused:?}");
    }
    assert!(!session.exists(b"far").unwrap());
}

#[test]
fn cells_that_are_used_up_are_told_and_come_back() {
    let server = Server::builder().cells(8).start();
    let client = server.client();
    let session = client.session().unwrap();
    for n in 0..8 {
        assert!(session.create_counter(format!("c{n}").as_bytes(), n).unwrap());
    }
    match session.create_counter(b"one-too-many", 0) {
        Err(Error::OutOfCells { in_use, limit }) => assert_eq!((in_use, limit), (8, 8)),
        other => panic!("{other:?}"),
    }
    assert!(!session.exists(b"one-too-many").unwrap());
    assert!(session.delete(b"c3").unwrap());
    // A cell serves again once every live client has said that it uses it no more.
    let until = std::time::Instant::now() + setting::patience(Duration::from_secs(10));
    while let Err(error) = session.create_counter(b"one-too-many", 33) {
        assert!(matches!(error, Error::OutOfCells { .. } | Error::Busy | Error::Deadline { .. }), "{error:?}");
        assert!(std::time::Instant::now() < until, "the cell does not come back");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(session.counter(b"one-too-many").unwrap(), Some(33));
    assert_eq!(session.counter(b"c3").unwrap(), None);
    for n in (0..8).filter(|&n| n != 3) {
        assert_eq!(session.counter(format!("c{n}").as_bytes()).unwrap(), Some(n), "the others' cells are theirs");
    }
}

/// Memory that is full could fail reads too, or never be free again.
#[test]
fn full_memory_is_told_and_reads_and_deletes_go_on() {
    let server = Server::builder().memory("32MiB").start();
    let client = server.client();
    let session = client.session().unwrap();
    let value = vec![3; 100_000];
    let key = |n: u64| format!("full{n}").into_bytes();
    let mut stored = 0;
    let error = loop {
        match session.put(&key(stored), &value) {
            Ok(_) => stored += 1,
            Err(Error::Busy) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => break error,
        }
        assert!(stored < 1000, "32 MiB hold no 100 MB");
    };
    assert!(matches!(error, Error::OutOfMemory { in_use, limit } if in_use > 0 && limit >= in_use), "{error:?}");
    assert!(stored > 50, "{stored} of 100 KB in 32 MiB");
    for n in 0..stored {
        assert!(session.get(&key(n)).unwrap().is_some_and(|v| *v == *value), "{n}");
    }
    assert!(session.get(&key(stored)).unwrap().is_none(), "a refused write shows nowhere");
    for n in 0..stored {
        assert!(session.delete(&key(n)).unwrap());
    }
    for n in 0..stored / 2 {
        session.put(&key(n), &value).unwrap();
    }
}

//! Operations submitted now and polled later.

use sidewire::{Error, Operation, OperationId, Outcome, Session, Write, WriteOptions};
use sidewire_tests::{Server, scale, stamped};
use std::collections::HashMap;

type Finished = Vec<(OperationId, Result<Outcome, Error>)>;

/// Submits; while the session is full, lets `take` have what has ended.
fn submit(session: &Session, operation: impl Fn() -> Operation<'static>, take: &mut impl FnMut(&mut Finished)) -> OperationId {
    loop {
        match session.submit(operation()) {
            Ok(id) => return id,
            Err(Error::Full) => {
                let mut finished = Vec::new();
                assert!(session.wait(&mut finished).unwrap() > 0, "full, and nothing in flight");
                take(&mut finished);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn drain(session: &Session, take: &mut impl FnMut(&mut Finished)) {
    while session.in_flight() > 0 {
        let mut finished = Vec::new();
        session.wait(&mut finished).unwrap();
        take(&mut finished);
    }
    assert_eq!(session.poll(&mut Vec::new()), 0);
}

#[test]
fn every_submitted_operation_ends_once_with_its_own_outcome() {
    let count = scale(3_000);
    let server = Server::builder().workers(2).start();
    let client = server.client();
    let session = client.session().unwrap();
    session.create_counter(b"sum", 0).unwrap();
    let keys: Vec<&'static [u8]> = (0..count).map(|n| &*format!("p{n}").into_bytes().leak()).collect();
    let values: Vec<&'static [u8]> = (0..count).map(|n| &*stamped::stamp(n, 1, 16 + (n as usize * 37) % 3000).leak()).collect();

    let mut writes = HashMap::new();
    let mut ended = HashMap::new();
    let mut keep = |finished: &mut Finished| {
        for (id, outcome) in finished.drain(..) {
            assert!(ended.insert(id, outcome).is_none(), "{id:?} ended twice");
        }
    };
    for n in 0..count as usize {
        let put = || Operation::Put { key: keys[n], value: values[n], options: WriteOptions::new() };
        writes.insert(submit(&session, put, &mut keep), n);
    }
    drain(&session, &mut keep);
    assert_eq!(ended.len(), writes.len());
    assert!(ended.values().all(|outcome| matches!(outcome, Ok(Outcome::Write(Write::Done(_))))));

    // Values hold buffers of the session: each is looked at and dropped as it comes.
    let (mut gets, mut values_seen, mut sums) = (HashMap::new(), 0, Vec::new());
    let mut outcomes: Vec<(OperationId, Option<Vec<u8>>)> = Vec::new();
    let mut take = |finished: &mut Finished| {
        for (id, outcome) in finished.drain(..) {
            match outcome.unwrap() {
                Outcome::Value(value) => outcomes.push((id, value.map(|v| v.to_vec()))),
                Outcome::Sum(sum) => sums.push(sum),
                other => panic!("{other:?}"),
            }
        }
    };
    for (n, &key) in keys.iter().enumerate().take(count as usize) {
        gets.insert(submit(&session, || Operation::Get { key }, &mut take), n);
        if n % 10 == 0 {
            submit(&session, || Operation::Add { key: b"sum", delta: 1 }, &mut take);
        }
    }
    gets.insert(submit(&session, || Operation::Get { key: b"none" }, &mut take), usize::MAX);
    drain(&session, &mut take);
    for (id, value) in outcomes {
        let n = gets.remove(&id).expect("an outcome of an operation of ours");
        values_seen += 1;
        match value {
            Some(value) => assert!(value == values[n], "{n}"),
            None => assert_eq!(n, usize::MAX),
        }
    }
    assert!(gets.is_empty());
    assert_eq!(values_seen, count + 1);
    sums.sort_unstable();
    assert_eq!(sums, (1..=count.div_ceil(10) as i64).collect::<Vec<_>>(), "each add counted once");

    let mut deleted = 0;
    let mut count_deleted = |finished: &mut Finished| {
        for (_, outcome) in finished.drain(..) {
            assert!(matches!(outcome, Ok(Outcome::Write(Write::Done(_)))), "{outcome:?}");
            deleted += 1;
        }
    };
    for &key in &keys {
        submit(&session, || Operation::Delete { key, options: WriteOptions::new() }, &mut count_deleted);
    }
    drain(&session, &mut count_deleted);
    assert_eq!(deleted, count);
    assert_eq!(server.info().keys, 1);
}

/// Writes that wait together could each cost a message, or be packed though the client was told not to.
#[test]
fn writes_that_wait_together_share_messages() {
    let server = Server::builder().workers(1).start();
    let value = &*vec![b'v'; 64 << 10].leak();
    let put = |bytes: usize| move || Operation::Put { key: b"k", value: &value[..bytes], options: WriteOptions::new() };
    let mut take = |finished: &mut Finished| {
        for (_, outcome) in finished.drain(..) {
            assert!(matches!(outcome, Ok(Outcome::Write(Write::Done(_)))), "{outcome:?}");
        }
    };
    for (packs, expected) in [(true, 1), (false, 24)] {
        let client = server.client_builder().pack_writes(packs).connect().unwrap();
        let session = client.session().unwrap();
        for _ in 0..24 {
            submit(&session, put(100), &mut take);
        }
        drain(&session, &mut take);
        let stats = session.stats();
        assert_eq!((stats.requests, stats.messages), (24, expected), "packs: {packs}");
    }
    // A message has a longest length: what is longer goes alone, and does not wait for the next poll.
    let client = server.client();
    let session = client.session().unwrap();
    for bytes in [100, 64 << 10, 100, 7000, 7000, 100] {
        submit(&session, put(bytes), &mut take);
    }
    assert_eq!(session.stats().messages, 2);
    drain(&session, &mut take);
    assert_eq!((session.stats().requests, session.stats().messages), (6, 3));
    session.put(b"k", &value[..1]).unwrap();
    assert_eq!((session.stats().requests, session.stats().messages), (7, 4));
}

/// Two writes of a key that are in flight at once could land in another order than they were submitted in.
#[test]
fn writes_of_one_key_end_in_the_order_of_their_submission() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    let values: Vec<&'static [u8]> = (0..200_u64).map(|n| &*stamped::stamp(1, n, 16 + n as usize * 11 % 997).leak()).collect();
    let mut versions = HashMap::new();
    let mut take = |finished: &mut Finished| {
        for (id, outcome) in finished.drain(..) {
            match outcome {
                Ok(Outcome::Write(Write::Done(version))) => assert_eq!(versions.insert(id, version), None),
                other => panic!("{other:?}"),
            }
        }
    };
    let put = |value| move || Operation::Put { key: b"same", value, options: WriteOptions::new() };
    let submitted: Vec<_> = values.iter().map(|&value| submit(&session, put(value), &mut take)).collect();
    drain(&session, &mut take);
    let versions: Vec<_> = submitted.iter().map(|id| versions[id]).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    assert_eq!(stamped::version_of(&session.get(b"same").unwrap().unwrap(), 1), Ok(199));
}

/// A value that is still held could be overwritten by a later read, or its buffer be lost.
#[test]
fn values_that_are_held_stay_as_they_are() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    for n in 0..16 {
        session.put(format!("h{n}").as_bytes(), &stamped::stamp(n, 1, 1000)).unwrap();
    }
    let held: Vec<_> = (0..16).map(|n| session.get(format!("h{n}").as_bytes()).unwrap().unwrap()).collect();
    for version in 2..5 {
        for n in 0..16 {
            session.put(format!("h{n}").as_bytes(), &stamped::stamp(n, version, 1000)).unwrap();
            let now = session.get(format!("h{n}").as_bytes()).unwrap().unwrap();
            assert_eq!(stamped::version_of(&now, n), Ok(version));
        }
    }
    for (n, value) in held.iter().enumerate() {
        assert_eq!(stamped::version_of(value, n as u64), Ok(1));
    }
}

//! One of the servers is gone, stands still, or goes by another map.

use super::scene::Scene;
use sidewire::{Error, Operation, WriteOptions};
use sidewire_tests::{is_typed, setting};
use std::time::{Duration, Instant};

/// Deadline of the calls here.
fn deadline() -> Duration {
    setting::patience(Duration::from_secs(1))
}

/// By how much a call may be late on a busy machine.
fn slack() -> Duration {
    setting::patience(Duration::from_secs(1))
}

#[test]
fn a_server_that_is_gone_takes_its_own_keys_along_and_no_others() {
    let mut scene = Scene::new();
    let client = scene.builder().deadline(deadline()).connect().unwrap();
    let session = client.session().unwrap();
    let keys = scene.keys("gone", 90);
    for key in &keys {
        session.put(key, key).unwrap();
    }
    scene.servers[1].kill();
    // Once while the lease may still hold, and once after it.
    for round in 0..2 {
        let started = Instant::now();
        for (key, value) in keys.iter().zip(session.multi_get(&keys)) {
            match value {
                // A dead server's memory may be read for as long as the lease lasts: nobody has taken its place.
                Ok(value) if scene.owner(key) != 1 || round == 0 => assert_eq!(value.as_deref(), Some(&key[..])),
                Err(error) if scene.owner(key) == 1 => assert!(is_typed(&error), "{error}"),
                other => panic!("round {round}, a key of server {}: {other:?}", scene.owner(key)),
            }
        }
        assert!(started.elapsed() < deadline() + slack(), "{:?} for all keys together", started.elapsed());
        for key in keys.iter().filter(|key| scene.owner(key) != 1) {
            session.put(key, b"again").unwrap();
            session.put(key, key).unwrap();
        }
        let lost = session.put(&scene.key_of(1, "lost"), b"").unwrap_err();
        assert!(is_typed(&lost), "{lost}");
    }
    assert!(client.stats().rerouted_gone > 0);
    // It comes back at its place, empty: nothing of its former life is believed.
    scene.servers[1].start_again();
    let back = Instant::now();
    let key = keys.iter().find(|key| scene.owner(key) == 1).unwrap();
    loop {
        match session.get(key) {
            Ok(None) => break,
            Ok(Some(value)) => panic!("{value:?} of a former life"),
            Err(error) => assert!(is_typed(&error) && back.elapsed() < setting::patience(Duration::from_secs(20)), "{error}"),
        }
    }
    session.put(key, b"new").unwrap();
    assert_eq!(&*session.get(key).unwrap().unwrap(), b"new");
}

#[test]
fn a_server_that_stands_still_holds_up_nobody_elses_calls() {
    let mut scene = Scene::new();
    let client = scene.builder().deadline(deadline()).connect().unwrap();
    let session = client.session().unwrap();
    let (here, there) = (scene.key_of(0, "here"), scene.key_of(2, "there"));
    session.put(&here, b"1").unwrap();
    session.put(&there, b"1").unwrap();
    scene.servers[2].pause();
    // One waits for a server that does not answer, side by side with those that need not.
    let stuck = session.submit(Operation::Put { key: &there, value: b"x", options: WriteOptions::new() }).unwrap();
    let started = Instant::now();
    for number in 0..200_u32 {
        session.put(&here, &number.to_le_bytes()).unwrap();
        assert_eq!(&*session.get(&here).unwrap().unwrap(), &number.to_le_bytes());
    }
    let took = started.elapsed();
    let mut finished = Vec::new();
    while session.in_flight() > 0 {
        session.wait(&mut finished).unwrap();
    }
    assert!(started.elapsed() < deadline() + slack() + took, "{:?}", started.elapsed());
    let [(id, Err(error))] = &finished[..] else { panic!("{finished:?}") };
    assert!(*id == stuck && is_typed(error), "{error}");
    scene.servers[2].resume();
}

/// One server gives all shards but a few to the others: the writes that it refuses end typed, by their deadline.
#[test]
fn a_server_by_another_map_refuses_and_the_call_ends_typed() {
    let scene = Scene::with_weights([[100; 3], [100; 3], [1000, 1000, 1]]);
    let deadline = Duration::from_millis(400);
    let client = scene.builder().deadline(deadline).connect().unwrap();
    let session = client.session().unwrap();
    let key = scene.key_of(2, "refused");
    let started = Instant::now();
    let error = session.put(&key, b"x").unwrap_err();
    assert!(started.elapsed() >= deadline && started.elapsed() < deadline + slack(), "{:?}", started.elapsed());
    assert!(matches!(&error, Error::Deadline { seen, .. } if seen.contains("is not its own")), "{error}");
    assert!(client.stats().rerouted_refused > 3, "{:?}", client.stats());
    // The others' keys are not concerned, and a submitted write ends the same way.
    session.put(&scene.key_of(0, "well"), b"x").unwrap();
    session.submit(Operation::Delete { key: &key, options: WriteOptions::new() }).unwrap();
    let mut finished = Vec::new();
    assert_eq!(session.wait(&mut finished).unwrap(), 1);
    assert!(matches!(finished[0].1, Err(Error::Deadline { .. })), "{:?}", finished[0].1);
}

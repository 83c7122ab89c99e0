//! Every kind of call, on keys of all servers.

use super::scene::Scene;
use sidewire::{Error, Fleet, Kind, Operation, Outcome, Unmet, Write, WriteOptions};
use sidewire_tests::setting;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[test]
fn keys_spread_and_come_back_from_where_they_went() {
    let scene = Scene::new();
    let client = scene.client();
    let session = client.session().unwrap();
    let keys = scene.keys("spread", 300);
    for (number, key) in keys.iter().enumerate() {
        session.put(key, &number.to_le_bytes()).unwrap();
    }
    for (at, server) in scene.servers.iter().enumerate() {
        let own = keys.iter().filter(|key| scene.owner(key) == at).count() as u64;
        assert!(own > 50, "server {at} has {own} keys of 300");
        assert_eq!(server.info().keys, own, "server {at}");
    }
    let mut asked: Vec<_> = keys.iter().rev().map(Vec::as_slice).collect();
    asked.insert(7, b"nobody wrote this");
    for (key, value) in asked.iter().zip(session.multi_get(&asked)) {
        let value = value.unwrap().map(|value| value.to_vec());
        let number = keys.iter().position(|k| k == key).map(|number| number.to_le_bytes().to_vec());
        assert_eq!(value, number, "{}", String::from_utf8_lossy(key));
    }
    assert_eq!(client.attachments().len(), 3);
    let stats = client.stats();
    assert_eq!((stats.rerouted_refused, stats.rerouted_gone, stats.rerouted_moved, stats.resolved), (0, 0, 0, 0));
    assert_eq!(stats.puts, 300);
    // Warm Gets take one Read each, whichever server they go to.
    let before = client.stats();
    for key in &keys {
        assert!(session.get(key).unwrap().is_some());
    }
    assert_eq!(client.stats().reads - before.reads, 300);
    // A scan of the fleet tells each key once.
    let fleet = Fleet::connect(&[scene.servers[1].address()], Duration::from_secs(5)).unwrap();
    let told: Vec<_> = fleet.scan(b"spread", false, 0).map(|item| item.unwrap().key).collect();
    assert_eq!(told.len(), 300);
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), keys.into_iter().collect());
    assert_eq!(fleet.scan(b"spread", false, 9).count(), 9);
    client.detach().unwrap();
    for server in &scene.servers {
        assert_eq!(server.info().clients.len(), 0, "the client has left every server");
    }
}

/// What has ended waits for what comes before it, which needs a server that nothing was opened to yet.
#[test]
fn a_first_multi_get_reaches_all_servers() {
    let scene = Scene::new();
    let keys: Vec<_> = [2, 1, 0, 2].map(|owner| scene.key_of(owner, "first")).into();
    for _ in 0..20 {
        let client = scene.client();
        let session = client.session().unwrap();
        for value in session.multi_get(&keys) {
            assert!(value.unwrap().is_none());
        }
    }
}

#[test]
fn each_call_at_each_server() {
    let scene = Scene::new();
    let client = scene.client();
    let session = client.session().unwrap();
    for owner in 0..3 {
        let tag = String::from_utf8(scene.key_of(owner, "calls")).unwrap();
        let key = |name: &str| format!("{tag}{name}").into_bytes();
        let version = session.put(&key("value"), b"one").unwrap();
        assert_eq!(session.put_if_absent(&key("value"), b"two").unwrap(), Write::NotDone(Unmet::Exists(version)));
        let Write::Done(second) = session.put_if_version(&key("value"), b"two", version).unwrap() else { panic!() };
        assert_eq!(session.put_if_version(&key("value"), b"x", version).unwrap(), Write::NotDone(Unmet::Mismatch(second)));
        assert_eq!(&*session.get(&key("value")).unwrap().unwrap(), b"two");
        assert_eq!((session.kind(&key("value")).unwrap(), session.exists(&key("none")).unwrap()), (Some(Kind::Value), false));
        assert!(session.create_counter(&key("counter"), 5).unwrap() && !session.create_counter(&key("counter"), 9).unwrap());
        assert_eq!(session.add(&key("counter"), 2).unwrap(), 7);
        assert_eq!(session.add_exactly_once(&key("counter"), -3).unwrap(), 4);
        assert_eq!(session.counter(&key("counter")).unwrap(), Some(4));
        assert!(session.create_sequence(&key("sequence"), 100).unwrap());
        assert_eq!((session.next(&key("sequence")).unwrap(), session.next(&key("sequence")).unwrap()), (100, 101));
        assert!(matches!(session.next(&key("counter")), Err(Error::WrongKind { .. })));
        let guard = session.lock(&key("lock"), setting::patience(Duration::from_secs(4))).unwrap();
        assert!(guard.is_held() && session.try_lock(&key("lock")).unwrap().is_none());
        session.put_with(&key("guarded"), b"1", &WriteOptions::new().fence(&guard)).unwrap();
        let token = guard.token();
        guard.unlock().unwrap();
        let late = session.put_with(&key("guarded"), b"2", &WriteOptions::new().fence_raw(&key("lock"), token));
        assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
        assert_eq!(session.lock_state(&key("lock")).unwrap().unwrap().holder, None);
        assert!(session.delete(&key("value")).unwrap() && !session.delete(&key("value")).unwrap());
        assert!(scene.servers[owner].info().keys >= 4, "all of it was at server {owner}");
    }
}

#[test]
fn submitted_operations_of_all_servers_end_once_each() {
    let scene = Scene::new();
    let client = scene.client();
    let session = client.session().unwrap();
    let keys = scene.keys("submitted", 200);
    let mut open = BTreeMap::new();
    let mut finished = Vec::new();
    for key in &keys {
        loop {
            match session.submit(Operation::Put { key, value: key, options: WriteOptions::new() }) {
                Ok(id) => {
                    assert!(open.insert(id, key.clone()).is_none(), "a name is never used again");
                    break;
                }
                Err(Error::Full) => drop(session.wait(&mut finished).unwrap()),
                Err(error) => panic!("{error}"),
            }
        }
    }
    while session.in_flight() > 0 {
        session.wait(&mut finished).unwrap();
    }
    for (id, outcome) in finished.drain(..) {
        assert!(open.remove(&id).is_some() && matches!(outcome, Ok(Outcome::Write(Write::Done(_)))));
    }
    assert!(open.is_empty());
    for key in &keys {
        open.insert(session.submit(Operation::Get { key }).unwrap(), key.clone());
    }
    while session.in_flight() > 0 {
        session.wait(&mut finished).unwrap();
    }
    for (id, outcome) in finished {
        let key = open.remove(&id).expect("each once");
        assert!(matches!(outcome, Ok(Outcome::Value(Some(value))) if *value == *key));
    }
    assert!(open.is_empty());
}

#[test]
fn the_asynchronous_handle_reaches_all_servers() {
    let scene = Scene::new();
    let handle = scene.client().async_client().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let keys = scene.keys("async", 60);
        for key in &keys {
            handle.put(key, key).await.unwrap();
        }
        for (key, value) in keys.iter().zip(handle.multi_get(&keys).await) {
            assert_eq!(value.unwrap().as_ref(), Some(key));
        }
        for owner in 0..3 {
            let key = scene.key_of(owner, "asynclock");
            let guard = handle.lock(&key, setting::patience(Duration::from_secs(4))).await.unwrap();
            assert!(guard.is_held() && handle.try_lock(&key).await.unwrap().is_none());
            guard.unlock().await.unwrap();
        }
    });
}

//! The claim: with the server process stopped, Gets, counter adds and locks go on.
//!
//! What could break: any step of these that needs the server's CPU (a lookup that asks a worker, an add that travels
//! as a request, a lock that needs a grant, a heartbeat that must be answered at once). Two client processes attach,
//! the server gets SIGSTOP, and then, before the lease ends, they finish 10,000 Gets of existing keys, 1,000 counter
//! adds and 100 lock/unlock together. Nothing is warmed up first: directories and locations are found while the
//! server stands. After SIGCONT everything goes on and nobody was swept.

use sidewire_tests::{Child, Server, child, server::client_builder, setting, stamped};
use std::time::{Duration, Instant};

const KEYS: u64 = 500;
const GETS_EACH: u64 = 5_000;
const ADDS_EACH: i64 = 500;
const LOCKS_EACH: u64 = 50;

fn key(n: u64) -> Vec<u8> {
    format!("key-{n}").into_bytes()
}

#[test]
fn child() {
    child::run(&[("client", client)]);
}

/// A client process: attaches, waits for the word, does its half, says how it went.
fn client(arguments: &[String]) {
    let [address, cache, seed] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).location_cache_entries(cache.parse().unwrap()).connect().unwrap();
    let session = client.session().unwrap();
    child::say("attached");
    assert_eq!(child::hear(), "go");
    let started = Instant::now();
    for n in 0..GETS_EACH {
        let which = stamped::mixed(n, seed.parse().unwrap()) % KEYS;
        let value = session.get(&key(which)).unwrap().expect("it exists");
        assert_eq!(stamped::version_of(&value, which), Ok(1));
    }
    let mut last = i64::MIN;
    for _ in 0..ADDS_EACH {
        let sum = session.add(b"counter", 1).unwrap();
        assert!(sum > last, "{sum} after {last}");
        last = sum;
    }
    let mut token = 0;
    for _ in 0..LOCKS_EACH {
        let guard = session.lock(b"lock", setting::patience(Duration::from_secs(5))).unwrap();
        assert!(guard.token() > token && guard.is_held());
        token = guard.token();
        guard.unlock().unwrap();
    }
    child::say(started.elapsed().as_millis());
    assert_eq!(child::hear(), "write");
    session.put(format!("after-{seed}").as_bytes(), b"done").unwrap();
    assert_eq!(&*session.get(format!("after-{seed}").as_bytes()).unwrap().unwrap(), b"done");
    child::say(client.stats().reattaches);
    assert_eq!(child::hear(), "end");
}

#[test]
fn gets_adds_and_locks_go_on_while_the_server_stands() {
    let lease = if setting::is_verbs() { Duration::from_secs(60) } else { Duration::from_secs(6) };
    let mut server = Server::builder().lease(lease).start();
    let ours = server.client();
    let session = ours.session().unwrap();
    for n in 0..KEYS {
        session.put(&key(n), &stamped::stamp(n, 1, 16 + n as usize * 7)).unwrap();
    }
    assert!(session.create_counter(b"counter", 0).unwrap());
    // The first lease of a server grants nothing: this waits it out.
    session.set_deadline(lease * 3);
    session.lock(b"lock", lease * 2).unwrap().unlock().unwrap();
    let before = session.lock_state(b"lock").unwrap().unwrap().token;

    // One with a location cache, one without.
    let mut clients = ["4096", "0"].map(|cache| Child::start("client", &[server.address(), cache, &format!("7{cache}")]));
    for client in &clients {
        assert_eq!(client.hear(), "attached");
    }
    server.pause();
    let cpu = server.cpu();
    let started = Instant::now();
    for client in &mut clients {
        client.tell("go");
    }
    for client in &clients {
        println!("10,000 Gets, 1,000 adds, 100 locks by two: this half took {} ms", client.hear());
    }
    let took = started.elapsed();
    assert_eq!(server.cpu(), cpu, "a stopped process uses no CPU");
    server.resume();
    assert!(took < lease, "took {took:?}, the lease is {lease:?}");

    for client in &mut clients {
        client.tell("write");
    }
    for client in &clients {
        assert_eq!(client.hear(), "0", "no client had to attach anew");
    }
    assert_eq!(session.counter(b"counter").unwrap(), Some(2 * ADDS_EACH));
    let lock = session.lock_state(b"lock").unwrap().unwrap();
    assert_eq!((lock.holder, lock.token), (None, before + 2 * LOCKS_EACH), "each acquisition took one token");
    let info = server.info();
    assert_eq!((info.clients_swept, info.clients.len()), (0, 3));
    for mut client in clients {
        client.tell("end");
        client.finish();
    }
}

//! Clients that come and go, or come and die, one after the other.

use crate::{lease, rounds, server};
use sidewire_tests::gauges::{files, resident_bytes};
use sidewire_tests::{Child, Gauges, child, server::client_builder, setting};
use std::time::{Duration, Instant};

/// By how much a process's memory may have grown since the tenth part of all rounds.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

#[test]
fn clients_that_come_and_go_leave_nothing() {
    let server = server();
    let rest = Gauges::at_rest(&server);
    let rounds = rounds(300, 10_000);
    let (own_files, own_pid) = (files("self"), std::process::id());
    let (mut early, mut slowest) = ((0, 0), Duration::ZERO);
    for round in 0..rounds {
        let started = Instant::now();
        let client = server.client_builder().location_cache_entries(16).connect().unwrap();
        let session = client.session().unwrap();
        session.put(b"visited", &round.to_le_bytes()).unwrap();
        assert_eq!(*session.get(b"visited").unwrap().unwrap(), round.to_le_bytes());
        drop(session);
        if round % 2 == 0 {
            client.detach().unwrap();
        }
        slowest = slowest.max(started.elapsed());
        if round == rounds / 10 {
            early = (resident_bytes(server.pid()), resident_bytes(own_pid));
        }
    }
    let late = (resident_bytes(server.pid()), resident_bytes(own_pid));
    println!("{rounds} visits, the slowest {slowest:?}; resident of server and client {early:?}, then {late:?}");
    assert!(late.0 < early.0 + GROWTH_BYTES_MAX, "the server has grown: {early:?}, {late:?}");
    rest.wait_for(&server, lease() * 3);
    assert_eq!(server.info().clients_swept, 0, "everybody said good-bye");
    // Other tests of this executable run beside this one: what they hold is theirs, and little.
    let until = Instant::now() + setting::patience(Duration::from_secs(5));
    while files("self").values().sum::<usize>() > own_files.values().sum::<usize>() + 300 {
        assert!(Instant::now() < until, "{own_files:?}, then {:?}", files("self"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The role: attaches, puts, and waits for its end.
pub fn puts_once(arguments: &[String]) {
    let [address, number] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).location_cache_entries(16).connect().unwrap();
    let session = client.session().unwrap();
    session.put(b"left", number.as_bytes()).unwrap();
    child::say("put");
    let _ = child::hear();
}

#[test]
fn clients_that_come_and_die_leave_nothing() {
    let server = server();
    let rest = Gauges::at_rest(&server);
    let rounds = rounds(60, 10_000);
    let mut early = 0;
    for round in 0..rounds {
        // No pause: the next one comes while this one is being swept.
        let mut visitor = Child::start("visitor", &[server.address(), &round.to_string()]);
        assert_eq!(visitor.hear(), "put");
        visitor.kill();
        if round == rounds / 10 {
            early = resident_bytes(server.pid());
        }
    }
    let late = resident_bytes(server.pid());
    println!("{rounds} deaths; resident {early} bytes, then {late}");
    assert!(late < early + GROWTH_BYTES_MAX, "the server has grown: {early}, {late}");
    rest.wait_for(&server, lease() * 3);
    assert_eq!(server.info().clients_swept, rounds);
    let client = server.client();
    assert_eq!(&*client.session().unwrap().get(b"left").unwrap().unwrap(), (rounds - 1).to_string().as_bytes());
}

//! A hundred clients that are killed at once, in the middle of whatever they do.

use crate::{lease, rounds, server};
use sidewire::{Operation, Session, WriteOptions};
use sidewire_tests::gauges::resident_bytes;
use sidewire_tests::{Child, Gauges, child, server::client_builder, setting, stamped};
use std::time::{Duration, Instant};

/// Processes, and clients in each.
const PROCESSES: usize = 25;
const CLIENTS: usize = 4;
/// Operations that each keeps in flight.
const DEPTH: usize = 16;
const KEYS: u64 = 20;
/// By how much the server's memory may have grown since the tenth part of all rounds.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

fn key(n: u64) -> Vec<u8> {
    format!("crowd-{n}").into_bytes()
}

/// The role: clients that hold a lock each and keep operations in flight until they are killed.
pub fn works(arguments: &[String]) {
    let [address, number] = arguments else { panic!("{arguments:?}") };
    let builder = client_builder(address).location_cache_entries(16).spin(Duration::ZERO);
    let clients: Vec<_> = (0..CLIENTS).map(|_| builder.clone().connect().unwrap()).collect();
    let sessions: Vec<Session> = clients.iter().map(|client| client.session().unwrap()).collect();
    let lock = |n: usize| format!("{{crowd}}{number}-{n}").into_bytes();
    let guards: Vec<_> = sessions.iter().enumerate().map(|(n, session)| session.try_lock(&lock(n)).unwrap()).collect();
    child::say(guards.iter().flatten().count());
    let mut finished = Vec::new();
    for turn in 0_u64.. {
        for session in &sessions {
            let n = stamped::mixed(turn, number.parse().unwrap()) % KEYS;
            let value = stamped::stamp(n, turn, 16 + (turn * 97 % 20_000) as usize);
            let key = key(n);
            // A full session is polled below; what the operations bring is of no interest here.
            let _ = match turn % 4 {
                0 => session.submit(Operation::Get { key: &key }),
                1 => session.submit(Operation::Add { key: b"crowd-sum", delta: 1 }),
                2 => session.submit(Operation::Delete { key: &key, options: WriteOptions::new() }),
                _ => session.submit(Operation::Put { key: &key, value: &value, options: WriteOptions::new() }),
            };
            if session.in_flight() >= DEPTH {
                session.wait(&mut finished).unwrap();
            }
            finished.clear();
        }
    }
}

#[test]
fn a_hundred_clients_killed_at_once_leave_nothing() {
    let server = server();
    let rest = Gauges::at_rest(&server);
    let client = server.client();
    let session = client.session().unwrap();
    session.create_counter(b"crowd-sum", 0).unwrap();
    // Locks are not granted before this; and each of the crowd's locks keeps its cell.
    session.set_deadline(lease() * 3);
    session.lock(b"first", lease() * 3).unwrap().unlock().unwrap();
    let rounds = rounds(4, 200);
    let (mut slowest, mut early) = (Duration::ZERO, 0);
    for round in 0..rounds {
        let mut crowd: Vec<Child> = (0..PROCESSES).map(|n| Child::start("crowd", &[server.address(), &n.to_string()])).collect();
        for one in &crowd {
            assert_eq!(one.hear(), CLIENTS.to_string(), "every lock of the last round's crowd is free again");
        }
        std::thread::sleep(Duration::from_millis(round * 37 % 150));
        crowd.iter().for_each(Child::strike);
        let killed = Instant::now();
        crowd.iter_mut().for_each(Child::kill);
        while server.info().clients.len() > 1 {
            assert!(killed.elapsed() < lease() * 3 / 2 + setting::patience(Duration::from_secs(1)), "not swept in a lease");
            std::thread::sleep(Duration::from_millis(2));
        }
        slowest = slowest.max(killed.elapsed());
        for n in 0..KEYS {
            if let Some(value) = session.get(&key(n)).unwrap() {
                stamped::version_of(&value, n).unwrap_or_else(|torn| panic!("torn: {torn}"));
            }
            session.put(&key(n), &stamped::stamp(n, 0, 100)).unwrap();
        }
        if round == rounds / 10 {
            early = resident_bytes(server.pid());
        }
    }
    let late = resident_bytes(server.pid());
    println!("{rounds} rounds of {} clients; all swept at most {slowest:?} after their end", PROCESSES * CLIENTS);
    println!("resident: {early} bytes after a tenth of the rounds, {late} at the end");
    assert!(late < early + GROWTH_BYTES_MAX, "{early} bytes resident, then {late}");
    drop(session);
    client.detach().unwrap();
    let locks = (PROCESSES * CLIENTS + 1) as u64;
    let rest = Gauges { cells: rest.cells + locks + 1, ..rest };
    rest.wait_for(&server, lease() * 3);
}

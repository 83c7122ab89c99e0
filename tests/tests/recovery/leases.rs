//! Locks and leases when their holders die, sleep, or are kept from running.

use crate::{lease, rounds, server};
use sidewire::{Error, Session, WriteOptions};
use sidewire_tests::{Child, child, server::client_builder, setting};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const LOCK: &[u8] = b"{held}.lock";

/// The role: takes the lock and holds it until it is killed.
pub fn holds(arguments: &[String]) {
    let [address] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).location_cache_entries(16).connect().unwrap();
    let session = client.session().unwrap();
    let guard = session.lock(LOCK, lease() * 4).unwrap();
    child::say(guard.token());
    let _ = child::hear();
}

fn waits_out_the_first_lease(session: &Session) {
    session.set_deadline(lease() * 4);
    session.lock(LOCK, lease() * 3).unwrap().unlock().unwrap();
}

#[test]
fn a_killed_holders_lock_comes_free_every_time() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    waits_out_the_first_lease(&session);
    let (mut last, mut slowest) = (0, Duration::ZERO);
    for _ in 0..rounds(10, 500) {
        let mut holder = Child::start("holds", &[server.address()]);
        let token: u64 = holder.hear().parse().unwrap();
        assert!(token > last && session.try_lock(LOCK).unwrap().is_none());
        holder.kill();
        let killed = Instant::now();
        let guard = session.lock(LOCK, lease() * 2).unwrap();
        slowest = slowest.max(killed.elapsed());
        assert!(guard.token() > token);
        last = guard.token();
        guard.unlock().unwrap();
    }
    println!("free at most {slowest:?} after the kill");
    assert!(slowest < lease() * 3 / 2, "{slowest:?}");
}

/// One client, two sessions: the lock is that of the session that took it.
#[test]
fn sessions_of_one_client_exclude_each_other() {
    let server = server();
    let client = server.client();
    let (one, other) = (client.session().unwrap(), client.session().unwrap());
    waits_out_the_first_lease(&one);
    let guard = one.lock(LOCK, lease()).unwrap();
    assert!(other.try_lock(LOCK).unwrap().is_none());
    assert!(matches!(other.lock(LOCK, lease() / 4), Err(Error::LockTimeout { token, .. }) if token == guard.token()));
    let token = guard.token();
    guard.unlock().unwrap();
    let next = other.lock(LOCK, lease()).unwrap();
    let late = one.put_with(b"{held}.data", b"late", &WriteOptions::new().fence_raw(LOCK, token));
    assert!(matches!(late, Err(Error::Fenced { current, .. }) if current == next.token()), "{late:?}");
    assert!(one.try_lock(LOCK).unwrap().is_none() && next.is_held());
}

#[test]
fn times_to_live_beyond_sense_are_refused() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.put(b"k", b"before").unwrap();
    let year = Duration::from_secs(366 * 86_400);
    for ttl in [Duration::ZERO, Duration::from_micros(999), 10 * year, Duration::from_millis(u64::MAX), Duration::MAX] {
        let refused = session.put_with(b"k", b"never", &WriteOptions::new().ttl(ttl));
        assert!(matches!(refused, Err(Error::Refused { .. })), "{ttl:?}: {refused:?}");
        assert_eq!(&*session.get(b"k").unwrap().unwrap(), b"before", "{ttl:?}");
    }
    session.put_with(b"k", b"long", &WriteOptions::new().ttl(9 * year)).unwrap();
    assert!(session.get(b"k").unwrap().unwrap().expires_in_ms() > Some(8 * 365 * 86_400_000));
    session.put_with(b"k", b"short", &WriteOptions::new().ttl(Duration::from_millis(1))).unwrap();
    let until = Instant::now() + setting::patience(Duration::from_secs(1));
    while session.get(b"k").unwrap().is_some() {
        assert!(Instant::now() < until, "a millisecond is over");
    }
}

/// All at one instant, three times over.
#[test]
fn many_sessions_open_at_once() {
    let server = server();
    let clients: Vec<_> = (0..8).map(|_| server.client_builder().location_cache_entries(16).connect().unwrap()).collect();
    for count in [64, 256] {
        for _ in 0..3 {
            let (start, all) = (Barrier::new(count), Barrier::new(count));
            let slowest = std::thread::scope(|scope| {
                let open = |n: usize| {
                    let (client, start, all) = (&clients[n % clients.len()], &start, &all);
                    scope.spawn(move || {
                        start.wait();
                        let started = Instant::now();
                        let session = client.session();
                        let took = started.elapsed();
                        all.wait();
                        session.unwrap().put(b"k", b"v").unwrap();
                        took
                    })
                };
                let opened: Vec<_> = (0..count).map(open).collect();
                opened.into_iter().map(|one| one.join().unwrap()).max().unwrap()
            });
            println!("{count} sessions at once: the slowest took {slowest:?}");
        }
    }
}

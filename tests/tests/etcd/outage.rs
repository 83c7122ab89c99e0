//! etcd goes away and comes back.

use crate::scene::{LEASE, is_whole, server, status, until};
use sidewire::Error;
use sidewire_tests::etcd::Etcd;
use sidewire_tests::setting;
use std::time::{Duration, Instant};

#[test]
fn without_etcd_a_server_serves_until_its_lease_ends_and_again_when_etcd_is_back() {
    let mut etcd = Etcd::start();
    let one = server(&etcd, "solo", "a", 1);
    let member = until(&one, "one member", |s| is_whole(s, 1)).member;
    let client = one.client();
    let session = client.session().unwrap();
    session.put(b"before", b"1").unwrap();

    let lease = setting::patience(LEASE);
    let beaten = Instant::now();
    etcd.kill();
    let killed = Instant::now();
    // At least two thirds of the lease are left when etcd dies.
    while beaten.elapsed() < lease / 3 {
        session.put(b"during", b"2").unwrap();
        assert_eq!(session.get(b"before").unwrap().as_deref(), Some(&b"1"[..]));
    }
    let end = Instant::now() + setting::patience(Duration::from_secs(20));
    let mut believed = Duration::ZERO;
    let refused = loop {
        match session.get(b"before") {
            Ok(_) => believed = killed.elapsed(),
            Err(error) => break error,
        }
        assert!(Instant::now() < end, "reads are believed without a lease");
    };
    assert!(believed < lease * 3 / 2, "believed for {believed:?}");
    assert!(matches!(refused, Error::LeaseLapsed | Error::ServerGone { .. } | Error::Deadline { .. }), "{refused:?}");
    assert_eq!(status(&one).lease_left_ms, 0);

    etcd.start_again();
    let back = until(&one, "its lease is back", |s| s.lease_left_ms > 0 && is_whole(s, 1));
    // etcd keeps leases over a restart: nobody took this server's place.
    assert_eq!((back.member, back.map.unwrap().lost), (member, 0));
    let until_back = Instant::now() + setting::patience(Duration::from_secs(20));
    while let Err(error) = session.put(b"after", b"3") {
        assert!(Instant::now() < until_back, "no service after etcd is back: {error}");
    }
    assert_eq!(session.get(b"before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(session.get(b"during").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_server_that_slept_while_etcd_came_back_and_its_lease_ran_out_enters_anew() {
    let mut etcd = Etcd::start();
    let mut servers = [server(&etcd, "both", "a", 1), server(&etcd, "both", "b", 1)];
    until(&servers[0], "two members", |s| is_whole(s, 2));
    let before = status(&servers[1]).member;
    servers[1].pause();
    // Its next renewal finds the old stream broken, and asks for the lease on a new one.
    etcd.kill();
    etcd.start_again();
    until(&servers[0], "the sleeper is gone", |s| s.map.as_ref().unwrap().members.len() == 1);
    servers[1].resume();
    until(&servers[1], "it has entered as another member", |s| s.member != before && is_whole(s, 2));
}

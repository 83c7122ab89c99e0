//! Tables and descriptors that run out: those who are in go on, those who come too late are told why.

use crate::{lease, server};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use sidewire::{Error, Operation, Retry, Session, WriteOptions};
use sidewire_common::limits::SESSIONS_PER_CLIENT_MAX;
use sidewire_tests::{Server, scale, setting};
use std::time::{Duration, Instant};

fn works(session: &Session) {
    session.put(b"k", b"v").unwrap();
    assert_eq!(&*session.get(b"k").unwrap().unwrap(), b"v");
}

fn is_clear(error: &Error, words: &[&str]) {
    let text = error.to_string();
    println!("{text}");
    assert!(words.iter().any(|word| text.contains(word)), "{error:?}");
}

#[test]
fn a_client_has_so_many_sessions_and_no_more() {
    let server = server();
    let client = server.client();
    let sessions: Vec<Session> = (0..SESSIONS_PER_CLIENT_MAX).map(|_| client.session().unwrap()).collect();
    for _ in 0..3 {
        is_clear(&client.session().unwrap_err(), &["256"]);
    }
    works(&sessions[0]);
    works(sessions.last().unwrap());
    drop(sessions);
    let until = Instant::now() + setting::patience(Duration::from_secs(5));
    while let Err(error) = client.session() {
        assert!(Instant::now() < until, "no place after all have left: {error}");
    }
}

#[test]
fn a_server_has_so_many_clients_and_no_more() {
    let server = Server::builder().lease(lease()).args(&["--clients-max", "8"]).start();
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    let sessions: Vec<_> = clients.iter().map(|client| client.session().unwrap()).collect();
    let late = server.client_builder().connect().unwrap_err();
    is_clear(&late, &["8"]);
    assert_eq!(late.retry(), Retry::Later);
    sessions.iter().for_each(works);
    drop(sessions);
    clients.pop().unwrap().detach().unwrap();
    works(&server.client().session().unwrap());
}

/// Descriptors run out at the server: newcomers are refused, it lives, and has room again when some have left.
#[test]
fn a_lack_of_descriptors_is_survived() {
    let server = server();
    let first = server.client();
    let held = first.session().unwrap();
    works(&held);
    let limit = server.open_files() as u64 + 150;
    let limits = Rlimit { current: Some(limit), maximum: Some(limit) };
    prlimit(Pid::from_raw(server.pid().try_into().unwrap()), Resource::Nofile, limits).unwrap();
    let deadline = setting::patience(Duration::from_millis(400));
    let (mut clients, mut refused) = (Vec::new(), 0);
    for _ in 0..60 {
        let client = server.client_builder().deadline(deadline).location_cache_entries(16).connect();
        match client.and_then(|client| client.session().map(|session| (client, session))) {
            Ok((client, session)) => clients.push((session.put(b"k", b"v"), session, client)),
            Err(error) => {
                assert_ne!(error.retry(), Retry::Never, "{error:?}");
                if refused == 0 {
                    println!("{} came in, then: {error}", clients.len());
                }
                refused += 1;
            }
        }
        if refused > 5 {
            break;
        }
    }
    assert!(refused > 0 && !clients.is_empty(), "{refused} refused, {} in", clients.len());
    works(&held);
    clients.truncate(clients.len() / 3);
    let until = Instant::now() + lease() * 3 + setting::patience(Duration::from_secs(3));
    let mut late = Vec::new();
    while late.len() < 5 {
        let client = server.client_builder().deadline(deadline).location_cache_entries(16).connect();
        match client.and_then(|client| client.session().map(|session| (session, client))) {
            Ok((session, client)) => {
                works(&session);
                late.push((session, client));
            }
            Err(error) => assert!(Instant::now() < until, "no room after two thirds have left: {error}"),
        }
    }
    works(&held);
}

/// More than any queue holds, submitted as fast as it goes: each is carried out once.
#[test]
fn a_flood_is_carried_out_once_each() {
    let server = server();
    let client = server.client_builder().spin(Duration::ZERO).connect().unwrap();
    let session = client.session().unwrap();
    session.create_counter(b"sum", 0).unwrap();
    let count = scale(10_000);
    let (mut ended, mut finished) = (0, Vec::new());
    let mut submit = |operation: &dyn Fn() -> Operation<'static>| {
        while let Err(error) = session.submit(operation()) {
            assert!(matches!(error, Error::Full), "{error:?}");
            session.wait(&mut finished).unwrap();
            ended += finished.drain(..).inspect(|(_, outcome)| assert!(outcome.is_ok(), "{outcome:?}")).count();
        }
    };
    for n in 0..count {
        submit(&|| Operation::Add { key: b"sum", delta: 1 });
        let key: &'static [u8] = format!("flood-{}", n % 100).leak().as_bytes();
        submit(&|| Operation::Put { key, value: b"v", options: WriteOptions::new() });
    }
    while session.in_flight() > 0 {
        session.wait(&mut finished).unwrap();
        ended += finished.drain(..).inspect(|(_, outcome)| assert!(outcome.is_ok(), "{outcome:?}")).count();
    }
    assert_eq!(ended as u64, 2 * count);
    assert_eq!(session.counter(b"sum").unwrap(), Some(count.cast_signed()));
}

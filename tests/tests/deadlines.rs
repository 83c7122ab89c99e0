//! Calls to a server that does not answer.
//!
//! What could break: a call that waits for a stopped server for ever, or far beyond its deadline; an error without a
//! type; a session that is good for nothing once the server goes on; a write that was given up and is done later
//! although its caller was told that it was not.

use sidewire::{Error, Operation, Retry, Session, WriteOptions};
use sidewire_tests::{Server, server::client_builder, setting};
use std::time::{Duration, Instant};

fn deadline() -> Duration {
    setting::patience(Duration::from_millis(200))
}

/// Runs a call that cannot succeed, and wants a typed error between 0 and the deadline plus 10 % and some slack for a
/// busy machine.
fn ends<T: std::fmt::Debug>(what: &str, deadline: Duration, call: impl FnOnce() -> Result<T, Error>) -> Error {
    let started = Instant::now();
    let result = call();
    let took = started.elapsed();
    let most = deadline + deadline / 10 + setting::patience(Duration::from_millis(150));
    assert!(took <= most, "{what} took {took:?}, the deadline is {deadline:?}");
    match result {
        Err(error) => {
            println!("{what}: {error} ({took:?})");
            error
        }
        Ok(done) => panic!("{what} of a stopped server: {done:?}"),
    }
}

fn is_about_time(error: &Error) -> bool {
    matches!(
        error,
        Error::Deadline { .. }
            | Error::Indeterminate { .. }
            | Error::LeaseLapsed
            | Error::ServerGone { .. }
            | Error::Control { .. }
    )
}

/// Calls that need the server's worker.
fn ask_everything(session: &Session) {
    session.set_deadline(deadline());
    let check = |what, error: Error| assert!(is_about_time(&error), "{what}: {error:?}");
    let options = WriteOptions::new();
    check("put", ends("put", deadline(), || session.put(b"k", b"late")));
    check("put_if_absent", ends("put_if_absent", deadline(), || session.put_if_absent(b"new", b"late")));
    check("delete", ends("delete", deadline(), || session.delete(b"k2")));
    check("create_counter", ends("create_counter", deadline(), || session.create_counter(b"new-counter", 0)));
    check("create_sequence", ends("create_sequence", deadline(), || session.create_sequence(b"new-sequence", 0)));
    check("add_exactly_once", ends("add_exactly_once", deadline(), || session.add_exactly_once(b"counter", 1)));
    check("try_lock", ends("try_lock of a new lock", deadline(), || session.try_lock(b"new-lock")));
    check("break_lock", ends("break_lock", deadline(), || session.break_lock(b"lock")));
    let submitted = ends("submitted put", deadline(), || {
        session.submit(Operation::Put { key: b"k3", value: b"late", options })?;
        let mut finished = Vec::new();
        // Operations given up before may end here too.
        while finished.is_empty() {
            session.wait(&mut finished)?;
        }
        finished.remove(0).1
    });
    check("submitted put", submitted);
}

#[test]
fn every_call_to_a_stopped_server_ends_by_its_deadline() {
    // Long enough for all these calls; the first one is waited out, since no lock is granted in it.
    let lease = setting::patience(Duration::from_secs(4));
    let mut server = Server::builder().lease(lease).start();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(lease * 3);
    session.lock(b"lock", lease * 2).unwrap().unlock().unwrap();
    for key in [&b"k"[..], b"k2", b"k3"] {
        session.put(key, b"before").unwrap();
    }
    session.create_counter(b"counter", 0).unwrap();
    server.pause();
    ask_everything(&session);
    // What needs no worker still ends well.
    assert!(session.get(b"k").unwrap().is_some());
    assert_eq!(session.add(b"counter", 5).unwrap() % 5, 0);

    server.resume();

    // The same session goes on; what was left open is resolved.
    session.set_deadline(setting::patience(Duration::from_secs(5)));
    session.put(b"k", b"after").unwrap();
    assert_eq!(&*session.get(b"k").unwrap().unwrap(), b"after");
    session.put_if_absent(b"new", b"later").unwrap();
    session.create_counter(b"new-counter", 0).unwrap();
    let sum = session.counter(b"counter").unwrap().unwrap();
    assert!(sum == 5 || sum == 6, "{sum}: the open add counted at most once");
    assert_eq!(server.info().clients_swept, 0);
}

/// Attaching asks the control plane, which has a limit of its own.
#[test]
fn attaching_to_a_stopped_server_ends() {
    let mut server = Server::builder().lease(setting::patience(Duration::from_secs(60))).start();
    let client = server.client();
    server.pause();
    let error = ends("connect", deadline(), || client_builder(server.address()).deadline(deadline()).connect());
    assert!(is_about_time(&error) && error.retry() != Retry::Never, "{error:?}");
    let error = ends("session", setting::patience(Duration::from_secs(5)), || client.session());
    assert!(is_about_time(&error) && error.retry() != Retry::Never, "{error:?}");
    server.resume();
    client.session().unwrap().put(b"k", b"v").unwrap();
}

/// Past the lease nothing that is read can be believed: the dead server's memory still answers.
#[test]
fn nothing_is_believed_past_the_lease() {
    let lease = setting::patience(Duration::from_millis(800));
    let mut server = Server::builder().lease(lease).start();
    let client = server.client();
    let session = client.session().unwrap();
    session.put(b"k", b"before").unwrap();
    session.create_counter(b"n", 0).unwrap();
    session.set_deadline(deadline());
    server.pause();
    let stopped = Instant::now();
    let mut last_good = Duration::ZERO;
    let error = loop {
        match session.get(b"k") {
            Ok(value) => {
                assert_eq!(&*value.unwrap(), b"before");
                last_good = stopped.elapsed();
            }
            Err(error) => break error,
        }
        assert!(stopped.elapsed() < lease * 4, "values are believed {:?} after the server stopped", stopped.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    };
    println!("last value believed {last_good:?} after the stop, lease {lease:?}: {error}");
    assert!(is_about_time(&error), "{error:?}");
    // A beat may have been answered just before; a third of a lease before that it was sent.
    assert!(last_good <= lease, "{last_good:?}");
    assert!(last_good >= lease / 2, "the lease is worth less than half: {last_good:?}");
    ends("get", deadline(), || session.get(b"k"));
    ends("multi_get", deadline(), || session.multi_get(&[b"k"]).pop().unwrap());
    ends("exists", deadline(), || session.exists(b"k"));
    ends("counter", deadline(), || session.counter(b"n"));
    ends("put", deadline(), || session.put(b"k", b"late"));
    ends("lock", deadline(), || session.lock(b"l", deadline()));
    server.resume();
    let until = Instant::now() + lease * 4 + setting::patience(Duration::from_secs(2));
    while let Err(error) = session.get(b"k") {
        assert!(Instant::now() < until, "no way back: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_asynchronous_handle_keeps_deadlines_too() {
    let mut server = Server::builder().lease(setting::patience(Duration::from_secs(60))).start();
    let client = server.client_builder().deadline(deadline()).connect().unwrap();
    let handle = client.async_client().unwrap();
    handle.put(b"k", b"before").await.unwrap();
    server.pause();
    let started = Instant::now();
    let puts: Vec<_> = (0..8)
        .map(|n| {
            let handle = handle.clone();
            tokio::spawn(async move { handle.put(format!("k{n}").as_bytes(), b"late").await })
        })
        .collect();
    assert_eq!(handle.get(b"k").await.unwrap().unwrap(), b"before");
    for put in puts {
        let error = put.await.unwrap().unwrap_err();
        assert!(is_about_time(&error), "{error:?}");
    }
    let took = started.elapsed();
    assert!(took < deadline() + deadline() / 10 + setting::patience(Duration::from_millis(150)), "{took:?}");
    server.resume();
    let until = Instant::now() + setting::patience(Duration::from_secs(5));
    while let Err(error) = handle.put(b"k", b"after").await {
        assert!(Instant::now() < until, "{error}");
    }
}

/// A worker that has no staging ring for a session says so, rather than nothing until the time is over, and takes it as
/// soon as another one is gone.
#[test]
fn a_session_too_many_is_told_why() {
    let server = Server::builder().workers(1).args(&["--staging", "64KiB", "--staging-total", "128KiB"]).start();
    let client = server.client();
    let mut sessions: Vec<Session> = (0..3).map(|_| client.session().unwrap()).collect();
    sessions[0].put(b"k", b"1").unwrap();
    sessions[1].put(b"k", b"2").unwrap();
    sessions[2].set_deadline(deadline());
    let error = ends("put without a ring", deadline(), || sessions[2].put(b"k", b"3"));
    assert!(matches!(&error, Error::Control { reason, .. } if reason.contains("staging_total")), "{error:?}");
    assert_eq!(error.retry(), Retry::Later);
    let last = sessions.pop().unwrap();
    drop(sessions);
    last.set_deadline(setting::patience(Duration::from_secs(5)));
    last.put(b"k", b"4").unwrap();
    assert_eq!(last.get(b"k").unwrap().unwrap().to_vec(), b"4");
}

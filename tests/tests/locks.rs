//! Locks held by several processes, by dead ones and by paused ones.
//!
//! What could break: two hold a lock at once; a token is given twice or falls; a dead client's lock is never free; a
//! client that was paused past its lease believes that it still holds; its late writes get through.

use sidewire::{Error, LockGuard, Session, WriteOptions};
use sidewire_tests::{Child, Server, child, scale, server::client_builder, setting};
use std::time::{Duration, Instant};

const LOCK: &[u8] = b"{account}.lock";
const DATA: &[u8] = b"{account}.balance";
const PROCESSES: u64 = 3;

#[test]
fn child() {
    child::run(&[("counts", counts), ("holds", holds)]);
}

fn lease() -> Duration {
    setting::patience(Duration::from_secs(1))
}

fn server() -> Server {
    Server::builder().lease(lease()).start()
}

fn number(session: &Session) -> u64 {
    session.get(DATA).unwrap().map_or(0, |value| u64::from_le_bytes((*value).try_into().unwrap()))
}

/// Takes the lock, reads, adds one, writes fenced, gives it back; so many times. Says the tokens it had.
fn counts(arguments: &[String]) {
    let [address, rounds] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).connect().unwrap();
    let session = client.session().unwrap();
    session.set_deadline(setting::patience(Duration::from_secs(20)));
    let mut tokens = Vec::new();
    for _ in 0..rounds.parse().unwrap() {
        let guard = session.lock(LOCK, setting::patience(Duration::from_secs(20))).unwrap();
        let next = number(&session) + 1;
        session.put_with(DATA, &next.to_le_bytes(), &WriteOptions::new().fence(&guard)).unwrap();
        tokens.push(guard.token().to_string());
        guard.unlock().unwrap();
    }
    child::say(tokens.join(" "));
}

#[test]
fn one_at_a_time() {
    let rounds = scale(300);
    let server = server();
    let children: Vec<_> = (0..PROCESSES).map(|_| Child::start("counts", &[server.address(), &rounds.to_string()])).collect();
    let mut tokens = Vec::new();
    for child in children {
        let own: Vec<u64> = child.hear().split(' ').map(|token| token.parse().unwrap()).collect();
        assert!(own.is_sorted_by(|a, b| a < b), "a process's tokens rise");
        tokens.extend(own);
        child.finish();
    }
    tokens.sort_unstable();
    assert!(tokens.is_sorted_by(|a, b| a < b), "no token twice");
    let client = server.client();
    assert_eq!(number(&client.session().unwrap()), PROCESSES * rounds, "an increment was lost: two held the lock");
}

/// Takes the lock, says its token, and answers questions until told to end.
fn holds(arguments: &[String]) {
    let [address] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).connect().unwrap();
    let session = client.session().unwrap();
    let guard = session.lock(LOCK, lease() * 4).unwrap();
    child::say(guard.token());
    loop {
        match &*child::hear() {
            "held?" => child::say(guard.is_held()),
            "write" => child::say(outcome(session.put_with(DATA, b"late", &WriteOptions::new().fence(&guard)))),
            "delete" => child::say(outcome(session.delete_with(DATA, &WriteOptions::new().fence(&guard)))),
            "unlock" => {
                let unlocked = guard.unlock();
                return child::say(matches!(unlocked, Err(Error::LeaseLapsed)));
            }
            _ => return,
        }
    }
}

fn outcome<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Ok(done) => format!("done {done:?}"),
        Err(Error::Fenced { .. } | Error::LeaseLapsed | Error::Indeterminate { .. }) => "refused".into(),
        Err(other) => format!("{other:?}"),
    }
}

fn ask(child: &mut Child, question: &str) -> String {
    child.tell(question);
    child.hear()
}

/// Waits for the lock, and says how long it took.
fn take(session: &Session) -> (LockGuard, Duration) {
    let started = Instant::now();
    (session.lock(LOCK, lease() * 6).unwrap(), started.elapsed())
}

#[test]
fn a_killed_holders_lock_is_free_within_a_lease() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(lease() * 8);
    let mut holder = Child::start("holds", &[server.address()]);
    let token: u64 = holder.hear().parse().unwrap();
    assert!(session.try_lock(LOCK).unwrap().is_none());
    match session.lock(LOCK, lease() / 4) {
        Err(Error::LockTimeout { holder, token: seen }) => assert!(holder.is_some() && seen == token),
        other => panic!("{other:?}"),
    }
    holder.kill();
    let (guard, took) = take(&session);
    println!("free {took:?} after the kill, lease {:?}", lease());
    assert!(took < lease() + lease() / 2, "took {took:?}");
    assert!(guard.token() > token);
}

#[test]
fn a_paused_holder_knows_that_it_lost_and_its_late_writes_are_refused() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(lease() * 8);
    session.put(DATA, b"before").unwrap();
    let mut holder = Child::start("holds", &[server.address()]);
    let token: u64 = holder.hear().parse().unwrap();
    assert_eq!(ask(&mut holder, "held?"), "true");
    holder.pause();
    let (guard, took) = take(&session);
    println!("free {took:?} after the pause, lease {:?}", lease());
    assert!(guard.token() > token);
    session.put_with(DATA, b"mine", &WriteOptions::new().fence(&guard)).unwrap();
    holder.resume();
    assert_eq!(ask(&mut holder, "held?"), "false");
    assert_eq!(ask(&mut holder, "write"), "refused");
    assert_eq!(ask(&mut holder, "delete"), "refused");
    assert_eq!(ask(&mut holder, "unlock"), "true", "it says that the lock was lost");
    assert_eq!(&*session.get(DATA).unwrap().unwrap(), b"mine");
    assert!(guard.is_held(), "the late unlock took nothing from its next holder");
    assert_eq!(session.lock_state(LOCK).unwrap().unwrap().token, guard.token());
    session.put_with(DATA, b"still mine", &WriteOptions::new().fence(&guard)).unwrap();
    guard.unlock().unwrap();
}

#[test]
fn fenced_writes_need_the_holders_token() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(lease() * 8);
    let (guard, _) = take(&session);
    let token = guard.token();
    session.put_with(DATA, b"1", &WriteOptions::new().fence(&guard)).unwrap();
    for wrong in [token - 1, token + 1] {
        let refused = session.put_with(DATA, b"2", &WriteOptions::new().fence_raw(LOCK, wrong));
        assert!(matches!(refused, Err(Error::Fenced { current, .. }) if current == token), "{refused:?}");
    }
    let no_lock = session.put_with(DATA, b"2", &WriteOptions::new().fence_raw(b"{account}.none", token));
    assert!(matches!(no_lock, Err(Error::Fenced { .. })), "{no_lock:?}");
    let elsewhere = session.put_with(b"in-another-shard", b"2", &WriteOptions::new().fence(&guard));
    assert!(matches!(elsewhere, Err(Error::Refused { .. } | Error::Fenced { .. })), "{elsewhere:?}");
    guard.unlock().unwrap();
    let after = session.put_with(DATA, b"2", &WriteOptions::new().fence_raw(LOCK, token));
    assert!(matches!(after, Err(Error::Fenced { .. })), "{after:?}");
    assert_eq!(&*session.get(DATA).unwrap().unwrap(), b"1");
    // Broken by an operator: the guard's writes are refused too.
    let (guard, _) = take(&session);
    assert!(session.break_lock(LOCK).unwrap());
    let broken = session.put_with(DATA, b"2", &WriteOptions::new().fence(&guard));
    assert!(matches!(broken, Err(Error::Fenced { .. })), "{broken:?}");
    assert!(!session.break_lock(b"{account}.none").unwrap());
    let (next, _) = take(&session);
    assert!(next.token() > guard.token());
    drop(guard);
    assert_eq!(session.lock_state(LOCK).unwrap().unwrap().token, next.token());
    assert!(session.lock_state(LOCK).unwrap().unwrap().holder.is_some(), "the dropped guard freed what it did not hold");
}

#[test]
fn tokens_rise_over_deletion_and_restart() {
    let mut server = server();
    let mut last = 0;
    for round in 0..2 {
        let client = server.client();
        let session = client.session().unwrap();
        session.set_deadline(lease() * 8);
        let started = Instant::now();
        for _ in 0..5 {
            let (guard, _) = take(&session);
            assert!(guard.token() > last, "{} after {last}", guard.token());
            last = guard.token();
            guard.unlock().unwrap();
            // A lock that is made anew goes on where the old one was.
            assert!(session.delete(LOCK).unwrap());
        }
        if round == 0 {
            println!("first lock of the first life after {:?}", started.elapsed());
            drop(session);
            server.kill();
            server.start_again();
        } else {
            // A holder of the life before could still believe in its lease.
            println!("locks of the second life after {:?}", started.elapsed());
        }
    }
}

//! Every kind of call.

use crate::deadline;
use crate::scene::{COUNTER, GUARDED, KEYS, LOCK, SEQUENCE, Scene, Timed, prepared};
use sidewire::{Admin, AsyncClient, Error, LockGuard, Operation, Session, WriteOptions};
use sidewire_tests::server::client_builder;
use std::future::Future;
use std::time::{Duration, Instant};

type Case = fn(&Scene) -> Timed;

/// Many more than can be in flight at once.
const MANY: usize = 2500;

pub const CASES: &[(&str, Case)] = &[
    ("get", |s| on(s, |x| x.get(KEYS[0]).map(|_| ()))),
    ("get of a cold key", |s| on(s, |x| x.get(KEYS[2]).map(|_| ()))),
    ("multi_get", |s| on(s, |x| x.multi_get(&KEYS).into_iter().try_for_each(|r| r.map(|_| ())))),
    ("large multi_get", large_multi_get),
    ("exists", |s| on(s, |x| x.exists(KEYS[2]))),
    ("kind", |s| on(s, |x| x.kind(KEYS[2]))),
    ("put", |s| on(s, |x| x.put(KEYS[0], b"new"))),
    ("put at the first worker it meets", |s| on_fresh(s, |x| x.put(KEYS[0], b"new"))),
    ("large put", |s| on(s, |x| x.put(b"large", &vec![1; 400_000]))),
    ("put_if_absent", |s| on(s, |x| x.put_if_absent(KEYS[0], b"new"))),
    ("delete", |s| on(s, |x| x.delete(b"absent"))),
    ("create_counter", |s| on(s, |x| x.create_counter(b"new-counter", 0))),
    ("add", |s| on(s, |x| x.add(COUNTER, 1))),
    ("add_exactly_once", |s| on(s, |x| x.add_exactly_once(COUNTER, 1))),
    ("counter", |s| on(s, |x| x.counter(COUNTER))),
    ("next", |s| on(s, |x| x.next(SEQUENCE))),
    ("try_lock", |s| on(s, |x| x.try_lock(b"tried").map(drop))),
    ("lock", |s| on(s, |x| x.lock(b"waited-for", deadline()).map(drop))),
    ("lock that another holds", lock_of_another),
    ("unlock", |s| held(s, |_, guard| guard.take().map_or(Ok(()), LockGuard::unlock))),
    ("drop of a guard", |s| held(s, |_, guard| gone(guard.take()))),
    ("fenced put", |s| {
        held(s, |x, guard| {
            let guard = guard.as_ref().expect("held");
            x.put_with(GUARDED, b"v", &WriteOptions::new().fence(guard)).map(|_| ())
        })
    }),
    ("unlock after a fenced put in doubt", unlock_after_a_put),
    ("lock_state", |s| on(s, |x| x.lock_state(LOCK))),
    ("break_lock", |s| on(s, |x| x.break_lock(b"none"))),
    ("submit and wait", submitted),
    ("session", |s| s.go(|| s.client.session().map(drop))),
    ("connect", |s| s.go(|| client_builder(&s.address).deadline(deadline()).connect().map(drop))),
    ("drop of a session", |s| {
        let session = s.session();
        s.go(|| gone(session))
    }),
    ("drop of a client", |s| {
        let client = s.another_client();
        s.go(|| gone(client))
    }),
    ("detach", |s| {
        let client = s.another_client();
        s.go(|| client.detach())
    }),
    ("admin connect", |s| s.go(|| Admin::connect_within(&s.address, deadline()).map(drop))),
    ("info", |s| {
        let admin = prepared(|| Admin::connect_within(&s.address, deadline()));
        s.go(|| admin.info().map(drop))
    }),
    ("info by a client", |s| s.go(|| s.client.admin().info().map(drop))),
    ("scan", |s| {
        let admin = prepared(|| Admin::connect_within(&s.address, deadline()));
        s.go(|| admin.scan(b"", true, 0)?.try_for_each(|item| item.map(|_| ())))
    }),
    ("async client", |s| s.go(|| s.client.async_client().map(drop))),
    ("async get", |s| asynchronous(s, |x| async move { x.get(KEYS[0]).await.map(drop) })),
    ("async put", |s| asynchronous(s, |x| async move { x.put(KEYS[0], b"new").await.map(drop) })),
    ("async add", |s| asynchronous(s, |x| async move { x.add(COUNTER, 1).await.map(drop) })),
    ("async lock", |s| asynchronous(s, |x| async move { x.lock(b"waited-for", deadline()).await.map(drop) })),
    ("async try_lock", |s| asynchronous(s, |x| async move { x.try_lock(b"tried").await.map(drop) })),
    ("many async puts", |s| {
        asynchronous(s, |x| async move {
            let mut puts = tokio::task::JoinSet::new();
            for n in 0..MANY {
                let x = x.clone();
                puts.spawn(async move { x.put(format!("many-{n}").as_bytes(), b"new").await });
            }
            puts.join_all().await.into_iter().try_for_each(|put| put.map(drop))
        })
    }),
    ("drop of an async client", |s| {
        let client = s.another_client();
        let handle = prepared(|| client.async_client());
        drop(client);
        s.go(|| gone(handle))
    }),
];

/// Only its end is of interest.
fn gone<T>(what: T) -> Result<(), Error> {
    drop(what);
    Ok(())
}

fn on<T: std::fmt::Debug>(scene: &Scene, call: impl FnOnce(&Session) -> Result<T, Error>) -> Timed {
    let session = scene.session();
    scene.go(|| call(&session))
}

/// On a session that has not written yet.
fn on_fresh<T: std::fmt::Debug>(scene: &Scene, call: impl FnOnce(&Session) -> Result<T, Error>) -> Timed {
    let session = prepared(|| scene.client.session());
    session.set_deadline(deadline());
    scene.go(|| call(&session))
}

fn large_multi_get(scene: &Scene) -> Timed {
    let keys: Vec<Vec<u8>> = (0..MANY).map(|n| format!("some-{n}").into_bytes()).collect();
    on(scene, |x| x.multi_get(&keys).into_iter().try_for_each(|r| r.map(|_| ())))
}

fn lock_of_another(scene: &Scene) -> Timed {
    let (holder, session) = (scene.session(), scene.session());
    let guard = prepared(|| holder.lock(b"held", deadline()));
    let timed = scene.go(|| session.lock(b"held", deadline()).map(drop));
    drop(guard);
    timed
}

fn held(scene: &Scene, call: impl FnOnce(&Session, &mut Option<LockGuard>) -> Result<(), Error>) -> Timed {
    let session = scene.session();
    // Each case a lock of its own, in the shard of what it guards.
    let key = format!("{{t}}{:?}", std::thread::current().id());
    let mut guard = Some(prepared(|| session.lock(key.as_bytes(), deadline())));
    let timed = scene.go(|| call(&session, &mut guard));
    drop(guard);
    timed
}

/// The guard waits for writes that carry its token, and has its own deadline for that.
fn unlock_after_a_put(scene: &Scene) -> Timed {
    let session = scene.session();
    let guard = prepared(|| session.lock(b"{t}put-under", deadline()));
    let options = WriteOptions::new().fence(&guard);
    session.set_deadline(deadline() / 100);
    for _ in 0..1000 {
        // Until one is left in doubt, or all are done.
        if session.put_with(b"{t}doubtful", &[0; 60_000], &options).is_err() {
            break;
        }
    }
    session.set_deadline(deadline());
    scene.go(|| guard.unlock())
}

/// Each submit, and the wait for all of them, is a call of its own; the longest counts.
fn submitted(scene: &Scene) -> Timed {
    let session = scene.session();
    let mut longest = Duration::ZERO;
    let timed = scene.go(|| {
        let (mut open, mut finished) = (0, Vec::new());
        for n in 0..40_u8 {
            let options = WriteOptions::new();
            let key: &[u8] = &[b'p', n];
            let started = Instant::now();
            let submitted = match n % 3 {
                0 => session.submit(Operation::Get { key: KEYS[usize::from(n) % 3] }),
                1 => session.submit(Operation::Put { key, value: b"new", options }),
                _ => session.submit(Operation::Add { key: COUNTER, delta: 1 }),
            };
            longest = longest.max(started.elapsed());
            open += usize::from(submitted.is_ok());
        }
        let started = Instant::now();
        while finished.len() < open {
            session.wait(&mut finished)?;
        }
        longest = longest.max(started.elapsed());
        finished.into_iter().try_for_each(|(_, outcome)| outcome.map(|_| ()))
    });
    Timed { took: longest, ..timed }
}

fn asynchronous<F>(scene: &Scene, call: impl FnOnce(AsyncClient) -> F) -> Timed
where
    F: Future<Output = Result<(), Error>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = prepared(|| scene.client.async_client());
    prepared(|| runtime.block_on(handle.put(KEYS[1], b"value")));
    scene.go(|| runtime.block_on(call(handle)))
}

//! The asynchronous handle: the same operations, from several tasks at once.

use sidewire::{Error, Kind, Unmet, Write, WriteOptions};
use sidewire_tests::{Server, scale, setting, stamped};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_operations_without_a_thread_of_ones_own() {
    let server = Server::builder().lease(setting::patience(Duration::from_secs(1))).start();
    let client = server.client();
    let handle = client.async_client().unwrap();
    assert_eq!(handle.get(b"k").await.unwrap(), None);
    let version = handle.put(b"k", b"v").await.unwrap();
    assert_eq!(handle.get_versioned(b"k").await.unwrap(), Some((b"v".to_vec(), version)));
    assert_eq!(handle.put_if_absent(b"k", b"w").await.unwrap(), Write::NotDone(Unmet::Exists(version)));
    let Write::Done(second) = handle.put_if_version(b"k", b"w", version).await.unwrap() else { panic!("not done") };
    assert_eq!(handle.delete_if_version(b"k", version).await.unwrap(), Write::NotDone(Unmet::Mismatch(second)));
    assert!(handle.exists(b"k").await.unwrap());
    assert_eq!(handle.kind(b"k").await.unwrap(), Some(Kind::Value));
    let values = handle.multi_get(&[&b"k"[..], b"none", b"k"]).await;
    let values: Vec<_> = values.into_iter().map(Result::unwrap).collect();
    assert_eq!(values, [Some(b"w".to_vec()), None, Some(b"w".to_vec())]);
    assert!(handle.delete(b"k").await.unwrap());
    assert!(!handle.delete(b"k").await.unwrap());
    assert!(matches!(handle.put(b"", b"v").await, Err(Error::Key(_))));
    assert!(matches!(handle.put(b"k", &vec![0; 20 << 20]).await, Err(Error::ValueTooLong { .. })));

    assert!(matches!(handle.add(b"n", 1).await, Err(Error::NotFound)));
    assert!(handle.create_counter(b"n", 5).await.unwrap());
    assert_eq!(handle.add(b"n", 2).await.unwrap(), 7);
    assert_eq!(handle.add_exactly_once(b"n", 3).await.unwrap(), 10);
    assert_eq!(handle.counter(b"n").await.unwrap(), Some(10));
    assert!(matches!(handle.get(b"n").await, Err(Error::WrongKind { found: Kind::Counter, .. })));
    assert!(handle.create_sequence(b"s", 1).await.unwrap());
    assert_eq!(handle.next(b"s").await.unwrap(), 1);

    let guard = handle.lock(b"{a}.lock", server.lease() * 2).await.unwrap();
    assert!(guard.is_held() && guard.lease_left() > Duration::ZERO);
    assert!(handle.try_lock(b"{a}.lock").await.unwrap().is_none());
    assert_eq!(handle.lock_state(b"{a}.lock").await.unwrap().unwrap().token, guard.token());
    let fenced = WriteOptions::new().fence_raw(guard.key(), guard.token());
    assert!(matches!(handle.put_with(b"{a}.data", b"1", &fenced).await.unwrap(), Write::Done(_)));
    let (key, token) = (guard.key().to_vec(), guard.token());
    guard.unlock().await.unwrap();
    let late = handle.put_with(b"{a}.data", b"2", &WriteOptions::new().fence_raw(&key, token)).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
    assert_eq!(handle.get(b"{a}.data").await.unwrap().unwrap(), b"1");
}

/// Tasks that share the handle could get each other's answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_it() {
    let rounds = scale(100);
    let server = Server::start();
    let client = server.client();
    let handle = client.async_client().unwrap();
    handle.create_counter(b"all", 0).await.unwrap();
    let tasks: Vec<_> = (0..32_u64)
        .map(|task| {
            let handle = handle.clone();
            tokio::spawn(async move {
                for version in 1..=rounds {
                    let key = format!("task{task}");
                    handle.put(key.as_bytes(), &stamped::stamp(task, version, 16 + version as usize * 13)).await.unwrap();
                    let value = handle.get(key.as_bytes()).await.unwrap().unwrap();
                    assert_eq!(stamped::version_of(&value, task), Ok(version));
                    handle.add(b"all", 1).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(handle.counter(b"all").await.unwrap(), Some(32 * rounds as i64));
}

/// A future that is dropped could leave its buffer to the next, or the handle stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_future_harms_nobody() {
    let server = Server::start();
    let client = server.client();
    let handle = client.async_client().unwrap();
    handle.put(b"k", &stamped::stamp(1, 1, 5000)).await.unwrap();
    for round in 0..scale(200) {
        let hasty = tokio::time::timeout(Duration::from_micros(round % 50), async {
            handle.put(b"k", &stamped::stamp(1, round, 5000)).await.unwrap();
            handle.get(b"k").await.unwrap();
        });
        let _ = hasty.await;
    }
    let value = handle.get(b"k").await.unwrap().unwrap();
    stamped::version_of(&value, 1).unwrap();
}

//! Servers that stand still, or come back, while clients wait.

use crate::{lease, rounds, server};
use sidewire_tests::{Child, Frozen, Server, setting};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// It must not judge by the time for which it stood still: nobody could have been heard in it.
/// The clients stand still too, or they would lapse by themselves and come back under new names.
#[test]
fn after_a_stall_every_client_has_a_full_lease() {
    let mut server = server();
    let clients: Vec<_> = (0..5).map(|n| Child::start("visitor", &[server.address(), &n.to_string()])).collect();
    clients.iter().for_each(|client| assert_eq!(client.hear(), "put"));
    let ids = |server: &Server| {
        let mut ids: Vec<_> = server.info().clients.into_iter().map(|client| client.client_id).collect();
        ids.sort();
        ids
    };
    let before = ids(&server);
    server.pause();
    clients.iter().for_each(Child::pause);
    std::thread::sleep(lease() * 5 / 2);
    server.resume();
    let resumed = Instant::now();
    let mut looks = 0;
    while resumed.elapsed() < lease() * 3 / 4 {
        let (now, swept) = (ids(&server), server.info().clients_swept);
        if resumed.elapsed() < lease() * 3 / 4 {
            assert_eq!(swept, 0, "swept {:?} after the server went on", resumed.elapsed());
            assert!(before.iter().all(|id| now.contains(id)));
            looks += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(looks > 3, "{looks}");
    // Now they are silent for a lease that counts.
    while server.info().clients_swept < before.len() as u64 {
        assert!(resumed.elapsed() < lease() * 3, "{} swept", server.info().clients_swept);
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = resumed.elapsed();
    println!("swept {took:?} after the server went on, the lease is {:?}", lease());
    assert!(took > lease() * 3 / 4, "{took:?}");
}

/// An idle client notices by itself that its server is back.
#[test]
fn an_idle_client_is_well_again_by_itself() {
    let mut server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.put(b"k", b"v").unwrap();
    server.pause();
    std::thread::sleep(Duration::from_secs(rounds(3, 60)).max(lease() * 3));
    server.resume();
    // Two heartbeats.
    std::thread::sleep(lease() * 2 / 3 + setting::patience(Duration::from_millis(300)));
    assert_eq!(client.stats().reattaches, 1);
    assert_eq!(&*session.get(b"k").unwrap().unwrap(), b"v");
}

/// Workers that are busy for longer than a lease hold up neither heartbeats nor newcomers.
#[test]
fn busy_workers_cost_nobody_the_lease() {
    let server = server();
    let clients: Vec<_> = (0..40).map(|_| server.client_builder().location_cache_entries(16).connect().unwrap()).collect();
    let sessions: Vec<_> = clients.iter().map(|client| client.session().unwrap()).collect();
    sessions[0].put(b"k", b"v").unwrap();
    let frozen = Frozen::threads(server.pid(), "kv-worker");
    let started = Instant::now();
    let newcomers: Vec<_> = (0..10).map(|_| server.client()).collect();
    while started.elapsed() < lease() * 3 {
        for session in &sessions {
            assert!(session.get(b"k").unwrap().is_some());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(frozen);
    let info = server.info();
    assert_eq!((info.clients_swept, info.clients.len()), (0, clients.len() + newcomers.len()));
    for session in &sessions {
        session.put(b"k", b"w").unwrap();
    }
    assert!(clients.iter().chain(&newcomers).all(|client| client.stats().reattaches == 0));
}

/// Many callers at the moment of a restart, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_callers_survive_restarts() {
    let mut server = server();
    let deadline = setting::patience(Duration::from_millis(500));
    let client = server.client_builder().deadline(deadline).connect().unwrap();
    let handle = client.async_client().unwrap();
    let (stop, good) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..16)
        .map(|n| {
            let (handle, stop, good) = (handle.clone(), Arc::clone(&stop), Arc::clone(&good));
            tokio::spawn(async move {
                let (key, mut longest, mut failed) = (format!("k{n}"), Duration::ZERO, 0_u64);
                while !stop.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    match handle.get(key.as_bytes()).await {
                        Ok(_) => drop(good.fetch_add(1, Ordering::Relaxed)),
                        Err(_) => failed += 1,
                    }
                    longest = longest.max(started.elapsed());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                (longest, failed)
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..rounds(8, 200) {
        let started = tokio::task::block_in_place(|| {
            server.kill();
            server.start_again();
            Instant::now()
        });
        let before = good.load(Ordering::Relaxed);
        while good.load(Ordering::Relaxed) < before + 16 {
            assert!(started.elapsed() < lease() * 2 + setting::patience(Duration::from_secs(2)), "no way back");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        slowest = slowest.max(started.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    let (mut longest, mut failures) = (Duration::ZERO, 0);
    for caller in callers {
        let (its, failed) = caller.await.unwrap();
        longest = longest.max(its);
        failures += failed;
    }
    println!("back at most {slowest:?} after a restart; {failures} calls failed, the longest took {longest:?}");
    assert!(longest < deadline * 11 / 10 + setting::patience(Duration::from_millis(300)), "{longest:?}");
}

//! A client on a machine that has no time for it.
//!
//! What could break: a heartbeat that shares a thread or a runtime with the application, and stops with it. Alone in its
//! executable: what it does to the machine would harm other tests.

use sidewire_tests::{Server, setting};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOCK: &[u8] = b"held";

fn lease() -> Duration {
    setting::patience(Duration::from_secs(1))
}

/// The heartbeat has a thread of its own: neither blocked runtimes nor busy processors cost the lease.
#[test]
fn a_busy_application_keeps_its_lease() {
    let server = Server::builder().lease(lease()).start();
    let client = server.client();
    let handle = client.async_client().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..8 * cores {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let guard = runtime.block_on(handle.lock(LOCK, lease() * 3)).unwrap();
        for _ in 0..2 {
            runtime.spawn(async { std::thread::sleep(lease() * 3) });
        }
        std::thread::sleep(lease() * 3);
        assert!(guard.is_held(), "the lease was lost to a busy application");
        stop.store(true, Ordering::Relaxed);
        runtime.block_on(guard.unlock()).unwrap();
    });
    assert_eq!((client.stats().reattaches, server.info().clients_swept), (0, 0));
}

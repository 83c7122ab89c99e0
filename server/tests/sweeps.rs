//! What a lost client held comes back, and nobody else loses anything.
//!
//! What could break: a lock that stays held for ever, another client's lock released, a lock released before the
//! workers have let go, a layout epoch that waits for the dead, a cell used again under a process that is only stopped.

use kv_server::lease::Leases;
use kv_server::lease::table::Told;
use kv_server::store::{Settings, Store};
use kv_server::worker::{Pinning, Workers};
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::shm::{Guest, Host};
use sidewire_common::fabric::{Fabric, PeerInfo};
use sidewire_common::id::ClientId;
use sidewire_common::layout::lock_word::LockWord;
use sidewire_common::layout::record::Kind;
use sidewire_common::memory::HugepageMode;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Server {
    store: Arc<Store>,
    workers: Arc<Workers>,
    leases: Leases,
}

impl Server {
    fn start(lease: Duration) -> Self {
        let settings = Settings {
            memory_bytes: 64 << 20,
            chunk_bytes: Some(16 << 20),
            staging_bytes: 64 << 10,
            values: kv_server::value_limits::ValueLimits::default(),
            worker_count: 2,
            hugepages: HugepageMode::Off,
            cell_count: 64,
            lease,
            spin: Duration::ZERO,
            pin: Pinning::Off,
            clients_max: 8,
            hash_seed: None,
        };
        let store = Store::build(settings, Arc::new(Host::start().unwrap())).unwrap();
        let workers = Arc::new(Workers::start(&store).unwrap());
        let leases = Leases::start(&store, &workers).unwrap();
        Self { store, workers, leases }
    }

    fn admit(&self) -> (ClientId, u32) {
        let id = ClientId::random();
        let mut table = self.leases.shared().table.lock();
        let epoch = self.store.epochs().current();
        (id, table.admit(BootInstant::now(), id, Told::default(), epoch).unwrap())
    }

    /// A lock that `holder` has with this token.
    fn lock(&self, holder: u32, token: u64) -> u32 {
        let word = LockWord::free(token - 1).acquired_by(holder).unwrap();
        self.store.cells().take(Kind::Lock, word.raw()).unwrap().index
    }

    fn word(&self, cell: u32) -> LockWord {
        LockWord::from_raw(self.store.cells().peek(cell))
    }

    fn clients(&self) -> usize {
        self.leases.shared().table.lock().clients().count()
    }

    fn await_that(&self, what: &str, mut is: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !is(self) {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.workers.stop();
        self.leases.stop();
    }
}

#[test]
fn the_locks_of_a_silent_client_come_free_and_others_stay() {
    let server = Server::start(Duration::from_millis(500));
    let (_, silent) = server.admit();
    let cells = [server.lock(silent, 10), server.lock(silent, 11)];
    let other = server.lock(silent + 1, 12);
    let counter = server.store.cells().take(Kind::Counter, u64::from(silent) << 44).unwrap().index;
    assert_eq!(server.clients(), 1);
    server.await_that("the silent client is swept", |s| s.clients() == 0);
    assert_eq!(cells.map(|cell| server.word(cell)), [LockWord::free(10), LockWord::free(11)], "the token stays");
    assert_eq!(server.word(other), LockWord::free(11).acquired_by(silent + 1).unwrap());
    assert_eq!(server.store.cells().peek(counter), u64::from(silent) << 44, "a counter that looks like its lock");
    assert_eq!(server.leases.shared().table.lock().swept(), 1);
}

#[test]
fn a_link_that_hangs_up_is_noticed_long_before_the_lease() {
    let server = Server::start(Duration::from_secs(60));
    let (id, holder) = server.admit();
    let invitation = server.store.fabric().admit(id).unwrap();
    let guest = Guest::new();
    guest.link(&invitation).unwrap();
    let cell = server.lock(holder, 5);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.clients(), 1, "a link that stands is no reason");
    let begun = Instant::now();
    drop(guest);
    server.await_that("the departed client is swept", |s| s.clients() == 0);
    assert_eq!(server.word(cell), LockWord::free(5));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_epoch_goes_on_without_clients_and_waits_for_those_that_are_there() {
    let server = Server::start(Duration::from_millis(600));
    let epochs = server.store.epochs();
    let after = epochs.retire();
    server.await_that("no client holds it up", |_| epochs.is_over(after) && epochs.is_over_for_cells(after));
    let (_, _) = server.admit();
    let after = epochs.retire();
    server.await_that("it advances", |_| epochs.current() >= after);
    assert!(!epochs.is_over(after), "the client has not acknowledged it");
    server.await_that("a swept client holds it up no more", |_| epochs.is_over(after));
    assert_eq!(server.clients(), 0);
}

#[test]
fn on_shm_cells_wait_until_the_process_of_a_swept_client_is_gone() {
    let server = Server::start(Duration::from_millis(500));
    let (id, holder) = server.admit();
    let invitation = server.store.fabric().admit(id).unwrap();
    let guest = Guest::new();
    guest.link(&invitation).unwrap();
    server.leases.shared().table.lock().live(id).unwrap().set_linked();
    server.await_that("the silent client is swept", |s| s.clients() == 0);
    let epochs = server.store.epochs();
    let after = epochs.retire();
    server.await_that("memory is not held up", |_| epochs.is_over(after));
    assert!(!epochs.is_over_for_cells(after), "its process has the cells mapped");
    // It wakes up and locks under its old holder id, just before it learns that its lease is over.
    let cell = server.lock(holder, 7);
    drop(guest);
    server.await_that("the end of its process is noticed", |_| epochs.is_over_for_cells(after));
    server.await_that("what it locked late comes free too", |s| s.word(cell) == LockWord::free(7));
    assert!(matches!(server.store.fabric().admit(id), Ok(PeerInfo::Shm(_))));
}

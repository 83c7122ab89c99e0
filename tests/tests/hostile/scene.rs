//! A server with a neighbour at work, and what it must look like afterwards.

use sidewire::v1;
use sidewire_tests::{Server, setting, stamped};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const KEYS: u64 = 50;
const VALUE_BYTES: usize = 100;
/// A log with two lines for each client that comes and goes, and a few a second for what is refused.
const LOG_BYTES_MAX: usize = 512 << 10;

/// Gauges that come back.
#[derive(PartialEq, Eq, Debug)]
struct Gauges {
    clients: usize,
    sessions: u32,
    connections: u32,
    cells_in_use: u64,
    keys: u64,
    chunks: (u32, u32),
    open_files: usize,
}

/// The scene.
pub struct Scene {
    pub server: Server,
    neighbour: Neighbour,
    before: Gauges,
    refused_before: HashMap<String, u64>,
}

struct Neighbour {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Scene {
    /// A small server; intruders send no heartbeats, so its lease outlasts them.
    pub fn new() -> Self {
        let lease = setting::patience(Duration::from_secs(20));
        let server = Server::builder().lease(lease).args(&["--staging", "64KiB"]).start();
        let neighbour = Neighbour::start(&server);
        let before = gauges(&server);
        let refused_before = refusals(&server);
        Self { server, neighbour, before, refused_before }
    }

    pub fn address(&self) -> &str {
        self.server.address()
    }

    /// How often this cause was counted since the beginning.
    pub fn refused(&self, cause: &str) -> u64 {
        let count = |of: &HashMap<String, u64>| of.get(cause).copied().unwrap_or(0);
        count(&refusals(&self.server)) - count(&self.refused_before)
    }

    /// Waits until the neighbour has done some more: it is not stuck.
    pub fn neighbour_goes_on(&self) {
        let (from, until) =
            (self.neighbour.rounds.load(Ordering::SeqCst), Instant::now() + setting::patience(Duration::from_secs(10)));
        while self.neighbour.rounds.load(Ordering::SeqCst) < from + 2 {
            assert!(Instant::now() < until && !self.neighbour.thread.is_finished(), "the neighbour stands still");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// After the intruders have left: nobody noticed, and nothing is left of them.
    pub fn ends_as_it_began(mut self) {
        self.neighbour_goes_on();
        assert!(self.server.runs(), "the server has ended");
        let until = Instant::now() + setting::patience(Duration::from_secs(10));
        loop {
            let now = gauges(&self.server);
            if now == self.before {
                break;
            }
            assert!(Instant::now() < until, "the gauges do not come back: {:?}, now {now:?}", self.before);
            std::thread::sleep(Duration::from_millis(20));
        }
        self.neighbour.stop.store(true, Ordering::SeqCst);
        self.neighbour.thread.join().expect("the neighbour saw no error");
        let said = self.server.said();
        assert!(!said.contains("panicked"), "{said}");
        assert!(said.len() < LOG_BYTES_MAX, "{} bytes of log", said.len());
        self.server.stop();
    }
}

fn gauges(server: &Server) -> Gauges {
    let info = server.info();
    let chunks = |pool: &Option<v1::PoolReport>| pool.as_ref().map_or(0, |pool| pool.chunks);
    Gauges {
        clients: info.clients.len(),
        sessions: info.clients.iter().map(|client| client.sessions).sum(),
        connections: info.workers.iter().map(|worker| worker.connections).sum(),
        cells_in_use: info.cells_in_use,
        keys: info.keys,
        chunks: (chunks(&info.index), chunks(&info.heap)),
        open_files: resting_files(server),
    }
}

/// Descriptors of the server. That of the call before closes a moment later.
fn resting_files(server: &Server) -> usize {
    let looks = (0..20).map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        server.open_files()
    });
    looks.min().expect("some looks")
}

fn refusals(server: &Server) -> HashMap<String, u64> {
    server.info().refusals.into_iter().map(|refusal| (refusal.cause, refusal.count)).collect()
}

impl Neighbour {
    /// Begins to work; returns when all its keys are there.
    fn start(server: &Server) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = server.client();
        let (stop_there, rounds_there) = (Arc::clone(&stop), Arc::clone(&rounds));
        let thread = std::thread::spawn(move || {
            let session = client.session().unwrap();
            let key = |n: u64| format!("neighbour-{n}").into_bytes();
            session.create_counter(b"neighbour-count", 0).unwrap();
            let mut round = 0;
            while !stop_there.load(Ordering::SeqCst) {
                round += 1;
                for n in 0..KEYS {
                    session.put(&key(n), &stamped::stamp(n, round, VALUE_BYTES)).unwrap();
                    let value = session.get(&key(n)).unwrap().expect("it was just put");
                    assert_eq!(stamped::version_of(&value, n), Ok(round), "key {n}");
                    assert_eq!(session.add(b"neighbour-count", 1).unwrap(), (round - 1) as i64 * KEYS as i64 + n as i64 + 1);
                }
                rounds_there.store(round, Ordering::SeqCst);
            }
            assert_eq!(client.stats().reattaches, 0, "the neighbour lost its place");
        });
        let neighbour = Self { stop, rounds, thread };
        while neighbour.rounds.load(Ordering::SeqCst) == 0 {
            assert!(!neighbour.thread.is_finished(), "the neighbour failed at once");
            std::thread::sleep(Duration::from_millis(1));
        }
        neighbour
    }
}

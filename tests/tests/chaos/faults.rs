//! The faults, and when they happened.

use crate::lease;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sidewire_tests::history::file::now;
use sidewire_tests::stalls::Watch;
use sidewire_tests::{Child, Server};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Client processes at a time.
const CLIENTS: usize = 4;
/// Time between two faults.
const CALM_MS: std::ops::Range<u64> = 1000..3500;

/// Longest pause of a client between two bursts of calls: all calls of a long run must fit into memory at its end.
fn pause_ms(long: Duration) -> u64 {
    (60 * long.as_secs() / 300).clamp(60, 300)
}

/// What a fault is called in the report.
pub type Kind = &'static str;

/// What happened to whom.
#[derive(Default)]
pub struct Past {
    /// Faults by their kind, and when each was over.
    pub faults: BTreeMap<Kind, Vec<u64>>,
    /// When clients were killed or ended.
    pub ended: HashMap<u32, u64>,
    /// Those that were killed.
    pub killed: Vec<u32>,
    /// When a client was stopped, from and to.
    pub stopped: Vec<(u32, u64, u64)>,
    /// When the machine itself stood.
    pub stalls: Vec<(u64, u64)>,
    /// What clients counted, at their end.
    pub stats: Vec<String>,
}

pub struct Chaos {
    server: Server,
    clients: Vec<(u32, Child)>,
    next: u32,
    random: SmallRng,
    folder: PathBuf,
    long: Duration,
    past: Past,
    watch: Watch,
}

impl Chaos {
    pub fn start(seed: u64, long: Duration, folder: &Path) -> Self {
        let server = crate::server();
        let random = SmallRng::seed_from_u64(seed);
        let folder = folder.into();
        let mut chaos =
            Self { server, clients: Vec::new(), next: 0, random, folder, long, past: Past::default(), watch: Watch::start() };
        for _ in 0..CLIENTS {
            chaos.one_more();
        }
        chaos
    }

    fn one_more(&mut self) {
        let number = self.next;
        self.next += 1;
        let file = self.folder.join(format!("{number}.jsonl"));
        let seed: u64 = self.random.random();
        let [name, seed, pause] = [number.into(), seed, pause_ms(self.long)].map(|n: u64| n.to_string());
        let client = Child::start("client", &[self.server.address(), &name, &seed, &pause, file.to_str().unwrap()]);
        assert_eq!(client.hear(), "calling");
        self.clients.push((number, client));
    }

    /// Faults, until the time is over.
    pub fn run(&mut self) {
        let until = Instant::now() + self.long;
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(self.random.random_range(CALM_MS)));
            self.fault();
            assert!(self.server.runs(), "the server has ended by itself: {}", self.server.said());
        }
        // Everybody back at work before the end.
        std::thread::sleep(lease() * 2);
    }

    fn fault(&mut self) {
        let at = self.random.random_range(0..CLIENTS);
        let short = lease().mul_f64(self.random.random_range(0.05..0.6));
        let long = lease().mul_f64(self.random.random_range(1.2..2.5));
        let kind = match self.random.random_range(0..10) {
            0 | 1 => self.restart(),
            2 | 3 => self.stop_server("server stopped for less than a lease", short),
            4 => self.stop_server("server stopped for more than a lease", long),
            5 | 6 => self.kill_client(at),
            7 => self.stop_client(at, "client stopped for less than a lease", short),
            _ => self.stop_client(at, "client stopped for more than a lease", long),
        };
        self.past.faults.entry(kind).or_default().push(now());
    }

    fn restart(&mut self) -> Kind {
        self.server.kill();
        std::thread::sleep(Duration::from_millis(self.random.random_range(0..300)));
        self.server.start_again();
        "server killed and started again"
    }

    fn stop_server(&mut self, kind: Kind, long: Duration) -> Kind {
        self.server.pause();
        std::thread::sleep(long);
        self.server.resume();
        kind
    }

    fn kill_client(&mut self, at: usize) -> Kind {
        let (number, mut client) = self.clients.remove(at);
        self.past.killed.push(number);
        self.past.ended.insert(number, now());
        client.kill();
        self.one_more();
        "client killed and replaced"
    }

    fn stop_client(&mut self, at: usize, kind: Kind, long: Duration) -> Kind {
        let (number, client) = &self.clients[at];
        let from = now();
        client.pause();
        std::thread::sleep(long);
        client.resume();
        self.past.stopped.push((*number, from, now()));
        kind
    }

    /// Ends the clients as they should end.
    pub fn end(mut self) -> (Server, Past) {
        for (number, mut client) in self.clients {
            client.tell("end");
            self.past.stats.extend(client.finish());
            self.past.ended.insert(number, now());
        }
        self.past.stalls = self.watch.stalls();
        (self.server, self.past)
    }
}

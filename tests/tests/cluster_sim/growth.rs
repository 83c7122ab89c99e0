//! How long a cluster takes to agree, and what that costs, as it grows: a table, not a verdict.
//!
//! ```text
//!   GROWTH=3:0,8:100 cargo test --test cluster_sim growth -- --ignored --nocapture      servers:clients, row by row
//! ```

use crate::client::attach;
use crate::cluster::{LEASE, Line, Shape};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sidewire::Session;
use sidewire_common::cluster::plan::is_settled;
use sidewire_common::fabric::sim::World;
use sidewire_common::host;
use sidewire_proto::cluster_map::to_wire;
use std::sync::Arc;
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;
/// Simulated time for the cluster to become what it should be.
const LIMIT: u64 = 120_000 * MILLISECOND;
/// Rows unless the environment says otherwise.
const ROWS: &str = "2:0,4:0,8:0,16:0,32:0,32:100";
/// Keys that clients read, and the pause between two calls of one.
const KEYS: u32 = 4096;
const PAUSE: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_millis(700);

/// What clients tell.
#[derive(Default)]
struct Told {
    ready: usize,
    calls: u64,
    failed: u64,
}

struct Growth {
    world: World,
    line: Line,
    shape: Shape,
    told: Arc<Mutex<Told>>,
}

/// What one change of the membership came to.
struct Row {
    what: &'static str,
    millis: u64,
    epochs: u64,
    asks: u64,
    map_calls: u64,
}

impl Growth {
    fn new(servers: usize) -> Self {
        let shape = Shape { servers, replicas: 2, workers: 1 };
        Self { world: World::new(7), line: Line::default(), shape, told: Arc::default() }
    }

    /// Whether so many members live, and nothing is under way.
    fn is_settled(&self, members: usize) -> bool {
        self.line
            .etcd
            .look()
            .is_some_and(|(map, live)| map.members.len() == members && live.len() == members && is_settled(&map, &live))
    }

    /// Runs until `members` have agreed on everything.
    fn measure(&self, what: &'static str, members: usize) -> Row {
        let counts = || (self.line.etcd.swaps(), self.line.etcd.asks(), self.line.map_calls());
        let (began, before) = (self.world.now(), counts());
        assert!(self.world.run(LIMIT, || self.is_settled(members)), "{what}: not settled: {:?}", self.line.etcd.look());
        let after = counts();
        Row {
            what,
            millis: (self.world.now() - began) / MILLISECOND,
            epochs: after.0 - before.0,
            asks: after.1 - before.1,
            map_calls: after.2 - before.2,
        }
    }

    fn start_clients(&self, clients: usize) {
        for number in 0..clients {
            let process = self.world.process(&format!("client {number}"));
            let (line, told) = (self.line.clone(), Arc::clone(&self.told));
            self.world.spawn(process, "main", move || {
                let client = attach(&line, DEADLINE);
                if let Ok(session) = client.session() {
                    be_client(&session, number as u64, &told);
                }
            });
        }
        let told = || self.told.lock().ready == clients;
        assert!(self.world.run(LIMIT, told), "{} of {clients} clients are ready", self.told.lock().ready);
    }
}

fn be_client(session: &Session, number: u64, told: &Mutex<Told>) {
    let mut rng = SmallRng::seed_from_u64(number);
    let mut first = true;
    loop {
        let key = format!("key {}", rng.random_range(0..KEYS));
        let failed = session.get(key.as_bytes()).is_err();
        let mut told = told.lock();
        told.ready += usize::from(std::mem::take(&mut first));
        (told.calls, told.failed) = (told.calls + 1, told.failed + u64::from(failed));
        drop(told);
        host::sleep(PAUSE);
    }
}

fn print(servers: usize, clients: usize, row: &Row, map_bytes: usize) {
    let Row { what, millis, epochs, asks, map_calls } = row;
    let each = |count: &u64| *count as f64 / (*epochs).max(1) as f64;
    println!(
        "{servers:>7} {clients:>7}  {what:<12} {millis:>9} {epochs:>7} {:>15.1} {:>15.1} {map_bytes:>10}",
        each(asks),
        each(map_calls)
    );
}

/// One row each for the cluster's beginning, a death, and the dead server's return.
pub fn table() {
    println!(
        "lease {} ms, 2 copies, etcd 0.02 to 1.5 ms away each way, simulated time\n{:>7} {:>7}  {:<12} {:>9} {:>7} {:>15} {:>15} {:>10}",
        LEASE.as_millis(),
        "servers",
        "clients",
        "change",
        "ms",
        "epochs",
        "etcd calls/ep.",
        "map calls/ep.",
        "map bytes"
    );
    let rows = std::env::var("GROWTH").unwrap_or_else(|_| ROWS.into());
    for row in rows.split(',') {
        let (servers, clients) = row.split_once(':').expect("servers:clients");
        let (servers, clients) = (servers.parse().expect("a number"), clients.parse().expect("a number"));
        let growth = Growth::new(servers);
        for node in 0..servers {
            growth.line.start_server(&growth.world, growth.shape, node);
        }
        let begun = growth.measure("all begin", servers);
        let map_bytes = growth.line.etcd.look().map_or(0, |(map, _)| prost::Message::encoded_len(&to_wire(&map)));
        print(servers, clients, &begun, map_bytes);
        growth.start_clients(clients);
        growth.line.kill_server(&growth.world, 0);
        print(servers, clients, &growth.measure("one dies", servers - 1), map_bytes);
        growth.line.start_server(&growth.world, growth.shape, 0);
        print(servers, clients, &growth.measure("it returns", servers), map_bytes);
        let told = growth.told.lock();
        if clients > 0 {
            println!("{:>15}  {} Gets, {} failed", "", told.calls, told.failed);
        }
    }
}

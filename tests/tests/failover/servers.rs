//! Three servers of one cluster, and what its map says.

use crate::lease;
use sidewire_common::cluster::ClusterMap;
use sidewire_proto::cluster_map::from_wire;
use sidewire_proto::v1::MapRequest;
use sidewire_proto::v1::cluster_client::ClusterClient;
use sidewire_tests::etcd::Etcd;
use sidewire_tests::relay::{Cut, Relay};
use sidewire_tests::{Server, setting};
use std::time::{Duration, Instant};

/// Servers, and copies of each shard.
pub const SERVERS: usize = 3;
const REPLICAS: &str = "2";
/// Time for every shard to have all its copies again.
const HEAL: Duration = Duration::from_secs(60);

pub struct Servers {
    servers: Vec<Server>,
    /// Each server's way to etcd.
    ways: Vec<Relay>,
    _etcd: Etcd,
}

impl Servers {
    /// Starts them and waits until every shard has its copies.
    pub fn start() -> Self {
        let etcd = Etcd::start();
        let ways: Vec<Relay> = (0..SERVERS).map(|_| Relay::to(etcd.port())).collect();
        let servers = ways.iter().enumerate().map(|(at, way)| {
            let (node, url) = (format!("n{at}"), format!("http://127.0.0.1:{}", way.port()));
            let args = ["--etcd", &url, "--cluster", "test", "--node", &node, "--replicas", REPLICAS];
            Server::builder().lease(lease()).workers(2).cells(4096).memory("128MiB").args(&args).start()
        });
        let servers = Self { servers: servers.collect(), ways, _etcd: etcd };
        servers.heal();
        servers
    }

    /// Where all of them listen.
    pub fn addresses(&self) -> String {
        self.servers.iter().map(Server::address).collect::<Vec<_>>().join(",")
    }

    /// The latest map that any of them tells: one that was cut off may know an old one only.
    fn map(&self) -> Option<ClusterMap> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let told = self.servers.iter().filter_map(|server| {
            let told = runtime.block_on(async {
                let limit = Duration::from_millis(500);
                let connecting = ClusterClient::connect(format!("http://{}", server.address()));
                let mut client = tokio::time::timeout(limit, connecting).await.ok()?.ok()?;
                tokio::time::timeout(limit, client.map(MapRequest {})).await.ok()?.ok()
            });
            from_wire(told?.into_inner()).ok()
        });
        told.max_by_key(|map| map.epoch)
    }

    /// Waits until every shard has two copies and nobody is on the way.
    pub fn heal(&self) {
        let until = Instant::now() + setting::patience(HEAL);
        let whole = |map: &ClusterMap| {
            let settled = |s: &sidewire_common::cluster::Assignment| {
                s.in_sync.len() == 2 && s.syncing.is_empty() && s.heir.is_none() && s.waits_for.is_none()
            };
            map.members.len() == SERVERS && map.shards.iter().all(settled)
        };
        loop {
            let map = self.map();
            if map.as_ref().is_some_and(whole) {
                return;
            }
            if Instant::now() > until {
                let said: Vec<String> =
                    self.servers.iter().map(|s| s.said().lines().rev().take(30).collect::<Vec<_>>().join("\n")).collect();
                panic!("the cluster does not heal: {map:?}\n{}", said.join("\n\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Shards that were begun anew since no copy was left.
    pub fn lost(&self) -> u64 {
        self.map().map_or(0, |map| map.lost)
    }

    /// What each of them has logged.
    pub fn said(&self) -> Vec<String> {
        self.servers.iter().map(Server::said).collect()
    }

    pub fn kill(&mut self, at: usize) {
        self.servers[at].kill();
    }

    /// Ends one as an operator does, with all that this gives it to do.
    pub fn stop(&mut self, at: usize) {
        self.servers[at].stop();
    }

    /// What becomes of all that one says to etcd, and hears from it.
    pub fn cut(&mut self, at: usize, cut: Cut) {
        self.ways[at].cut(cut);
    }

    pub fn start_again(&mut self, at: usize) {
        self.servers[at].start_again();
    }

    pub fn pause(&mut self, at: usize) {
        self.servers[at].pause();
    }

    pub fn resume(&mut self, at: usize) {
        self.servers[at].resume();
    }
}

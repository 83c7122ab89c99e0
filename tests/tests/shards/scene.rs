//! Three servers, and who of them has which key.

use sidewire::{Client, ClientBuilder, Fleet};
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_common::key::KeyHash;
use sidewire_tests::Server;
use sidewire_tests::server::client_builder;
use sidewire_tests::setting;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::time::Duration;
use tempfile::TempDir;

/// Names of the nodes.
const NODES: [&str; 3] = ["a", "b", "c"];

/// The servers.
pub struct Scene {
    pub servers: Vec<Server>,
    pub map: ClusterMap,
    // The servers have read it; it goes with them.
    _files: TempDir,
}

/// The map's text; one weight for each node.
fn text(addresses: &[String], weights: [u32; 3]) -> String {
    let mut text = String::from("name = \"shards\"\n");
    for ((node, address), weight) in NODES.iter().zip(addresses).zip(weights) {
        // Writing to a String cannot fail.
        let _ = write!(text, "[[server]]\nname = \"{node}\"\naddress = \"{address}\"\nweight = {weight}\n");
    }
    text
}

/// Addresses with ports that nobody has at the moment.
fn addresses() -> Vec<String> {
    let taken: Vec<_> = NODES.iter().map(|_| TcpListener::bind((setting::address(), 0)).expect("a free port")).collect();
    taken.iter().map(|listener| listener.local_addr().expect("it is bound").to_string()).collect()
}

impl Scene {
    /// All by one map.
    pub fn new() -> Self {
        Self::with_weights([[100; 3]; 3])
    }

    /// Each by a map of its own, by the weights that stand there.
    pub fn with_weights(weights: [[u32; 3]; 3]) -> Self {
        let files = tempfile::tempdir().expect("a folder for the maps");
        let addresses = addresses();
        let start = |at: usize| {
            let file = files.path().join(format!("{}.toml", NODES[at]));
            std::fs::write(&file, text(&addresses, weights[at])).expect("the map can be written");
            let path = file.to_str().expect("a plain path");
            Server::builder().at(&addresses[at]).args(&["--map", path, "--node", NODES[at]]).start()
        };
        let servers: Vec<_> = (0..NODES.len()).map(start).collect();
        let fleet = Fleet::connect(&[servers[0].address()], Duration::from_secs(5)).expect("the first server tells the map");
        let map = fleet.map().expect("it is in a cluster").clone();
        Self { servers, map, _files: files }
    }

    /// A client that was told of all servers.
    pub fn builder(&self) -> ClientBuilder {
        client_builder(&self.servers.iter().map(Server::address).collect::<Vec<_>>().join(","))
    }

    /// The same, connected.
    pub fn client(&self) -> Client {
        self.builder().connect().expect("a client can be had")
    }

    /// Which server has a key: its place in `servers`.
    pub fn owner(&self, key: &[u8]) -> usize {
        let MemberId(id) = self.map.shard(KeyHash::of(key, self.map.hash_seed).shard()).primary().expect("all have one");
        id as usize - 1
    }

    /// `count` keys that begin with `prefix`.
    pub fn keys(&self, prefix: &str, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("{prefix}{number}").into_bytes()).collect()
    }

    /// A key that server `owner` has.
    pub fn key_of(&self, owner: usize, prefix: &str) -> Vec<u8> {
        let keys = (0..10_000).map(|number| format!("{{{prefix}{number}}}").into_bytes());
        keys.into_iter().find(|key| self.owner(key) == owner).expect("each server has many shards")
    }
}

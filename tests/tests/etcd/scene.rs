//! An etcd and servers of one cluster.

use sidewire::{Admin, v1};
use sidewire_tests::etcd::Etcd;
use sidewire_tests::{Server, setting};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The lease of all servers here.
pub const LEASE: Duration = Duration::from_secs(1);
/// Time for a cluster to become what it should be.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// A server of the cluster `cluster` under `etcd`, called `node`.
pub fn server(etcd: &Etcd, cluster: &str, node: &str, replicas: u32) -> Server {
    let replicas = replicas.to_string();
    let flags = ["--etcd", &etcd.url(), "--cluster", cluster, "--node", node, "--replicas", &replicas];
    Server::builder().lease(setting::patience(LEASE)).args(&flags).start()
}

/// What a server tells of its cluster.
pub fn status(server: &Server) -> v1::StatusReply {
    Admin::connect(server.address()).and_then(|admin| admin.cluster_status()).expect("the server tells")
}

/// Waits until a server tells what `is_so` wants.
#[track_caller]
pub fn until(server: &Server, what: &str, is_so: impl Fn(&v1::StatusReply) -> bool) -> v1::StatusReply {
    let end = Instant::now() + setting::patience(PATIENCE);
    loop {
        let status = status(server);
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < end, "not in time: {what}; the map: {:?}\n{}", status, server.said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether so many members live, each with its share, and nothing moves.
pub fn is_whole(status: &v1::StatusReply, members: usize) -> bool {
    let map = status.map.as_ref().expect("a map");
    status.settled && status.live.len() == members && map.members.len() == members && status.leader != 0
}

/// Shards by the name of their primary.
pub fn primaries(status: &v1::StatusReply) -> BTreeMap<String, usize> {
    let map = status.map.as_ref().expect("a map");
    let names: BTreeMap<u32, &String> = map.members.iter().map(|m| (m.id, &m.name)).collect();
    let mut counts = BTreeMap::new();
    for id in map.shards.iter().filter_map(|shard| shard.in_sync.first()) {
        *counts.entry(names[id].clone()).or_default() += 1;
    }
    counts
}

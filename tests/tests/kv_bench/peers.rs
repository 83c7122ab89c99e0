//! Other stores under the same load: each does every operation it offers, values come back whole, and what it does
//! not offer is refused by name before anything is begun.

use super::peer::Peer;
use super::{alone, bench, figure};
use sidewire_tests::{Server, scale};

const MIX: [&str; 8] = [
    "-p",
    "readproportion=0.5",
    "-p",
    "updateproportion=0.2",
    "-p",
    "insertproportion=0.1",
    "-p",
    "readmodifywriteproportion=0.1",
];

fn url(scheme: &str, peer: &Peer) -> String {
    format!("{scheme}+unix://{}", peer.socket().display())
}

/// A folder in memory: LMDB waits for the disk with each write.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Runs all that a store offers, waited for and in flight.
fn exercise(target: &str, more: &[&str]) {
    let operations = scale(5_000).to_string();
    let run =
        ["run", "-w", "c", "--target", target, "--load", "--records", "2000", "--operations", &operations, "--threads", "2"];
    for pipeline in ["1", "16"] {
        let mut all = [&run[..], &MIX, &["--pipeline", pipeline, "--warmup", "100ms"]].concat();
        all.extend(["-p", "counteraddproportion=0.05", "-p", "deleteproportion=0.05"]);
        if pipeline == "1" {
            all.extend(more);
        }
        let ran = alone(&all);
        assert_eq!(ran.code, Some(0), "{target}: {}", ran.stderr);
        assert_eq!(figure(&ran.json, "/operations").to_string(), operations, "{target}");
        for kind in ["read", "update", "insert", "rmw", "add", "delete"] {
            assert!(figure(&ran.json, &format!("/latency_ns/{kind}/count")) > 0.0, "{target}: {kind}");
        }
    }
    // Nothing was deleted after this load, so every read must find a whole value.
    let read = ["run", "-w", "c", "--target", target, "--load", "--records", "2000", "--operations", &operations];
    for pipeline in ["1", "16"] {
        let ran = alone(&[&read[..], &["--pipeline", pipeline, "-p", "updateproportion=0.5"]].concat());
        assert_eq!((ran.code, figure(&ran.json, "/failed")), (Some(0), 0.0), "{target}: {}", ran.stderr);
        assert_eq!(figure(&ran.json, "/misses"), 0.0);
    }
    let absent = alone(&["run", "-w", "c", "--target", target, "--records", "50M", "--operations", "10"]);
    assert_eq!(absent.code, Some(3), "{target}: {}", absent.stderr);
    assert!(absent.stderr.contains("kv-bench load"), "{target}: {}", absent.stderr);
}

#[test]
fn redis_is_put_under_the_same_load() {
    let Some(redis) = Peer::redis() else { return };
    let target = url("redis", &redis);
    exercise(&target, &["-p", "lockproportion=0.05", "-p", "multigetproportion=0.05", "--ttl", "1h"]);
    let ran = alone(&["run", "-w", "c", "--target", &target, "--load", "--records", "1000", "--duration", "1s"]);
    // Each Get costs the server a system call at the least.
    assert!(figure(&ran.json, "/server_cpu_ns_per_op") > 500.0, "{:#}", ran.json);
    assert!(ran.json["environment"]["server_version"].as_str().is_some_and(|version| version.starts_with("redis ")));
}

#[test]
fn memcached_is_put_under_the_same_load() {
    let Some(memcached) = Peer::memcached() else { return };
    let target = url("memcached", &memcached);
    exercise(&target, &["-p", "multigetproportion=0.05", "--ttl", "1h"]);
    let ran = alone(&["run", "-w", "c", "--target", &target, "--load", "--records", "1000", "--duration", "1s"]);
    assert!(figure(&ran.json, "/server_cpu_ns_per_op") > 500.0, "{:#}", ran.json);
    assert!(ran.json["environment"]["server_version"].as_str().is_some_and(|version| version.starts_with("memcached 1")));
    let ran = alone(&["run", "-w", "c", "--target", &target, "--load", "--records", "1000", "-p", "lockproportion=0.5"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("does not offer the operation lock"), "{}", ran.stderr);
    let ran = alone(&["run", "-w", "c", "--target", &target, "--load", "--records", "1000", "--key-size", "251"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--key-size"), "{}", ran.stderr);
}

#[test]
fn lmdb_is_put_under_the_same_load() {
    let folder = memory_folder();
    let target = format!("lmdb:{}", folder.path().display());
    exercise(&target, &["-p", "multigetproportion=0.05"]);
    for (refused, why) in [(["-p", "lockproportion=0.5"], "the operation lock"), (["--ttl", "1s"], "go away by themselves")] {
        let ran = alone(&[&["run", "-w", "c", "--target", &target, "--records", "1000"][..], &refused].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

#[test]
fn a_damaged_record_of_a_peer_is_a_failure() {
    let Some(redis) = Peer::redis() else { return };
    let target = url("redis", &redis);
    let run = ["run", "-w", "c", "--target", &target, "--records", "100", "--operations", "5000", "--distribution", "uniform"];
    assert_eq!(alone(&[&run[..], &["--load"]].concat()).code, Some(0));
    use std::io::{Read, Write};
    let mut socket = std::os::unix::net::UnixStream::connect(redis.socket()).expect("it listens");
    socket.write_all(b"SETRANGE user000000000007 20 x\r\nDEL user000000000009\r\n").expect("it listens");
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).expect("it answers");
    let ran = alone(&run);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(figure(&ran.json, "/failures/damaged/count") > 0.0 && figure(&ran.json, "/failures/absent/count") > 0.0);
}

#[test]
fn stores_are_compared_in_interleaved_rounds() {
    let server = Server::builder().memory("256MiB").start();
    let folder = memory_folder();
    let (kv, lmdb) = (format!("kv://{}", server.address()), format!("lmdb:{}", folder.path().display()));
    let redis = Peer::redis();
    let redis_url = redis.as_ref().map(|redis| url("redis", redis));
    let mut all = vec!["compare", "-w", "b", "--load", "--records", "2000", "--duration", "200ms", "--rounds", "3"];
    all.extend(["--target", &kv, "--target", &lmdb, "--warmup", "100ms"]);
    if let Some(redis) = &redis_url {
        all.extend(["--target", redis]);
    }
    let ran = bench(&server, &all);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let stores = ran.json["compare"].as_array().expect("there are stores");
    assert_eq!(stores.len(), 2 + usize::from(redis.is_some()));
    for store in stores {
        assert_eq!(store["rounds_ops"].as_array().map(Vec::len), Some(3), "{store:#}");
        assert!(figure(store, "/throughput_ops") > 0.0 && figure(store, "/p50_ns/read") > 0.0);
    }
    assert!(figure(&ran.json, "/compare_ratio/lmdb/throughput_ops") > 0.0);
    assert!(figure(&ran.json, "/compare_ratio/lmdb/read_p50") > 0.0);
    if redis.is_some() {
        assert!(figure(&ran.json, "/compare_ratio/redis+unix/server_cpu_ns_per_op") < 1.0);
        assert!(ran.stderr.contains("ratio kv / redis+unix"), "{}", ran.stderr);
    }
}

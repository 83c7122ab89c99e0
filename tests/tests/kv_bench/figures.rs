//! The figures of each command, held against the server's own counts.

use super::{RECORDS, alone, bench, figure, good, load};
use sidewire_tests::{Server, scale, setting};

#[test]
fn load_and_every_workload_give_sane_figures() {
    let server = Server::builder().memory("256MiB").start();
    let json = load(&server);
    assert_eq!(server.info().keys, RECORDS);
    assert_eq!(figure(&json, "/growth/keys"), RECORDS as f64);
    assert_eq!(figure(&json, "/latency_ns/insert/count"), RECORDS as f64);
    assert_eq!(figure(&json, "/failed"), 0.0);
    assert!(figure(&json, "/growth/index_bytes_per_key") > 0.0);

    let operations = scale(20_000).to_string();
    let records = RECORDS.to_string();
    for (workload, kinds) in [
        ("a", ["read", "update"].as_slice()),
        ("b", &["read", "update"]),
        ("c", &["read"]),
        ("d", &["read", "insert"]),
        ("f", &["read", "rmw"]),
    ] {
        for pipeline in ["1", "8"] {
            let json = good(
                &server,
                &[
                    "run",
                    "-w",
                    workload,
                    "--records",
                    &records,
                    "--operations",
                    &operations,
                    "--threads",
                    "2",
                    "--pipeline",
                    pipeline,
                    "--warmup",
                    "100ms",
                ],
            );
            assert_eq!(figure(&json, "/operations").to_string(), operations, "workload {workload}, pipeline {pipeline}");
            assert!(figure(&json, "/throughput_ops") > 0.0);
            for kind in kinds {
                let [p50, p99, p999, max] =
                    ["p50", "p99", "p999", "max"].map(|p| figure(&json, &format!("/latency_ns/{kind}/{p}")));
                assert!(0.0 < p50 && p50 <= p99 && p99 <= p999 && p999 <= max, "{workload} {kind}: {p50} {p99} {p999} {max}");
            }
            let reads = figure(&json, "/reads_per_get");
            assert!((1.0..3.0).contains(&reads), "workload {workload}: {reads} Reads per Get");
            assert!(figure(&json, "/server_cpu_ns_per_op") >= 0.0);
            assert_eq!(json["environment"]["fabric"], setting::fabric().to_string());
        }
    }
    // D added records, and each of its inserts was acknowledged.
    assert!(server.info().keys > RECORDS);
}

#[test]
fn a_cold_and_a_warm_run_read_what_they_should() {
    let server = Server::builder().memory("256MiB").start();
    load(&server);
    let records = RECORDS.to_string();
    let operations = scale(20_000).to_string();
    let run = ["run", "-w", "c", "--records", &records, "--operations", &operations];
    let cold = good(&server, &[&run[..], &["--distribution", "uniform", "--location-cache", "off"]].concat());
    let reads = figure(&cold, "/reads_per_get");
    assert!((2.0..=2.1).contains(&reads), "{reads} Reads per Get with the location cache off");
    let warm = good(&server, &[&run[..], &["--warmup", "sweep", "--expect", "reads_per_get<=1.05"]].concat());
    assert!(figure(&warm, "/get_vs_put/cpu_ns_per_put") > 0.0);
    assert!(figure(&warm, "/get_vs_put/percent") < 100.0);
    assert!(figure(&warm, "/ratio/read_p50_over_raw_read") > 0.0);

    let unmet = bench(&server, &[&run[..], &["--expect", "reads_per_get<0.5"]].concat());
    assert_eq!(unmet.code, Some(1), "{}", unmet.stderr);
    assert!(unmet.stderr.contains("expected reads_per_get < 0.5"), "{}", unmet.stderr);
}

#[test]
fn the_raw_fabric_is_measured_beside_the_operations() {
    let server = Server::start();
    let keys = server.info().keys;
    let iterations = scale(2_000).to_string();
    let json = good(&server, &["fabric", "--size", "64", "--size", "1KiB", "--iterations", &iterations, "--rounds", "3"]);
    for name in
        ["read_64", "write_64", "write_imm_ack_64", "read_1024", "get_64", "put_1024", "fetch_add", "compare_swap", "counter_add"]
    {
        assert!(figure(&json, &format!("/raw/{name}/p50")) > 0.0);
        assert!(figure(&json, &format!("/raw/{name}/rate_ops")) > 0.0);
    }
    for name in ["get_over_read_64", "put_over_write_imm_ack_64", "get_over_read_1024", "counter_add_over_fetch_add"] {
        assert!(figure(&json, &format!("/ratio/{name}")) > 0.0);
    }
    // The library keeps one counter for raw atomics.
    assert!(server.info().keys <= keys + 1, "what it measured on is gone again");
}

#[test]
fn records_that_are_not_there_or_not_whole_are_failures() {
    let server = Server::start();
    let ran = bench(&server, &["run", "-w", "c", "--records", "1000", "--operations", "1000"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("kv-bench load"), "{}", ran.stderr);

    let run = ["run", "-w", "c", "--records", "1000", "--operations", "20000", "--distribution", "uniform", "--no-raw"];
    good(&server, &[&run[..], &["--load"]].concat());
    let client = server.client();
    let session = client.session().expect("a session");
    let other = session.get(b"user000000000008").expect("it can be read").expect("it is there").to_vec();
    session.put(b"user000000000007", &other).expect("it can be stored");
    session.delete(b"user000000000009").expect("it can be deleted");
    let ran = bench(&server, &run);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(figure(&ran.json, "/failures/swapped/count") > 0.0);
    assert!(figure(&ran.json, "/failures/absent/count") > 0.0);
    assert_eq!(figure(&ran.json, "/operations") + figure(&ran.json, "/failed"), 20_000.0);
}

#[test]
fn a_full_server_ends_a_load_with_the_right_code() {
    let server = Server::builder().memory("64MiB").start();
    let ran = bench(&server, &["load", "--records", "200k", "--value-size", "4KiB"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("GAVE UP") && figure(&ran.json, "/failures/full/count") > 0.0, "{}", ran.stderr);
    assert_eq!(ran.json["complete"], false);
}

/// What a session costs is told for each step, and a step that the server has no room for says why.
#[test]
fn sessions_are_counted_and_weighed() {
    let server = Server::builder().workers(1).args(&["--staging", "64KiB", "--staging-total", "256KiB"]).start();
    let ran = bench(&server, &["connections", "--step", "1,3", "--gets", "30"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for (step, sessions) in [1.0, 3.0].into_iter().enumerate() {
        let of = |name: &str| figure(&ran.json, &format!("/connections/{step}/{name}"));
        assert_eq!((of("sessions"), of("get_ns/count")), (sessions, 30.0));
        assert_eq!(of("open_ns/count"), [1.0, 2.0][step]);
        for name in ["open_ns/p50", "first_put_ns/p50", "get_ns/p50", "client_bytes"] {
            assert!(of(name) > 0.0, "{name}");
        }
    }
    let ran = bench(&server, &["connections", "--step", "2,9", "--gets", "1"]);
    assert_eq!((ran.code, ran.json["connections"].as_array().map(Vec::len)), (Some(3), Some(1)), "{}", ran.stderr);
    assert!(ran.stderr.contains("with 4 sessions open") && ran.stderr.contains("staging_total"), "{}", ran.stderr);
    assert_eq!(server.info().keys, 0, "nothing is left");
}

/// The verbs alone need no server: both ends are kv-bench's own.
#[test]
fn the_verbs_are_measured_alone_waited_for_and_in_flight() {
    let (fabric, address, iterations) = (setting::fabric().to_string(), setting::address(), scale(100).to_string());
    let device = setting::device();
    for wait in ["poll", "event"] {
        let mut all = vec!["fabric", "--alone", "--fabric", &fabric, "--address", &address, "--wait", wait, "--rounds", "1"];
        all.extend(["--size", "64", "--size", "4KiB", "--iterations", &iterations, "--depth", "16", "--qps", "2"]);
        if let Some(device) = &device {
            all.extend(["--device", device.as_str()]);
        }
        let ran = alone(&all);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for name in ["read_lat_64B", "write_lat_4096B", "send_round_trip_64B", "fetch_add_lat", "compare_swap_lat"] {
            assert!(figure(&ran.json, &format!("/raw/{name}/p50")) > 0.0, "{name}");
        }
        for name in ["read_bw_q2_d16_4096B", "write_bw_q2_d16_64B", "send_bw_q1_d16_64B"] {
            let [rate, bytes] = ["rate_ops", "bytes_per_s"].map(|part| figure(&ran.json, &format!("/raw/{name}/{part}")));
            let size: f64 = if name.contains("4096") { 4096.0 } else { 64.0 };
            assert!(rate > 0.0 && (bytes / rate - size).abs() < 1.0, "{name}: {rate}/s, {bytes} B/s");
        }
        // Messages are at most 256 bytes long; a longer size measures the other verbs only.
        assert!(ran.json["raw"].get("send_round_trip_4096B").is_none());
    }
    assert_eq!(alone(&["fabric", "--alone", "--size", "9MiB"]).code, Some(2));
}

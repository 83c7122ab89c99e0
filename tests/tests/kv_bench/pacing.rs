//! An open loop keeps its rate whatever the store does, several processes work as one, and interim lines tell how it goes.

use super::{RECORDS, bench, figure, good, load};
use rustix::process::{Pid, Signal, kill_process};
use sidewire_tests::programs::program;
use sidewire_tests::{Server, setting};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_rate_is_kept_by_threads_and_processes() {
    let server = Server::builder().memory("256MiB").start();
    load(&server);
    let records = RECORDS.to_string();
    // Emulated verbs are slow.
    let rate = if setting::is_verbs() { 100.0 } else { 2_000.0 };
    let text = rate.to_string();
    for (arrival, pipeline) in [("fixed", "1"), ("poisson", "1"), ("fixed", "8"), ("poisson", "8")] {
        for clients in ["1", "3"] {
            let run = ["run", "-w", "b", "--records", &records, "--duration", "2s", "--threads", "2", "--no-raw"];
            let paced =
                ["--rate", &text, "--arrival", arrival, "--pipeline", pipeline, "--clients", clients, "--warmup", "100ms"];
            let json = good(&server, &[&run[..], &paced].concat());
            let operations = figure(&json, "/operations");
            // Never more than was meant to begin (but for chance), and most of it unless the machine stood still.
            assert!((rate..rate * 2.2).contains(&operations), "{arrival}, {clients} clients: {operations} in 2 s at {rate}/s");
            assert_eq!(figure(&json, "/workload/rate"), rate);
        }
    }
}

#[test]
fn processes_do_the_whole_budget_once_and_insert_records_of_their_own() {
    let server = Server::builder().memory("256MiB").start();
    load(&server);
    let records = RECORDS.to_string();
    let before = server.info().keys;
    let run = ["run", "-w", "d", "--records", &records, "--operations", "3001", "--clients", "3", "--threads", "2", "--no-raw"];
    let json = good(&server, &[&run[..], &["--warmup", "off"]].concat());
    assert_eq!(figure(&json, "/operations"), 3001.0);
    let inserts = figure(&json, "/latency_ns/insert/count");
    assert!(inserts > 50.0);
    assert_eq!((server.info().keys - before) as f64, inserts, "no two processes inserted the same record");
    let reads = figure(&json, "/reads_per_get");
    assert!((1.0..3.0).contains(&reads), "{reads} Reads per Get of all processes");
}

#[test]
fn a_sweep_finds_a_knee_and_interim_lines_are_written() {
    let server = Server::builder().memory("256MiB").start();
    load(&server);
    let records = RECORDS.to_string();
    let run = ["run", "-w", "c", "--records", &records, "--duration", "1s", "--no-raw", "--interim", "200ms"];
    // No machine does a hundred million.
    let sweep = ["--rate-sweep", "20,100M", "--sweep-time", "500ms"];
    let ran = bench(&server, &[&run[..], &sweep].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let steps = ran.json["sweep"]["steps"].as_array().expect("there are steps");
    assert_eq!(steps.len(), 2);
    assert_eq!(figure(&ran.json, "/sweep/steps/1/offered_ops"), 1e8);
    assert!(figure(&ran.json, "/sweep/steps/1/achieved_ops") < 0.9e8);
    // Far behind its schedule, the last operation waited for most of the step.
    assert!(figure(&ran.json, "/sweep/steps/1/max") > 100e6, "{:#}", ran.json["sweep"]);
    assert!(ran.json["sweep"]["knee_ops"].as_f64().is_none_or(|knee| knee < 1e8));
    let lines: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("run ") && line.contains("operations")).collect();
    assert!(lines.len() >= 3, "{}", ran.stderr);
    assert!(lines.iter().any(|line| line.contains("p99")), "{}", ran.stderr);
    let course = ran.json["course"].as_array().expect("there is a course over time");
    assert!(course.len() >= 5 && course.windows(2).all(|pair| pair[0][1].as_u64() <= pair[1][1].as_u64()));
}

/// A process that dies must not be left out of the sum in silence.
#[test]
fn a_process_that_dies_fails_the_run() {
    let run = ["run", "-w", "c", "--target", "null:", "--clients", "2", "--duration", "60s", "--warmup", "off"];
    let parent = Command::new(program("kv-bench")).args(run).stderr(Stdio::piped()).spawn().expect("it can be started");
    let until = Instant::now() + Duration::from_secs(20);
    let children = loop {
        let text = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id())).expect("it runs");
        let children: Vec<i32> = text.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        if children.len() == 2 {
            break children;
        }
        assert!(Instant::now() < until, "two processes are started");
        std::thread::sleep(Duration::from_millis(10));
    };
    let victim = Pid::from_raw(children[1]).expect("ids are above 0");
    kill_process(victim, Signal::KILL).expect("it is our child's child");
    let output = parent.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("ended early"), "{stderr}");
    assert!(!std::path::Path::new(&format!("/proc/{}", children[0])).exists(), "the other one was left behind");
}

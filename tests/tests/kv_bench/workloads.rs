//! Every kind of operation, key choice and value length, from property files as YCSB has them.

use super::{RECORDS, bench, figure, good, load};
use sidewire_tests::{Server, scale};

#[test]
fn every_kind_of_operation_reaches_the_server() {
    let server = Server::builder().memory("256MiB").cells(4096).start();
    load(&server);
    let (records, operations) = (RECORDS.to_string(), scale(20_000));
    let text = operations.to_string();
    let shares = [
        "readproportion=0.3",
        "updateproportion=0.1",
        "insertproportion=0.1",
        "readmodifywriteproportion=0.1",
        "counteraddproportion=0.1",
        "lockproportion=0.1",
        "multigetproportion=0.1",
        "deleteproportion=0.1",
        "multigetsize=7",
        "countercount=10",
        "lockcount=10",
    ];
    let mut run =
        vec!["run", "-w", "c", "--records", &records, "--operations", &text, "--threads", "2", "--no-raw", "--warmup", "off"];
    for share in &shares {
        run.extend(["-p", share]);
    }
    let json = good(&server, &run);
    let count = |kind: &str| figure(&json, &format!("/latency_ns/{kind}/count"));
    let kinds = ["read", "update", "insert", "rmw", "add", "lock", "multi_get", "delete"];
    assert_eq!(kinds.iter().map(|kind| count(kind)).sum::<f64>(), operations as f64);
    assert!(kinds.iter().all(|kind| count(kind) > operations as f64 / 30.0), "{:#}", json["latency_ns"]);
    // Deleted records are missed, and that is no failure.
    assert_eq!(figure(&json, "/failed"), 0.0);
    let client = server.client();
    let session = client.session().expect("a session");
    let sum: i64 =
        (0..10).map(|n| session.counter(format!("cntr{n:012}").as_bytes()).expect("it can be read").expect("it is there")).sum();
    assert_eq!(sum as f64, count("add"), "every add was one on one of ten counters");
    assert!(session.lock_state(b"lock000000000003").expect("it can be read").is_some_and(|view| view.holder.is_none()));
}

#[test]
fn key_choices_and_value_lengths_come_from_the_file() {
    let server = Server::builder().memory("256MiB").start();
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("lengths");
    std::fs::write(&table, "BlockSize\t64\n0\t1\n3\t1\n").expect("it can be written");
    let operations = scale(5_000).to_string();
    for (choice, lengths) in [
        ("hotspot", "fieldlengthdistribution=uniform\nminfieldlength=1"),
        ("sequential", "fieldlengthdistribution=zipfian"),
        ("exponential", "fieldlengthdistribution=constant"),
        ("latest", "fieldlengthdistribution=histogram\nfieldlengthhistogram=TABLE"),
    ] {
        let lengths = lengths.replace("TABLE", table.to_str().expect("it is text"));
        let file = folder.path().join(choice);
        let text = format!(
            "# As YCSB writes them\nworkload=site.ycsb.workloads.CoreWorkload\nrecordcount=1000\noperationcount={operations}\n\
             threadcount=2\nfieldcount=2\nfieldlength=100\n{lengths}\nreadproportion=0.5\nupdateproportion=0.5\n\
             requestdistribution={choice}\n"
        );
        std::fs::write(&file, text).expect("it can be written");
        let file = file.to_str().expect("it is text");
        let json = good(&server, &["run", "-w", file, "--load", "--no-raw", "--warmup", "off"]);
        assert_eq!(figure(&json, "/operations").to_string(), operations, "{choice}");
        assert_eq!((figure(&json, "/workload/threads"), figure(&json, "/workload/records")), (2.0, 1000.0));
        assert_eq!(json["workload"]["distribution"], choice);
        let client = server.client();
        let session = client.session().expect("a session");
        let length = |record: u64| {
            session.get(format!("user{record:012}").as_bytes()).expect("it can be read").expect("it is there").len()
        };
        let mut seen: Vec<_> = (0..200).map(length).collect();
        seen.sort_unstable();
        seen.dedup();
        let fits = match choice {
            "hotspot" => seen.len() > 50 && seen.iter().all(|length| (2..=200).contains(length)),
            "sequential" => seen.len() > 20 && seen.iter().all(|length| (2..=200).contains(length)),
            "exponential" => seen == [200],
            _ => seen == [128, 320, 512],
        };
        assert!(fits, "{choice}: lengths {seen:?}");
    }
}

#[test]
fn values_that_go_away_are_misses_and_unknown_properties_are_told() {
    let server = Server::start();
    let run = ["run", "-w", "c", "--records", "1000", "--load", "--ttl", "1s", "--duration", "3s", "--no-raw"];
    let ran = bench(&server, &[&run[..], &["-p", "db.batchsize=7", "--warmup", "off"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(figure(&ran.json, "/misses") > 0.0 && figure(&ran.json, "/failed") == 0.0);
    assert!(ran.stderr.contains("db.batchsize"), "{}", ran.stderr);
}

//! Shapes of production and traces: what they ask for is what the server gets.

use super::{alone, bench, figure, good};
use sidewire_tests::{Server, scale};

#[test]
fn a_preset_has_its_published_shape() {
    let server = Server::builder().memory("256MiB").start();
    let operations = scale(20_000).to_string();
    // Half of what cluster 14 asks for is not a Get: 65 % get, 13 % set, 22 % delete; keys of 96 and values of 414 bytes.
    let run = ["run", "--preset", "twitter:14", "--records", "2000", "--load", "--operations", &operations, "--no-raw"];
    let json = good(&server, &run);
    let share = |kind: &str| figure(&json, &format!("/latency_ns/{kind}/count")) / figure(&json, "/operations");
    assert!((share("read") - 0.65).abs() < 0.03 && (share("delete") - 0.22).abs() < 0.03, "{:#}", json["latency_ns"]);
    assert_eq!((figure(&json, "/workload/key_bytes"), figure(&json, "/workload/value_bytes/0")), (96.0, 414.0));
    assert_eq!((figure(&json, "/workload/theta"), figure(&json, "/failed")), (1.2959, 0.0));
    // Deleted records are asked for all the same.
    assert!(figure(&json, "/misses") > 0.0);
    let client = server.client();
    let session = client.session().expect("a session");
    let key = |record: u64| format!("user{record:092}").into_bytes();
    let stored = (0..2_000).find_map(|record| session.get(&key(record)).expect("it can be read")).expect("some are left");
    assert_eq!(stored.len(), 414);
    // A day, as published.
    assert!(stored.expires_in_ms().is_some_and(|left| (86_000_000..=86_400_000).contains(&left)), "{:?}", stored.expires_in_ms());

    for (name, why) in [("twitter:5", "not published"), ("twitter:99", "from 1 to 54")] {
        let ran = bench(&server, &["run", "--preset", name]);
        assert!(ran.code == Some(2) && ran.stderr.contains(why), "{name}: {}", ran.stderr);
    }
}

#[test]
fn a_trace_is_replayed_in_the_order_of_each_key() {
    let server = Server::builder().memory("256MiB").start();
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, packed) = (folder.path().join("trace"), folder.path().join("trace.zst"));
    let mut text = String::new();
    for round in 0..3 {
        for key in 0..500 {
            text += &format!("{round},key{key},20,{},7,set,3600\n", 100 + round);
            text += &format!("{round},key{key},20,{},7,get,0\n", 100 + round);
        }
    }
    for key in 0..500 {
        text += &format!("2,hits{key},20,8,7,incr,0\n2,key{key},20,0,7,{},0\n", if key < 250 { "delete" } else { "gets" });
    }
    std::fs::write(&plain, &text).expect("it can be written");
    std::fs::write(&packed, zstd::encode_all(text.as_bytes(), 3).expect("it can be packed")).expect("it can be written");
    for file in [&plain, &packed] {
        let json = good(&server, &["replay", file.to_str().expect("it is text"), "--threads", "3"]);
        let count = |kind: &str| figure(&json, &format!("/latency_ns/{kind}/count"));
        assert_eq!((count("read"), count("update"), count("add"), count("delete")), (1750.0, 1500.0, 500.0, 250.0));
        // A get after its set finds it: requests of one key stay in order, on one thread.
        assert_eq!((figure(&json, "/misses"), figure(&json, "/failed")), (0.0, 0.0));
    }
    let client = server.client();
    let session = client.session().expect("a session");
    let stored = session.get(b"key400..............").expect("it can be read").expect("it is there");
    assert_eq!(stored.len(), 102, "the last set of the key is what it holds");
    assert!(session.get(b"key100..............").expect("it can be read").is_none());
    assert_eq!(session.counter(b"#hits3...............").expect("it can be read"), Some(2), "once by each replay");

    // On the trace's own clock, 20 times faster: three seconds take 100 ms at the least.
    let timed = good(&server, &["replay", plain.to_str().expect("it is text"), "--speed", "20"]);
    assert!(figure(&timed, "/elapsed_s") >= 0.1, "{}", figure(&timed, "/elapsed_s"));
    assert_eq!(figure(&timed, "/operations"), 4000.0);
}

#[test]
fn what_is_no_trace_is_told() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace");
    std::fs::write(&file, "0,k1,10,5,1,set,0\nnonsense\n0,k1,10,999999999,1,set,0\n0,k1,10,5,1,get,0\n")
        .expect("it can be written");
    let ran = bench(&server, &["replay", file.to_str().expect("it is text")]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert_eq!((figure(&ran.json, "/trace/malformed"), figure(&ran.json, "/trace/too_long")), (1.0, 1.0));
    assert_eq!(figure(&ran.json, "/operations"), 2.0);
    assert!(ran.stderr.contains("1 lines are none of a trace"), "{}", ran.stderr);
    std::fs::write(&file, [0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]).expect("it can be written");
    assert_eq!(bench(&server, &["replay", file.to_str().expect("it is text")]).code, Some(3), "a damaged archive");
    assert_eq!(alone(&["replay", "/nonexistent"]).code, Some(2));
}

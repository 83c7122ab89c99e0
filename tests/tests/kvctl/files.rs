//! load and dump: records go in with an account of each bad line, and come back out as they were.

use crate::command::{Kvctl, version_of};
use serde_json::json;
use sidewire_tests::{Server, setting};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn load(kvctl: &Kvctl, format: &str, more: &[&str], file: &str) -> (Option<i32>, String, String) {
    let told = kvctl.fed(&[&["load", "-", "--format", format], more].concat(), file.as_bytes());
    (told.code, String::from_utf8(told.out).unwrap(), told.err)
}

#[test]
fn bad_lines_are_told_and_the_rest_is_stored() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let file = "id,mail,name\n1,a@x,Ann\n2,b@x\n3,,Nobody\n4,d@x,\"Dora\nMiller\"\n";
    let (code, out, err) = load(&kvctl, "csv", &["--key-column", "mail", "--value-column", "3"], file);
    let told = "standard input:3: 2 fields instead of 3\n\
                standard input:4: the key is empty; a key has 1 to 4096 bytes\n\
                kvctl: 2 lines refused, told above\n";
    assert_eq!((code, err.as_str()), (Some(1), told));
    assert!(out.starts_with("2 records stored (") && out.ends_with("/s, 2 lines refused\n"), "{out}");
    kvctl.prints(&["get", "a@x"], "Ann");
    kvctl.prints(&["get", "d@x"], "Dora\nMiller");
    let (code, out, err) = load(&kvctl, "tsv", &[], "bash\ta shell\n");
    let header = "kvctl: the header has no column `key`, its columns are `bash`, `a shell`; choose with --key-column NAME \
                  or NUMBER, or say --no-header when the first line is a record\n";
    assert_eq!((code, out.as_str(), err.as_str()), (Some(2), "", header));
    let (code, out, err) = load(&kvctl, "tsv", &["--no-header"], "bash\ta shell\\n\n");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    kvctl.prints(&["get", "bash"], "a shell\n");
}

#[test]
fn a_load_that_stops_says_where_to_go_on() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let file = "a\t1\nbad\nb\t2\nbad\nc\t3\n";
    let (code, out, err) = load(&kvctl, "tsv", &["--no-header", "--max-errors", "1"], file);
    let told = "standard input:2: 1 field instead of 2\n\
                kvctl: more than 1 line refused, the last at standard input:4: 1 field instead of 2; every line before 4 \
                is stored or told above, go on with --resume-from 4\n";
    assert_eq!((code, err.as_str()), (Some(1), told));
    assert!(out.starts_with("2 records stored ("), "{out}");
    assert_eq!(kvctl.run(&["exists", "c"]).code, Some(1));
    let (code, out, err) = load(&kvctl, "tsv", &["--no-header", "--resume-from", "5"], file);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("1 record stored ("), "{out}");
    kvctl.prints(&["get", "c"], "3");
}

#[test]
fn a_killed_server_stops_a_load_at_a_line() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("many.tsv");
    let lines: String = (0..2_000_000).map(|i| format!("key{i}\tvalue{i}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let kvctl = Kvctl::of(&server);
    let arguments = ["--timeout=2s", "--json", "load", file.to_str().unwrap(), "--no-header"];
    let child = kvctl.command(&arguments[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(setting::patience(Duration::from_millis(300)));
    server.kill();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = told["resume_from"].as_u64().unwrap();
    // Stored is what was acknowledged, in the order of lines but for those in flight.
    assert!(line >= 1 && told["stored"].as_u64().unwrap() + 1 >= line, "{told}");
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(error["message"].as_str().unwrap().ends_with(&format!("--resume-from {line}")), "{error}");
}

fn fill(kvctl: &Kvctl) {
    for (key, value) in [("61", "plain"), ("ff00", ""), ("6122632c64", "quoted\", \"\n"), ("5c09", "\\n\t\\")] {
        version_of(&kvctl.answer(&["put", "--key-hex", key, value]));
    }
    let every: Vec<u8> = (0..=255).collect();
    assert_eq!(kvctl.fed(&["put", "every", "-"], &every).code, Some(0));
}

fn sorted_scan(kvctl: &Kvctl) -> Vec<String> {
    let mut lines: Vec<String> = kvctl.answer(&["scan", "--values"]).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_is_dumped_comes_back() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    fill(&kvctl);
    let folder = tempfile::tempdir().unwrap();
    let before = sorted_scan(&kvctl);
    assert_eq!(before.len(), 5);
    for name in ["all.jsonl", "all.tsv", "all.csv"] {
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        kvctl.prints(&["dump", "--output", path], format!("5 records in {path}\n"));
        let other = Server::start();
        let into = Kvctl::of(&other);
        assert!(into.answer(&["load", path]).starts_with("5 records stored ("), "{name}");
        assert_eq!(sorted_scan(&into), before, "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn jsonl_keeps_counters_and_the_time_that_is_left() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    version_of(&kvctl.answer(&["put", "t", "v", "--ttl", "1h"]));
    kvctl.prints(&["counter", "create", "c", "-3"], "-3\n");
    kvctl.prints(&["seq", "create", "s", "50"], "50\n");
    kvctl.prints(&["lock", "run", "l", "--", "true"], "");
    let dumped = kvctl.run(&["dump"]);
    assert_eq!((dumped.code, dumped.err.as_str()), (Some(0), "kvctl: 1 keys that hold no plain value were left out\n"));
    let other = Server::start();
    let into = Kvctl::of(&other);
    let told = into.fed(&["--json", "load", "-", "--format", "jsonl"], &dumped.out);
    let told: serde_json::Value = serde_json::from_slice(&told.out).unwrap();
    assert_eq!((&told["stored"], &told["refused"], &told["resume_from"]), (&json!(3), &json!(0), &json!(null)));
    into.prints(&["counter", "get", "c"], "-3\n");
    assert!(into.answer(&["seq", "next", "s"]).trim_end().parse::<i64>().unwrap() >= 50);
    assert!(into.json(&["get", "t"])["expires_in_ms"].as_u64().unwrap() > 3_000_000);
    let again = into.fed(&["load", "-", "--format", "jsonl"], br#"{"key":"c","counter":9}"#);
    assert_eq!((again.code, again.err.lines().next()), (Some(1), Some("standard input:1: `c` exists")));
}

#[test]
fn files_that_cannot_be_used() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    kvctl.refuses(&["load", "x.csv"], 3, "kvctl: cannot open x.csv: No such file or directory (os error 2)");
    kvctl.refuses(&["load", "x"], 2, "kvctl: is it csv, tsv or jsonl? `x` has no such ending; say --format");
    kvctl.refuses(&["load", "-"], 2, "kvctl: is it csv, tsv or jsonl? standard input has no name; say --format");
    kvctl.refuses(&["load", "/", "--format", "csv"], 2, "kvctl: / is a folder");
    let told = kvctl.run(&["dump", "--output", "/no/such/folder/x.csv"]);
    assert_eq!(told.code, Some(3));
    assert!(told.err.starts_with("kvctl: cannot write /no/such/folder/x.csv: No such file or directory"), "{}", told.err);
    assert!(!Path::new("x.csv").exists());
}

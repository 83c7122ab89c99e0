//! scan and info, and what a closed or full output does.

use crate::command::{Kvctl, version_of};
use serde_json::json;
use sidewire_tests::{Server, setting};
use std::fs::File;
use std::io::Read;
use std::process::Stdio;

#[test]
fn scan_lists_every_kind_of_key() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    kvctl.prints(&["scan"], "");
    version_of(&kvctl.answer(&["put", "a:1", "tab\there\n"]));
    version_of(&kvctl.answer(&["put", "--key-hex", "613aff", "v"]));
    version_of(&kvctl.answer(&["put", "b", "v"]));
    kvctl.prints(&["counter", "create", "a:c", "5"], "5\n");
    kvctl.prints(&["lock", "run", "a:l", "--", "true"], "");
    let sorted = |arguments: &[&str]| {
        let answer = kvctl.answer(arguments);
        let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&["scan"]), ["a:1", "a:\\xff", "a:c", "a:l", "b"]);
    assert_eq!(sorted(&["scan", "--prefix", "a:", "--values"]), ["a:1\ttab\\there\\n", "a:\\xff\tv", "a:c\t5", "a:l\tfree"]);
    assert_eq!(sorted(&["scan", "--limit", "2"]).len(), 2);
    kvctl.prints(&["scan", "--prefix", "nothing"], "");
    let found = kvctl.json(&["scan", "--prefix", "a:c", "--values"]);
    assert_eq!((&found["key"], &found["kind"], &found["counter"]), (&json!("a:c"), &json!("counter"), &json!(5)));
    assert_eq!(kvctl.json(&["scan", "--prefix", "b"])["value_bytes"], json!(1));
}

#[test]
fn info_tells_what_the_server_is_and_holds() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    version_of(&kvctl.answer(&["put", "k", "v"]));
    let info = kvctl.json(&["info"]);
    assert_eq!(info["keys"], json!(1));
    assert_eq!(info["pid"], json!(server.pid()));
    assert_eq!(info["fabric"]["kind"], json!(setting::fabric().to_string()));
    assert!(info["bytes_per_key"].as_f64().unwrap() > 0.0 && !info["workers"].as_array().unwrap().is_empty(), "{info}");
    let page = kvctl.answer(&["info"]);
    for name in ["server ", "fabric ", "atomics ", "pages ", "index ", "heap ", "keys ", "worker ", "Reads per Get"] {
        assert!(page.lines().any(|line| line.starts_with(name)) || name == "Reads per Get", "{name}: {page}");
    }
}

#[test]
fn a_closed_pipe_is_a_quiet_end_and_a_full_disk_is_not() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let lines: String = (0..20_000).map(|i| format!("key{i}\tvalue{i}\n")).collect();
    let told = kvctl.fed(&["load", "-", "--format", "tsv", "--no-header"], lines.as_bytes());
    assert_eq!((told.code, told.err.as_str()), (Some(0), ""));
    let mut child = kvctl.command(&["scan", "--values"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One byte is read, then the reader goes.
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    let full = kvctl.command(&["scan"]).stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let output = full.wait_with_output().unwrap();
    let complaint = "kvctl: cannot write the output: No space left on device (os error 28)\n";
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(3), complaint));
}

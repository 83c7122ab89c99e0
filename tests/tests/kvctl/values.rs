//! put, get, del, exists: bytes come back as they went in, and a condition that does not hold changes nothing.

use crate::command::{Kvctl, version_of};
use serde_json::json;
use sidewire_tests::Server;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

#[test]
fn a_value_comes_back_byte_by_byte() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    version_of(&kvctl.answer(&["put", "greeting", "hello world"]));
    kvctl.prints(&["get", "greeting"], "hello world");
    kvctl.prints(&["get", "greeting", "--newline"], "hello world\n");
    kvctl.prints(&["exists", "greeting"], "value\n");
    // An empty value is not an absent one.
    version_of(&kvctl.answer(&["put", "greeting", ""]));
    kvctl.prints(&["get", "greeting"], "");
    kvctl.prints(&["exists", "greeting"], "value\n");
    kvctl.prints(&["del", "greeting"], "deleted\n");
    kvctl.refuses(&["get", "greeting"], 1, "kvctl: `greeting` is not there");
    kvctl.refuses(&["del", "greeting"], 1, "kvctl: `greeting` is not there");
    let no = kvctl.run(&["exists", "greeting"]);
    assert_eq!((no.code, &no.out[..], &no.err[..]), (Some(1), &b"no\n"[..], ""));
    // What begins with a dash.
    version_of(&kvctl.answer(&["put", "n", "-5"]));
    version_of(&kvctl.answer(&["put", "--", "-key", "-value"]));
    kvctl.prints(&["get", "--", "-key"], "-value");
}

#[test]
fn values_from_files_and_standard_input() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let bytes: Vec<u8> = (0..100_000u32).flat_map(|i| i.to_le_bytes()).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    assert_eq!(kvctl.run(&[OsStr::new("put"), OsStr::new("file"), OsStr::new("--file"), file.path().as_os_str()]).code, Some(0));
    kvctl.prints(&["get", "file"], &bytes);
    assert_eq!(kvctl.fed(&["put", "pipe", "-"], &bytes).code, Some(0));
    kvctl.prints(&["get", "pipe"], &bytes);
    kvctl.refuses(&["put", "k"], 2, "kvctl: a value is wanted: VALUE, --file FILE, or - for standard input");
    let missing = "kvctl: cannot open missing: No such file or directory (os error 2)";
    kvctl.refuses(&["put", "k", "--file", "missing"], 3, missing);
    assert_eq!(kvctl.run(&["exists", "k"]).code, Some(1));
}

#[test]
fn keys_are_any_bytes() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    for (key, hex) in [(&b"\xff\xfe"[..], "fffe"), (b"a\nb", "610a62"), ("grün".as_bytes(), "6772c3bc6e")] {
        let value = [key, b"!"].concat();
        assert_eq!(kvctl.run(&[OsStr::new("put"), OsStr::from_bytes(key), OsStr::from_bytes(&value)]).code, Some(0));
        kvctl.prints(&["get", "--key-hex", hex], &value);
        kvctl.prints(&[OsStr::new("get"), OsStr::from_bytes(key)], &value);
    }
    version_of(&kvctl.answer(&["put", "--key-hex", "610062", "nul"]));
    version_of(&kvctl.answer(&["put", "--key-hex", "610063", "other"]));
    kvctl.prints(&["get", "--key-hex", "610062"], "nul");
    kvctl.refuses(&["get", "--key-hex", "00ff"], 1, "kvctl: `\\x00\\xff` is not there");
    let found = kvctl.json(&["get", "--key-hex", "fffe"]);
    assert_eq!((&found["key_base64"], &found["value_base64"]), (&json!("//4="), &json!("//4h")));
}

#[test]
fn conditions_hold_or_nothing_changes() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let first = version_of(&kvctl.answer(&["put", "k", "1", "--if-absent"]));
    kvctl.refuses(&["put", "k", "2", "--if-absent"], 1, &format!("kvctl: `k` exists, with version {first}"));
    let second = version_of(&kvctl.answer(&["put", "k", "2", "--if-version", &first.to_string()]));
    assert_ne!(first, second);
    let stale = first.to_string();
    kvctl.refuses(&["put", "k", "3", "--if-version", &stale], 1, &format!("kvctl: `k` has version {second}"));
    kvctl.refuses(&["del", "k", "--if-version", &stale], 1, &format!("kvctl: `k` has version {second}"));
    kvctl.prints(&["get", "k"], "2");
    kvctl.prints(&["get", "k", "--version-only"], format!("{second}\n"));
    assert_eq!(kvctl.json(&["get", "k"]), json!({ "key": "k", "value": "2", "version": second.to_string() }));
    kvctl.prints(&["del", "k", "--if-version", &second.to_string()], "deleted\n");
    kvctl.refuses(&["put", "k", "4", "--if-version", &stale], 1, "kvctl: `k` is not there");
    assert_eq!(kvctl.json(&["put", "k", "5"])["key"], json!("k"));
    assert_eq!(kvctl.json(&["del", "k"]), json!({ "key": "k", "deleted": true }));
}

#[test]
fn a_key_with_a_time_to_live_goes_away() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    version_of(&kvctl.answer(&["put", "long", "v", "--ttl", "1h"]));
    let left = kvctl.json(&["get", "long"])["expires_in_ms"].as_u64().expect("told");
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    version_of(&kvctl.answer(&["put", "short", "v", "--ttl", "200ms"]));
    std::thread::sleep(Duration::from_millis(900));
    kvctl.refuses(&["get", "short"], 1, "kvctl: `short` is not there");
}

/// A scan leaves long values to whoever wants them.
#[test]
fn long_values_go_in_and_out_and_through_a_dump() {
    let server = Server::builder().memory("384MiB").start();
    let kvctl = Kvctl::of(&server);
    let value: Vec<u8> = (0..(3 << 20)).map(|i: u32| b'a' + (i % 23) as u8).collect();
    assert_eq!(kvctl.fed(&["put", "long", "-"], &value).code, Some(0));
    version_of(&kvctl.answer(&["put", "short", "value"]));
    kvctl.prints(&["get", "long"], value.clone());
    let scanned = kvctl.run(&["scan", "--values", "--prefix", "long"]);
    assert!(scanned.out == [b"long\t", &value[..], b"\n"].concat(), "{} bytes", scanned.out.len());
    let dump = kvctl.run(&["dump"]);
    assert_eq!((dump.code, dump.err.as_str()), (Some(0), ""));
    for key in ["long", "short"] {
        kvctl.prints(&["del", key], "deleted\n");
    }
    assert_eq!(kvctl.fed(&["load", "--format", "jsonl", "-"], &dump.out).code, Some(0));
    kvctl.prints(&["get", "long"], value);
    kvctl.prints(&["get", "short"], "value");
}

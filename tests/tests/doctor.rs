//! `kvctl doctor` on machines and servers, whole and sick.
//!
//! What could break: it names another GID than verbs then uses, it calls a dead or full server healthy, it leaves its
//! keys behind, or a script cannot tell from the exit code. Sick machines are directories that `--root` names.

use serde_json::Value as Json;
use sidewire_tests::{Server, programs, setting};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const VERBS: [&str; 6] = ["data.write", "data.read", "data.long", "data.fetch-add", "data.compare-swap", "data.beat"];

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(programs::program("kvctl"));
    let timeout = format!("--timeout={}s", setting::patience(Duration::from_secs(5)).as_secs());
    command.env_remove("SIDEWIRE_SERVER").arg("doctor").arg(timeout).args(arguments);
    command.output().expect("kvctl can be started")
}

/// Exit code and document.
#[track_caller]
fn told(arguments: &[&str]) -> (i32, Json) {
    let output = run(&[&["--json"], arguments].concat());
    let json = serde_json::from_slice(&output.stdout);
    let json: Json = json.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), json)
}

fn finding<'a>(json: &'a Json, code: &str) -> Option<&'a Json> {
    json["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == code)
}

#[track_caller]
fn level<'a>(json: &'a Json, code: &str) -> &'a str {
    let finding = finding(json, code).unwrap_or_else(|| panic!("no {code} in {json:#}"));
    // What is wrong says what it means and what mends it.
    let bad = ["warning", "fault"].contains(&finding["level"].as_str().unwrap());
    assert!(!bad || (finding["means"].is_string() && finding["mend"].is_string()), "{finding}");
    finding["level"].as_str().unwrap()
}

#[test]
fn a_healthy_server_passes_each_verb_and_keeps_nothing() {
    let server = Server::start();
    let (code, json) = told(&["-s", server.address()]);
    assert_eq!((code, &json["healthy"]), (0, &Json::Bool(true)), "{json:#}");
    for verb in VERBS.iter().chain(&["server.control", "server.link", "data.clean"]) {
        assert_eq!(level(&json, verb), "ok", "{json:#}");
    }
    let info = server.info();
    let left: Vec<_> = server.client().admin().scan(b"", false, 0).unwrap().map(|item| item.unwrap().key).collect();
    assert_eq!((left, info.cells_in_use), (Vec::<Vec<u8>>::new(), 0));
    if setting::is_verbs() {
        let fabric = info.fabric.unwrap();
        let choice = &json["choice"];
        let same: [(&str, Json); 3] =
            [("device", fabric.device.into()), ("gid", fabric.gid.into()), ("gid_index", fabric.gid_index.into())];
        for (field, used) in same {
            assert_eq!(choice[field], used, "the doctor and the server disagree: {choice}");
        }
        assert_eq!(choice["mtu_bytes"], Json::from(fabric.mtu_bytes));
        assert_eq!(level(&json, "server.mtu"), "ok");
    }
}

#[test]
fn this_machine_alone_is_no_fault() {
    let (code, json) = told(&[]);
    assert_eq!(code, 0, "{json:#}");
    assert!(finding(&json, "server.control").is_none() && finding(&json, "data.read").is_none());
    assert_eq!(level(&json, "memfd"), "ok");
    let text = String::from_utf8(run(&[]).stdout).unwrap();
    assert!(text.starts_with("RDMA devices\n") && text.contains("0 faults, "), "{text}");
    if let Some(device) = setting::device() {
        assert_eq!(json["choice"]["device"], Json::from(device.as_str()));
        let (code, json) = told(&["--fabric", "verbs", "--device", &device, "--address", "192.0.2.1"]);
        assert_eq!((code, level(&json, "choice.none")), (3, "fault"));
    } else if json["facts"]["devices"].as_array().unwrap().is_empty() {
        let (code, json) = told(&["--fabric", "verbs"]);
        assert_eq!((code, level(&json, "device.none")), (3, "fault"));
    }
}

#[test]
fn a_server_that_is_stopped_or_gone_is_a_fault() {
    let mut server = Server::start();
    server.pause();
    let (code, json) = told(&["-s", server.address()]);
    server.resume();
    assert_eq!((code, level(&json, "server.unreachable")), (3, "fault"));
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (code, json) = told(&["-s", &address]);
    assert_eq!((code, level(&json, "server.unreachable"), finding(&json, "data.read")), (3, "fault", None));
}

#[test]
fn a_verb_that_fails_is_a_finding_of_its_own() {
    let server = Server::builder().cells(1).start();
    let (code, json) = told(&["-s", server.address()]);
    assert_eq!((code, level(&json, "data.compare-swap")), (3, "fault"), "{json:#}");
    for verb in VERBS.iter().filter(|verb| **verb != "data.compare-swap") {
        assert_eq!(level(&json, verb), "ok", "{json:#}");
    }
    assert_eq!((server.info().cells_in_use, level(&json, "data.clean")), (0, "ok"));
}

#[test]
fn the_other_fabric_is_refused_in_a_sentence() {
    let server = Server::start();
    let other = if setting::is_verbs() { "shm" } else { "verbs" };
    let (code, json) = told(&["-s", server.address(), "--fabric", other]);
    assert_eq!((code, level(&json, "server.attach")), (3, "fault"), "{json:#}");
    assert!(finding(&json, "server.attach").unwrap()["what"].as_str().unwrap().contains("was asked for"));
}

#[test]
fn wrong_command_lines_are_told_from_faults() {
    for arguments in [&["--memory", "lots"][..], &["--address", "here"], &["--root", "missing"], &["-s", "no colon"], &["frob"]] {
        let output = run(arguments);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{arguments:?}");
    }
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
}

fn file(machine: &Path, path: &str, text: &str) {
    let path = machine.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_copy_of_a_machine_is_judged_with_its_table() {
    let machine = tempfile::tempdir().unwrap();
    let device = "sys/class/infiniband/mlx5_0";
    for (path, text) in [
        ("node_type", "1: CA"),
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/phys_state", "5: LinkUp"),
        ("ports/1/link_layer", "Ethernet"),
        ("ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001"),
        ("ports/1/gid_attrs/types/0", "RoCE v2"),
        ("ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000"),
        ("ports/1/gids/5", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
        ("ports/1/gid_attrs/types/5", "RoCE v2"),
        ("ports/1/gid_attrs/ndevs/5", "eth9"),
    ] {
        file(machine.path(), &format!("{device}/{path}"), text);
    }
    file(machine.path(), "sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
    file(machine.path(), "sys/class/net/eth9/mtu", "1500");
    file(machine.path(), "dev/infiniband/uverbs0", "");
    let root = machine.path().to_str().unwrap();
    let output = run(&["--root", root, "--address", "10.0.0.1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let row = "    *   5  ::ffff:10.0.0.1              RoCE v2    eth9  <- its GID table carries 10.0.0.1\n";
    assert!(text.contains(row), "{text}");
    let (_, json) = told(&["--root", root]);
    assert_eq!((&json["choice"]["gid_index"], &json["choice"]["interface"]), (&Json::from(5), &Json::from("eth9")));
    let gids = json["facts"]["devices"][0]["ports"][0]["gids"].as_array().unwrap().len();
    assert_eq!(gids, 2, "an entry of zeroes is not in use");
    file(machine.path(), &format!("{device}/node_type"), "4: RNIC");
    let (code, json) = told(&["--root", root, "--device", "mlx5_0"]);
    assert_eq!((code, level(&json, "device.iwarp"), level(&json, "choice.none")), (3, "fault", "fault"));
}

//! `kv-bench` against a real server: if its figures were wrong, missing or of other things than they say, or if it
//! ended well although operations failed, nobody could believe it. Each command runs as people run it, and its JSON
//! is held against the server's own counts.

mod figures;
mod pacing;
mod page;
mod peer;
mod peers;
mod replay;
mod usage;
mod workloads;

use serde_json::Value;
use sidewire_tests::programs::program;
use sidewire_tests::{Server, setting};
use std::process::{Command, Output};

const RECORDS: u64 = 5_000;

struct Ran {
    code: Option<i32>,
    json: Value,
    stderr: String,
}

/// Runs a command without a server of its own, with its report on stdout as JSON.
fn alone(arguments: &[&str]) -> Ran {
    ran(&[arguments, &["--json", "-"]].concat())
}

fn ran(arguments: &[&str]) -> Ran {
    let output = output(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code(), json: serde_json::from_slice(&output.stdout).unwrap_or_default(), stderr }
}

fn output(arguments: &[&str]) -> Output {
    Command::new(program("kv-bench")).args(arguments).env_remove("SIDEWIRE_SERVER").output().expect("kv-bench can be started")
}

/// Runs a command against a server, with its report on stdout as JSON.
fn bench(server: &Server, arguments: &[&str]) -> Ran {
    let fabric = setting::fabric().to_string();
    let deadline = format!("{}s", setting::patience(std::time::Duration::from_secs(5)).as_secs());
    let mut all = arguments.to_vec();
    all.extend(["--server", server.address(), "--fabric", &fabric, "--deadline", &deadline, "--json", "-"]);
    let device = setting::device();
    if let Some(device) = &device {
        all.extend(["--device", device.as_str()]);
    }
    ran(&all)
}

fn good(server: &Server, arguments: &[&str]) -> Value {
    let ran = bench(server, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    ran.json
}

#[track_caller]
fn figure(json: &Value, path: &str) -> f64 {
    json.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {json:#}"))
}

fn load(server: &Server) -> Value {
    good(server, &["load", "--records", &RECORDS.to_string(), "--threads", "2", "--readers", "1"])
}

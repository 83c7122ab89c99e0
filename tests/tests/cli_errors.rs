//! What `kv-server` says to wrong flags, files and machines.
//!
//! What could break: a wrong value that is taken silently, an error without the flag, its value and what it may be,
//! an exit code that scripts cannot tell apart, a start that is half done. Each row starts the real program and
//! wants: the exit code, nothing on stdout, the words on stderr, no signal, and an end within seconds.

use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use sidewire_tests::{Server, programs::program, setting};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const USAGE: i32 = 2;
const FAILED: i32 = 3;

fn run(args: &[&str]) -> Output {
    let started = Instant::now();
    let mut child = Command::new(program("kv-server"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > setting::patience(Duration::from_secs(10)) {
            child.kill().unwrap();
            panic!("kv-server {args:?} started: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

fn refused(code: i32, args: &[&str], words: &[&str]) {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{args:?}");
    assert!(!said.contains("panicked"), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?}: `{word}` is not in: {said}");
    }
}

#[test]
fn each_wrong_flag_is_refused_with_its_name_and_value() {
    let rows: &[(&[&str], &[&str])] = &[
        (&["--no-such-flag"], &["--no-such-flag"]),
        (&["stray"], &["stray"]),
        (&["--listen"], &["--listen"]),
        (&["--listen", "nowhere"], &["listen", "nowhere", "127.0.0.1:7400"]),
        (&["--listen", "127.0.0.1:99999"], &["listen", "99999"]),
        (&["--fabric", "iwarp"], &["fabric", "iwarp", "auto, verbs and shm"]),
        (&["--fabric", "shm", "--device", "rxe0"], &["device", "rxe0"]),
        (&["--memory", "lots"], &["memory", "lots"]),
        (&["--memory", "-1"], &["-1"]),
        (&["--memory", "1MiB"], &["memory", "1MiB", "at least"]),
        (&["--memory", "999999TiB"], &["memory", "999999TiB"]),
        (&["--chunk", "3MiB"], &["chunk", "3MiB"]),
        (&["--memory", "64MiB", "--chunk", "64MiB"], &["chunk", "64MiB", "half"]),
        (&["--workers", "0"], &["workers", "`0`", "between 1 and 64"]),
        (&["--workers", "65"], &["workers", "65"]),
        (&["--workers", "many"], &["workers", "many"]),
        (&["--lease", "1ms"], &["lease", "1ms", "between"]),
        (&["--lease", "3"], &["lease"]),
        (&["--lease", "1h"], &["lease"]),
        (&["--hugepages", "some"], &["hugepages", "some", "auto, require, off"]),
        (&["--cells", "0"], &["cells"]),
        (&["--cells", "99999999999"], &["cells"]),
        (&["--staging", "4KiB"], &["staging", "4KiB"]),
        (&["--staging", "1GiB"], &["staging", "1GiB"]),
        (&["--staging", "65537"], &["staging", "65537", "4 KiB"]),
        (&["--staging-total", "1KiB"], &["staging_total", "1KiB"]),
        (&["--clients-max", "0"], &["clients_max"]),
        (&["--clients-max", "1048575"], &["clients_max", "1048575"]),
        (&["--spin", "1m"], &["spin", "1m"]),
        (&["--pin", "core"], &["pin", "core"]),
        (&["--pin", "1000"], &["pin", "1000", "cores 0 to"]),
        (&["--log", "loud"], &["log", "loud"]),
        (&["--log-format", "xml"], &["log_format", "xml", "text, json"]),
    ];
    for (args, words) in rows {
        refused(USAGE, args, words);
    }
}

#[test]
fn a_wrong_file_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kv-server.toml");
    let path = file.to_str().unwrap();
    refused(USAGE, &["--config", path], &[path]);
    refused(USAGE, &["--config", folder.path().to_str().unwrap()], &["configuration file"]);
    let rows: &[(&[u8], &[&str])] = &[
        (b"memory = \"64MiB\"\nmemroy = \"1GiB\"\n", &["memroy", "line 2"]),
        (b"memory = \n", &["line 1"]),
        (b"lease = true\n", &["lease", "line 1"]),
        (b"workers = 4.5\n", &["line 1"]),
        (b"workers = 0\n", &["workers", "kv-server.toml"]),
        (b"[server]\nmemory = \"1GiB\"\n", &["server"]),
        (b"memory = \"\xff\xfe\"\n", &["kv-server.toml"]),
    ];
    for (text, words) in rows {
        std::fs::write(&file, text).unwrap();
        refused(USAGE, &["--config", path], words);
    }
}

/// Memory that is not there could end in SIGBUS or the kernel's killer long after the start.
#[test]
fn memory_larger_than_the_machine_is_refused() {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total_kib: u64 = text.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    let more = format!("{}KiB", total_kib + 4096);
    refused(USAGE, &["--memory", &more], &["memory", "this machine has"]);
    // Less than the machine has, more than it has free.
    let nearly = format!("{}KiB", total_kib - 1024);
    let args = ["--listen", "127.0.0.1:0", "--fabric", "shm", "--hugepages", "off", "--memory", &nearly];
    refused(FAILED, &args, &["available", "--memory"]);
}

#[test]
fn hugepages_that_are_not_there_are_refused_with_the_command() {
    let args = ["--listen", "127.0.0.1:0", "--fabric", "shm", "--hugepages", "require", "--memory", "1GiB"];
    refused(FAILED, &args, &["hugepages", "nr_hugepages", "--hugepages auto"]);
}

#[test]
fn a_port_in_use_is_refused_and_its_owner_goes_on() {
    let server = Server::start();
    let fabric = setting::fabric().to_string();
    let args = ["--listen", server.address(), "--fabric", &fabric, "--memory", "64MiB"];
    refused(FAILED, &args, &["cannot listen on", server.address(), "--listen"]);
    assert_eq!(server.info().pid, server.pid());
}

#[test]
fn an_address_of_another_machine_is_refused() {
    refused(FAILED, &["--listen", "192.0.2.1:0", "--fabric", "shm", "--memory", "64MiB"], &["192.0.2.1", "ip address"]);
}

/// An explicit choice that falls back silently would be measured as something that it is not.
#[test]
fn verbs_without_a_device_are_refused() {
    let no_such = ["--listen", "127.0.0.1:0", "--fabric", "verbs", "--device", "nodev0", "--memory", "64MiB"];
    refused(FAILED, &no_such, &["RDMA device", "ibv_devinfo"]);
    // 127.0.0.1 is no RDMA device's address, wherever this runs.
    let none = ["--listen", "127.0.0.1:0", "--fabric", "verbs", "--memory", "64MiB"];
    refused(FAILED, &none, &["--fabric shm"]);
}

/// Locked memory that is too low could fail half way through registration.
#[test]
fn too_little_locked_memory_is_refused_with_the_command() {
    if !setting::is_verbs() {
        println!("skipped: only verbs lock memory");
        return;
    }
    let listen = format!("{}:0", setting::address());
    let start = move || {
        // What this thread starts has not the capability that lifts the limit.
        remove_capability_from_bounding_set(CapabilitySet::IPC_LOCK).expect("tests on verbs run as root");
        Command::new("bash")
            .args(["-c", "ulimit -l 1024 && exec \"$0\" \"$@\""])
            .arg(program("kv-server"))
            .args(["--listen", &listen, "--fabric", "verbs", "--memory", "64MiB"])
            .stdin(Stdio::null())
            .output()
    };
    let output = std::thread::spawn(start).join().unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(FAILED), "{said}");
    assert!(said.contains("1048576") && said.contains("ulimit -l"), "{said}");
}

#[test]
fn help_and_version_are_no_errors() {
    for flag in ["--help", "--version"] {
        let output = run(&[flag]);
        assert!(output.status.success(), "{flag}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{flag}");
    }
}

/// What is printed must be a file that means the same.
#[test]
fn the_configuration_in_force_can_be_printed_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kv-server.toml");
    let first = run(&["--memory", "96MiB", "--lease", "7s", "--print-config"]);
    assert!(first.status.success());
    std::fs::write(&file, &first.stdout).unwrap();
    let second = run(&["--config", file.to_str().unwrap(), "--print-config"]);
    assert_eq!(first.stdout, second.stdout);
}

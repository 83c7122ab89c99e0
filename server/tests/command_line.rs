//! The program as an operator meets it: flags, file, exit codes, signals, what it prints where.
//!
//! What could break: a wrong value that starts a server all the same or ends in a panic, an error that does not say
//! what to do, a second line on stdout that a script takes for the address, a stop that hangs or looks like a failure.

mod harness;

use harness::{Server, run};
use rustix::process::Signal;
use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

/// Runs it to its failure; returns the exit code and stderr, and checks that stdout is empty.
fn failure(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    assert!(output.stdout.is_empty(), "stdout of {arguments:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!error.contains("panicked") && !error.contains("internal error"), "{error}");
    (output.status.code().unwrap(), error)
}

#[test]
fn each_wrong_flag_is_refused_with_2_and_names_its_limit() {
    let cases: [(&[&str], &str); 20] = [
        (&["--listen", "here"], "ADDRESS:PORT"),
        (&["--fabric", "tcp"], "auto, verbs and shm"),
        (&["--fabric", "shm", "--device", "rxe0"], "no meaning"),
        (&["--memory", "1KiB"], "at least 32 MiB"),
        (&["--memory", "900TiB"], "this machine has"),
        (&["--chunk", "1MiB"], "at least 8 MiB"),
        (&["--workers", "0"], "between 1 and 64"),
        (&["--lease", "1ms"], "between 300ms and 600s"),
        (&["--hugepages", "maybe"], "auto, require, off"),
        (&["--cells", "0"], "between 1 and"),
        (&["--staging", "1GiB"], "at most 256 MiB"),
        (&["--staging-total", "1KiB"], "at least"),
        (&["--clients-max", "x"], "between 1 and"),
        (&["--spin", "1h"], "between 0ns and 1s"),
        (&["--pin", "77777"], "core"),
        (&["--log", "loud"], "must be one of"),
        (&["--log-format", "xml"], "text, json"),
        (&["--config", "no-such-file.toml"], "no-such-file.toml"),
        (&["--leese", "3s"], "--lease"),
        (&["surplus"], "surplus"),
    ];
    for (arguments, expected) in cases {
        let (code, error) = failure(arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn an_unknown_field_of_the_file_is_named_with_its_place() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "lease = '3s'\nleese = '3s'").unwrap();
    let path = file.path().to_str().unwrap();
    let (code, error) = failure(&["--config", path]);
    assert_eq!(code, 2);
    assert!(error.contains(path) && error.contains("line 2") && error.contains("leese"), "{error}");
}

#[test]
fn what_is_printed_is_read_back_and_flags_win() {
    let printed = run(&["--print-config", "--lease", "7s"]);
    assert!(printed.status.success());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&printed.stdout).unwrap();
    let path = file.path().to_str().unwrap();
    let again = run(&["--config", path, "--print-config"]);
    assert_eq!(again.stdout, printed.stdout);
    let other = run(&["--config", path, "--lease", "8s", "--print-config"]);
    assert!(String::from_utf8(other.stdout).unwrap().contains("lease = \"8s\""));
}

#[test]
fn help_shows_each_default_and_examples() {
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    for text in ["[default: 127.0.0.1:7400]", "[default: 3s]", "[default: 1000]", "Examples:", "Exit codes:", "--print-config"] {
        assert!(help.contains(text), "{text} is not in\n{help}");
    }
    assert!(String::from_utf8(run(&["--version"]).stdout).unwrap().starts_with("kv-server "));
}

#[test]
fn a_port_in_use_is_told_before_memory_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, error) = failure(&["--listen", &address, "--memory", "64MiB"]);
    assert_eq!(code, 3);
    assert!(error.contains(&address) && error.contains("--listen"), "{error}");
}

#[test]
fn an_address_of_another_machine_is_told() {
    let (code, error) = failure(&["--listen", "192.0.2.1:7400"]);
    assert_eq!(code, 3);
    assert!(error.contains("192.0.2.1:7400") && error.contains("ip address"), "{error}");
}

#[test]
fn verbs_without_that_device_is_told() {
    let (code, error) = failure(&["--listen", "127.0.0.1:0", "--fabric", "verbs", "--device", "no-such-device"]);
    assert_eq!(code, 3);
    assert!(error.contains("RDMA device") && error.contains("--fabric shm"), "{error}");
}

#[test]
fn hugepages_that_are_not_there_are_told_with_the_command_that_makes_them() {
    let free = std::fs::read_to_string("/proc/meminfo").unwrap();
    if !free.lines().any(|line| line.starts_with("HugePages_Free:") && line.ends_with(" 0")) {
        eprintln!("skipped: this machine has hugepages");
        return;
    }
    let (code, error) = failure(&["--listen", "127.0.0.1:0", "--fabric", "shm", "--hugepages", "require"]);
    assert_eq!(code, 3);
    assert!(error.contains("nr_hugepages") && error.contains("--hugepages auto"), "{error}");
}

#[test]
fn a_signal_ends_it_with_0_and_one_line_on_stdout() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&[]);
        let begun = Instant::now();
        server.signal(signal);
        let (status, rest) = server.wait(SOON);
        assert_eq!(status.code(), Some(0), "{}", server.log());
        assert_eq!(rest, "", "one line on stdout, and no more");
        assert!(begun.elapsed() < Duration::from_secs(4));
    }
}

#[tokio::test]
async fn an_open_connection_does_not_hold_up_the_stop() {
    let mut server = Server::start(&[]);
    let _idle = server.channel().await;
    server.info().await;
    server.signal(Signal::TERM);
    assert_eq!(server.wait(SOON).0.code(), Some(0));
}

#[test]
fn logs_are_json_when_asked_for() {
    let mut server = Server::start(&["--log-format", "json"]);
    server.signal(Signal::TERM);
    server.wait(SOON);
    let log = server.log();
    assert!(log.lines().count() > 2 && log.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{log}");
    assert!(log.contains("\"reason\":\"asked for with --fabric shm\""), "{log}");
}

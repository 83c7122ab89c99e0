//! lock: a command runs only while the lock is held, and its exit code, token and signals get through.

use crate::command::Kvctl;
use rustix::process::{Pid, Signal, kill_process};
use sidewire_tests::{Server, setting};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Starts `lock run` of a script that says when it runs; returns when it does.
fn start(kvctl: &Kvctl, options: &[&str], script: &str) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let arguments = [&["lock", "run", "l"], options, &["--", "sh", "-c", script]].concat();
    let mut command = kvctl.command(&arguments);
    // Its input stays open as long as the caller keeps the child.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, out, line)
}

fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn exit_code_token_and_key_get_through() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let script = "echo $SIDEWIRE_LOCK_KEY $SIDEWIRE_LOCK_TOKEN; exit 7";
    let tokens: Vec<u64> = (0..2)
        .map(|_| {
            let told = kvctl.run(&["lock", "run", "l", "--", "sh", "-c", script]);
            assert_eq!((told.code, told.err.as_str()), (Some(7), ""));
            let text = String::from_utf8(told.out).unwrap();
            text.trim_end().strip_prefix("l ").unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        })
        .collect();
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    kvctl.prints(&["lock", "run", "l", "--", "true"], "");
    let killed = kvctl.run(&["lock", "run", "l", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!((killed.code, killed.err.as_str()), (Some(137), ""));
    let missing = "kvctl: cannot start `no-such-program`: No such file or directory (os error 2)";
    kvctl.refuses(&["lock", "run", "l", "--", "no-such-program"], 127, missing);
    kvctl.refuses(&["lock", "run", "l", "--", "/"], 126, "kvctl: cannot start `/`: Permission denied (os error 13)");
    // Each of them gave it back.
    assert!(kvctl.answer(&["lock", "try", "l"]).starts_with("free (token "));
    assert_eq!(kvctl.fed(&["lock", "run", "l", "--", "cat"], b"in").out, b"in");
}

#[test]
fn a_held_lock_is_not_had() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    kvctl.refuses(&["lock", "show", "l"], 1, "kvctl: `l` is not there");
    kvctl.refuses(&["lock", "break", "l"], 1, "kvctl: `l` is not there");
    let (mut child, _out, line) = start(&kvctl, &[], "echo $SIDEWIRE_LOCK_TOKEN; read wait");
    let token = line.trim_end();
    let shown = kvctl.answer(&["lock", "show", "l"]);
    let end_of = format!(", process {}\n", child.id());
    assert!(shown.starts_with("held by client ") && shown.contains(&format!("(token {token}): kvctl on ")), "{shown}");
    assert!(shown.ends_with(&end_of), "{shown}");
    let holder = shown.split_whitespace().nth(3).unwrap();
    let held = format!("kvctl: `l` is held by client {holder} (token {token})");
    kvctl.refuses(&["lock", "try", "l"], 1, &held);
    kvctl.refuses(&["lock", "run", "l", "--wait", "0", "--", "echo", "never"], 1, &held);
    let waited = format!("kvctl: `l` is still held after 300ms, by client {holder} (token {token})");
    kvctl.refuses(&["lock", "run", "l", "--wait", "300ms", "--", "echo", "never"], 1, &waited);
    child.kill().unwrap();
    child.wait().unwrap();
    // The holder is dead: the server frees the lock after the lease.
    let wait = format!("{}s", setting::patience(Duration::from_secs(10)).as_secs());
    kvctl.prints(&["lock", "run", "l", "--wait", &wait, "--", "echo", "mine"], "mine\n");
    assert!(kvctl.answer(&["lock", "show", "l"]).starts_with("free (token "));
    kvctl.refuses(&["lock", "break", "l"], 1, "kvctl: `l` is held by nobody");
}

#[test]
fn signals_reach_the_command() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    for (signal, name, code) in [(Signal::TERM, "TERM", 5), (Signal::INT, "INT", 6)] {
        let script = format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.05; done");
        let (child, _out, line) = start(&kvctl, &[], &script);
        assert_eq!(line, "ready\n");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(end(child), (Some(code), String::new()));
    }
    assert!(kvctl.answer(&["lock", "show", "l"]).starts_with("free (token "));
}

#[test]
fn a_command_stops_when_its_time_or_the_lease_is_over() {
    let mut server = Server::start();
    let kvctl = Kvctl::of(&server);
    let (child, _out, _) = start(&kvctl, &["--ttl", "300ms"], "echo ready; exec sleep 60");
    let over = "kvctl: the command held `l` for longer than --ttl and was stopped\n";
    assert_eq!(end(child), (Some(1), over.into()));
    assert!(kvctl.answer(&["lock", "show", "l"]).starts_with("free (token "));
    // One that does not listen is killed.
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let (child, _out, _) = start(&kvctl, &["--ttl", "300ms", "--kill-after", "300ms"], stubborn);
    assert_eq!(end(child), (Some(1), over.into()));
    let (child, _out, line) = start(&kvctl, &[], "echo $SIDEWIRE_LOCK_TOKEN; exec sleep 60");
    server.kill();
    let lost = "was lost while the command ran: another client may hold the lock";
    assert_eq!(end(child), (Some(3), format!("kvctl: the lease on `l` (token {}) {lost}\n", line.trim_end())));
}

//! Every call ends by its deadline, whatever part of the server stands still.
//!
//! What could break: a call that waits for something that has no limit of its own, or that waits for several such
//! things one after the other, each with the whole deadline. Each thread of the server is frozen alone, then all of them,
//! within a lease and past it, then the control plane is one that takes connections and never answers. All kinds of calls
//! are made at once, each on a thread and a session of its own, prepared before.

mod calls;
mod scene;

use scene::Scene;
use sidewire::{Admin, Client, Error, Retry};
use sidewire_tests::programs::program;
use sidewire_tests::{Frozen, Server, setting};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

fn deadline() -> Duration {
    setting::patience(Duration::from_millis(600))
}

/// The deadline plus 10 %, and some slack for a machine on which all calls end at once; less than a second deadline.
fn most() -> Duration {
    deadline() * 11 / 10 + setting::patience(Duration::from_millis(400))
}

/// Names of the server's threads, numbers left out.
fn thread_names(server: &Server) -> BTreeSet<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().filter_map(Result::ok);
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(|task| name(task).trim().trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned()).collect()
}

#[test]
fn with_any_thread_of_the_server_frozen_every_call_ends_by_its_deadline() {
    let server = Server::builder().lease(setting::patience(Duration::from_secs(2))).workers(2).start();
    let names = thread_names(&server);
    println!("{names:?}");
    assert!(names.iter().any(|name| name.contains("worker")) && names.iter().any(|name| name.contains("lease")), "{names:?}");
    let mut slow = Vec::new();
    for name in names {
        let scene = Scene::new(&server);
        let frozen = || Frozen::threads(server.pid(), &name);
        slow.extend(scene.play(&name, frozen));
        scene.goes_on();
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn with_the_server_stopped_every_call_ends_by_its_deadline() {
    let lease = setting::patience(Duration::from_secs(2));
    for past_the_lease in [false, true] {
        let mut server = Server::builder().lease(lease).workers(2).start();
        let scene = Scene::new(&server);
        let stop = || {
            server.pause();
            if past_the_lease {
                std::thread::sleep(lease * 5 / 4);
            }
        };
        let slow = scene.play(if past_the_lease { "all, past the lease" } else { "all" }, stop);
        assert!(slow.is_empty(), "past the lease: {past_the_lease}: {slow:#?}");
        server.resume();
        scene.goes_on();
    }
}

#[test]
fn with_the_server_killed_every_call_ends_by_its_deadline() {
    let mut server = Server::builder().lease(setting::patience(Duration::from_secs(2))).workers(2).start();
    let scene = Scene::new(&server);
    let slow = scene.play("killed", || server.kill());
    assert!(slow.is_empty(), "{slow:#?}");
    server.start_again();
    scene.goes_on();
}

/// Whether a text tells how long was waited: `limit`, or what was left of it after the first steps.
fn tells_about(said: &str, limit: Duration) -> bool {
    let told = said.split_once("no answer within ").map_or("", |(_, rest)| rest);
    let unit = told.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = told[..told.len() - unit.len()].parse().unwrap_or(0.0);
    let seconds = if unit.starts_with("ms") { number / 1_000.0 } else { number };
    (0.9..=1.0).contains(&(seconds / limit.as_secs_f64()))
}

/// A connection that is accepted and never answered, and one that is not even accepted.
#[test]
fn a_control_plane_that_never_answers_is_given_up_by_the_deadline() {
    let silent = TcpListener::bind((setting::address(), 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let kept: Vec<_> = silent.incoming().collect();
        drop(kept);
    });
    let check = |what: &str, started: Instant, error: &Error| {
        let took = started.elapsed();
        println!("{what}: {error} ({took:?})");
        assert!(took <= most(), "{what} took {took:?}");
        assert_eq!(error.retry(), Retry::Later, "{what}: {error:?}");
        assert_eq!(error.to_string().matches("is gone").count(), 1, "{error}");
    };
    let started = Instant::now();
    let connected = Client::builder().server(&address).deadline(deadline()).connect();
    check("connect", started, &connected.unwrap_err());
    for command in ["info", "scan", "dump", "get"] {
        let timeout = format!("{}ms", deadline().as_millis());
        let mut kvctl = Command::new(program("kvctl"));
        kvctl.args(["-s", &address, "--timeout", &timeout, command]).args((command == "get").then_some("k"));
        let started = Instant::now();
        let output = kvctl.output().unwrap();
        let took = started.elapsed();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        println!("kvctl {command}: {said} ({took:?})");
        assert!(took <= most() + setting::patience(Duration::from_millis(300)), "kvctl {command} took {took:?}");
        assert!(!output.status.success() && tells_about(&said, deadline()), "{said}");
    }
    let started = Instant::now();
    check("admin", started, &Admin::connect_within(&address, deadline()).unwrap_err());
}

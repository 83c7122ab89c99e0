//! Three servers, two copies of each shard, and four client processes, while servers are killed, stopped, cut off from the
//! map, or restarted one after the other.
//!
//! What could break: an acked write that is gone, a value of before that comes back, a number or a token that is granted
//! twice, a counter whose sum is wrong, a call that ends in an error although a copy was there, a pause that is longer
//! than it takes to notice a death. The clients are those of `chaos`; here all they saw is one history, since no life of one
//! server ends it.
//!
//! `SIDEWIRE_FAILOVERS` is the number of faults of each kind, `SIDEWIRE_CHAOS_SEED` repeats a choice of servers.

#[path = "../chaos/batch.rs"]
mod batch;
#[path = "../chaos/calls.rs"]
mod calls;
#[path = "../chaos/client.rs"]
mod client;
mod servers;
mod story;

use parking_lot::Mutex;
use servers::{SERVERS, Servers};
use sidewire_tests::relay::Cut;
use sidewire_tests::setting::number;
use sidewire_tests::{child, setting};
use std::time::Duration;
use story::Story;

/// Faults of one test unless the environment says otherwise.
const FAULTS_DEFAULT: u64 = 3;

fn lease() -> Duration {
    setting::patience(Duration::from_secs(1))
}

/// Of every call of every client: a death is noticed and mended well within it.
fn deadline() -> Duration {
    setting::patience(Duration::from_secs(8))
}

#[test]
fn child() {
    child::run(&[("client", client::run)]);
}

/// One story at a time: each has a cluster of its own, and asks for how long it was away.
static STAGE: Mutex<()> = Mutex::new(());

/// Lives through the faults; one call of `fault` is a fault of each of so many `servers`.
fn tell(kind: &'static str, servers: u64, fault: fn(&mut Servers, usize)) {
    let _stage = STAGE.lock();
    let faults = number("SIDEWIRE_FAILOVERS").unwrap_or(FAULTS_DEFAULT).div_ceil(servers);
    let seed = number("SIDEWIRE_CHAOS_SEED").unwrap_or_else(rand::random);
    println!("SIDEWIRE_CHAOS_SEED={seed} SIDEWIRE_FAILOVERS={faults}");
    let mut story = Story::begin(seed);
    for _ in 0..faults {
        story.fault(fault);
    }
    let account = story.end();
    println!("{faults} x {kind}\n{account}");
    account.check();
}

#[test]
fn a_killed_server_loses_nothing() {
    tell("server killed and started again", 1, |servers, at| {
        servers.kill(at);
        std::thread::sleep(lease() * 3);
        servers.start_again(at);
    });
}

#[test]
fn a_server_of_the_past_is_not_believed() {
    tell("server stopped for longer than its lease", 1, |servers, at| {
        servers.pause(at);
        std::thread::sleep(lease() * 3);
        servers.resume(at);
    });
}

#[test]
fn a_server_that_reaches_the_map_no_more_is_replaced() {
    // By turns nobody is told, and all connections end.
    tell("server cut off from the map, in silence and loudly", 2, |servers, at| {
        for (at, cut) in [(at, Cut::Silent), ((at + 1) % SERVERS, Cut::Loud)] {
            servers.cut(at, cut);
            std::thread::sleep(lease() * 3);
            servers.cut(at, Cut::Not);
            servers.heal();
        }
    });
}

#[test]
fn servers_are_restarted_one_after_the_other() {
    tell("three servers restarted one after the other", SERVERS as u64, |servers, _| {
        for at in 0..SERVERS {
            servers.stop(at);
            servers.start_again(at);
            servers.heal();
        }
    });
}

//! Three servers, two copies of each shard, and four client processes, while servers are killed or stopped.
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

use servers::Servers;
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

fn tell(kind: &'static str, fault: fn(&mut Servers, usize)) {
    let faults = number("SIDEWIRE_FAILOVERS").unwrap_or(FAULTS_DEFAULT);
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
    tell("server killed and started again", |servers, at| {
        servers.kill(at);
        std::thread::sleep(lease() * 3);
        servers.start_again(at);
    });
}

#[test]
fn a_server_of_the_past_is_not_believed() {
    tell("server stopped for longer than its lease", |servers, at| {
        servers.pause(at);
        std::thread::sleep(lease() * 3);
        servers.resume(at);
    });
}

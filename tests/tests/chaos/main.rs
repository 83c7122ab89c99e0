//! A server and four client processes under faults of every kind, and the history of all calls.
//!
//! What could break: anything that holds only as long as nobody dies or stands still. Every few seconds the server is
//! killed and started again, or stopped for less or more than a lease; a client is killed and replaced, or stopped past
//! its lease. The clients call everything there is on a few keys, and write down each call with its moments. At the end every
//! life of the server has to be linearizable, tokens have to rise over all lives, every call must have ended in time,
//! and the server must hold nothing that is not in its keys.
//!
//! `SIDEWIRE_CHAOS_SECONDS` is the time under faults, `SIDEWIRE_CHAOS_SEED` repeats a choice of faults.

mod account;
mod batch;
mod calls;
mod client;
mod faults;
mod leaks;

use sidewire_tests::setting::number;
use sidewire_tests::{Server, child, setting};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Seconds under faults unless the environment says otherwise.
const SECONDS_DEFAULT: u64 = 30;
/// The same where all is emulated and a lease is ten times as long.
const SECONDS_EMULATED: u64 = 120;

fn lease() -> Duration {
    setting::patience(Duration::from_secs(1))
}

/// Of every call of every client.
fn deadline() -> Duration {
    setting::patience(Duration::from_millis(500))
}

fn server() -> Server {
    Server::builder().lease(lease()).workers(2).cells(4096).memory("128MiB").start()
}

/// A folder that is kept when the test fails: the histories in it tell why.
struct Kept(Option<TempDir>);

impl Kept {
    fn path(&self) -> &Path {
        self.0.as_ref().expect("taken by drop alone").path()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(folder) = self.0.take()
        {
            eprintln!("the clients' histories are in {}", folder.keep().display());
        }
    }
}

#[test]
fn child() {
    child::run(&[("client", client::run)]);
}

#[test]
fn every_life_is_linearizable_under_faults() {
    let seconds =
        number("SIDEWIRE_CHAOS_SECONDS").unwrap_or(if setting::is_verbs() { SECONDS_EMULATED } else { SECONDS_DEFAULT });
    let seed = number("SIDEWIRE_CHAOS_SEED").unwrap_or_else(rand::random);
    println!("SIDEWIRE_CHAOS_SEED={seed} SIDEWIRE_CHAOS_SECONDS={seconds}");
    let before = leaks::Before::now();
    let folder = Kept(Some(tempfile::tempdir().unwrap()));
    let mut chaos = faults::Chaos::start(seed, Duration::from_secs(seconds), folder.path());
    chaos.run();
    let (server, past) = chaos.end();
    let account = account::Account::of(folder.path(), &past);
    println!("{account}");
    account.check();
    leaks::nothing_is_left(server, &before);
}

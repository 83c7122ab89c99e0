//! Values that are too long for one request: they are reserved, sent in parts, and committed.
//!
//! What could break: a part that lands in the wrong place, a value that is found before it is whole, a condition judged by
//! what the key held when the writing began, memory that a client that died in the middle never gives back, a long value
//! that holds up all others, a record that is read in pieces of two versions.

mod bounds;
mod lengths;
mod story;

use sidewire_tests::{Server, setting};
use std::time::Duration;

/// Half of the default staging ring: the longest value of one request.
const HALF_RING: usize = 512 << 10;
const MIB: usize = 1 << 20;

/// A server with chunks that hold a value of 64 MiB; of 16 MiB where all is emulated.
fn server() -> Server {
    Server::builder().memory(if setting::is_verbs() { "384MiB" } else { "1GiB" }).start()
}

/// The longest value that it takes.
fn longest() -> usize {
    if setting::is_verbs() { 16 * MIB } else { 64 * MIB }
}

fn patience() -> Duration {
    setting::patience(Duration::from_secs(20))
}

#[test]
fn child() {
    sidewire_tests::child::run(&[("never-stored", story::never_stored)]);
}

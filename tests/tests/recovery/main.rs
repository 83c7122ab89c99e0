//! Crowds of clients that die, come and go; servers that stall; limits that are reached.
//!
//! What could break: a sweep that is too slow or forgets something when many die at once; a little that each visit or
//! death leaves behind; a server that judges clients by the time for which it stood still itself; a full table or a lack of
//! descriptors that harms those who are in already.
//!
//! Rounds are few unless `SIDEWIRE_RECOVERY_FULL=1` asks for all.

mod crowd;
mod cycles;
mod leases;
mod limits;
mod memory;
mod stalls;

use sidewire_tests::{Server, child, setting};
use std::time::Duration;

fn lease() -> Duration {
    setting::patience(Duration::from_secs(1))
}

fn server() -> Server {
    Server::builder().lease(lease()).workers(2).cells(4096).start()
}

/// Rounds of a loop: few here, all when asked for.
fn rounds(few: u64, all: u64) -> u64 {
    if std::env::var_os("SIDEWIRE_RECOVERY_FULL").is_some() { all } else { few }
}

#[test]
fn child() {
    child::run(&[("crowd", crowd::works), ("visitor", cycles::puts_once), ("holds", leases::holds)]);
}

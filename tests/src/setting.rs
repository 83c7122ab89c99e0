//! What the environment says of how tests run.

use sidewire_common::fabric::FabricKind;
use std::time::Duration;

/// The fabric under test.
///
/// # Panics
/// When `SIDEWIRE_TEST_FABRIC` is neither `shm` nor `verbs`: a typing error must not test the wrong one.
#[must_use]
pub fn fabric() -> FabricKind {
    match std::env::var("SIDEWIRE_TEST_FABRIC").as_deref() {
        Err(_) | Ok("shm") => FabricKind::Shm,
        Ok("verbs") => FabricKind::Verbs,
        Ok(other) => panic!("SIDEWIRE_TEST_FABRIC is `{other}`; known are shm and verbs"),
    }
}

/// Whether real verbs are under test.
#[must_use]
pub fn is_verbs() -> bool {
    fabric() == FabricKind::Verbs
}

/// The RDMA device to use, if one is named.
#[must_use]
pub fn device() -> Option<String> {
    std::env::var("SIDEWIRE_TEST_DEVICE").ok().filter(|_| is_verbs())
}

/// The address that servers listen on.
#[must_use]
pub fn address() -> String {
    std::env::var("SIDEWIRE_TEST_ADDR").unwrap_or_else(|_| "127.0.0.1".into())
}

/// The number that a variable of the environment holds, if it is set.
///
/// # Panics
/// When it holds something else: a typing error must not run another test.
#[must_use]
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

fn percent() -> u64 {
    number("SIDEWIRE_TEST_SCALE").unwrap_or(if is_verbs() { 10 } else { 100 })
}

/// How many times a loop runs that would run `count` times here: fewer where all is emulated.
#[must_use]
pub fn scale(count: u64) -> u64 {
    (count * percent() / 100).max(1)
}

/// A time that is long enough here, longer where all is emulated.
#[must_use]
pub fn patience(here: Duration) -> Duration {
    if is_verbs() { here * 10 } else { here }
}

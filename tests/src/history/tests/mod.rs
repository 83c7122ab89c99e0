//! The check against histories that are known to be good or bad.
//!
//! What could break: a checker that accepts what no store may do (then every test that uses it proves nothing), that
//! refuses what a store may do, or that never ends. Hand-written histories show each violation alone; random ones show
//! that what a store did in some order is accepted and that one wrong answer in it is refused; small ones are compared
//! with a search through every order.

mod by_hand;
mod cells;
mod every_order;
mod files;
mod mutants;
mod random;
mod speed;
mod store;

use super::{Call, Event, Limits, Outcome, Reason, Verdict, check};

/// An event of client 1 that returned.
fn at(from: u64, to: u64, call: Call, outcome: Outcome) -> Event {
    Event { client: 1, invoked: from, returned: Some(to), call, outcome }
}

/// One of which nobody knows.
fn open(from: u64, call: Call) -> Event {
    Event { client: 2, invoked: from, returned: None, call, outcome: Outcome::Unknown }
}

fn verdict(events: &[Event]) -> Verdict {
    check(events, &Limits { expiry_band: 5, ..Limits::default() })
}

#[track_caller]
fn good(events: &[Event]) {
    let _ = verdict(events).expect_good();
}

/// Wants this reason, and prints the report once.
#[track_caller]
fn bad(reason: Reason, events: &[Event]) -> String {
    let verdict = verdict(events);
    let violation = verdict.violation().unwrap_or_else(|| panic!("{verdict}"));
    assert_eq!(violation.reason, reason, "{verdict}");
    println!("{verdict}");
    verdict.to_string()
}

fn get(key: &str) -> Call {
    Call::Get { key: key.into() }
}

fn value(stamp: u64, version: u64) -> Outcome {
    Outcome::Value { stamp, version }
}

fn written(version: u64) -> Outcome {
    Outcome::Written { version }
}

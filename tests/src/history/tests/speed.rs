//! What simulated schedules need: a check takes about a millisecond. Printed, not judged: the machine is shared.

use super::super::{Limits, check};
use super::store::{Shape, history};
use std::time::Instant;

#[test]
fn two_hundred_calls_on_eight_keys() {
    for (spread, doubt) in [(0, 0), (30, 20), (80, 10)] {
        let histories: Vec<_> =
            (0..200).map(|seed| history(seed, Shape { calls: 200, keys: 8, clients: 6, spread, doubt })).collect();
        let started = Instant::now();
        let explored: usize = histories.iter().map(|events| check(events, &Limits::default()).expect_good().explored).sum();
        let each = started.elapsed() / histories.len() as u32;
        println!("spread {spread}, doubt {doubt}: {each:?} a history, {} configurations", explored / histories.len());
        assert!(explored < histories.len() * 20_000, "{explored}");
    }
}

//! Whatever a store did in some order is accepted.

use super::super::{Limits, check};
use super::store::{Shape, history};

#[test]
fn executions_of_a_store_are_accepted() {
    for seed in 0..600 {
        let spread = [0, 5, 40, 120][seed as usize % 4];
        let doubt = [0, 30, 8][seed as usize % 3];
        let shape = Shape { calls: 150, keys: 8, clients: 6, spread, doubt };
        let events = history(seed, shape);
        let verdict = check(&events, &Limits::default());
        assert!(verdict.is_good(), "seed {seed}, spread {spread}, doubt {doubt}: {verdict}");
    }
}

/// The memory of what was tried must not grow with the length.
#[test]
fn a_long_history_is_looked_at_once() {
    let shape = Shape { calls: 100_000, keys: 4, clients: 8, spread: 40, doubt: 500 };
    let figures = check(&history(1, shape), &Limits::default()).expect_good();
    println!("{figures:?}");
    assert!(figures.explored < 100 * figures.events, "{figures:?}");
}

#[test]
fn too_long_a_search_is_given_up_and_says_so() {
    let shape = Shape { calls: 100, keys: 1, clients: 6, spread: 100, doubt: 0 };
    let limits = Limits { configurations_max: 10, ..Limits::default() };
    let verdict = check(&history(1, shape), &limits);
    assert!(!verdict.is_good() && verdict.violation().is_none());
    assert!(verdict.to_string().contains("gave up on [\"v0\"]"), "{verdict}");
}

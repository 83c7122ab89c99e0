//! The real server and client code on the simulated fabric, against a model.
//!
//! A schedule is a seed.
//!
//! ```text
//!   cargo test --test sim                              so many schedules as fit into a test run
//!   SEED=17 cargo test --test sim replay -- --nocapture    one of them, twice; SIM_LOG=1 with all that is logged
//!   make soak SCHEDULES=100000                         many, on all cores; without SCHEDULES until it is stopped
//! ```

mod cells;
mod client;
mod cluster;
mod keys;
mod plan;
mod run;
mod values;

use plan::Plan;
use run::{Figures, run};
use sidewire_tests::schedules;

/// Schedules of one test run.
const SCHEDULES: u64 = 1200;
/// Schedules that are run twice, unless one is named.
const REPLAYED: u64 = 40;
/// Attempts at a smaller schedule that shows the same.
const SHRINK_MAX: usize = 60;

fn attempt(plan: &Plan) -> Result<Figures, String> {
    schedules::attempt(|| run(plan))
}

/// A smaller schedule that fails too, and how.
fn shrink(plan: &Plan, error: String) -> (Plan, String) {
    let (mut smallest, mut error) = (plan.clone(), error);
    let mut left = SHRINK_MAX;
    'again: loop {
        for smaller in smallest.smaller() {
            if left == 0 {
                break 'again;
            }
            left -= 1;
            if let Err(other) = attempt(&smaller) {
                (smallest, error) = (smaller, other);
                continue 'again;
            }
        }
        break;
    }
    (smallest, error)
}

/// One schedule; what fails is made smaller and told.
fn check(seed: u64) -> Figures {
    let plan = Plan::of(seed);
    let error = match attempt(&plan) {
        Ok(figures) => return figures,
        Err(error) => error,
    };
    let (smallest, smaller) = shrink(&plan, error.clone());
    panic!(
        "{plan}{error}\n\nthe smallest that was found:\n{smallest}{smaller}\n\nagain: SEED={seed} cargo test --test sim replay"
    );
}

#[test]
fn schedules_are_linearizable() {
    schedules::explore_some(SCHEDULES, check);
}

#[test]
#[ignore = "runs until it is stopped"]
fn soak() {
    schedules::soak(check);
}

#[test]
fn replay() {
    schedules::replay(REPLAYED, Plan::of, run);
}

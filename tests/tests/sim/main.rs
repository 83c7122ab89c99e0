//! The real server and client code on the simulated fabric, against a model.
//!
//! A schedule is a seed. `SEED=17 cargo test --test sim replay` runs one again, with every event in the log if
//! `SIM_LOG` is set; `SIM_SCHEDULES` says how many are run.

mod cells;
mod client;
mod cluster;
mod keys;
mod plan;
mod run;
mod values;

use plan::Plan;
use run::{Figures, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Schedules of one test run.
const SCHEDULES: u64 = 400;
/// Attempts at a smaller schedule that shows the same.
const SHRINK_MAX: usize = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

fn attempt(plan: &Plan) -> Result<Figures, String> {
    catch_unwind(AssertUnwindSafe(|| run(plan))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panicked: {}", text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into())).unwrap_or_default()))
    })
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

fn explore(seeds: std::ops::Range<u64>) -> Figures {
    let mut sum = Figures::default();
    for seed in seeds {
        let plan = Plan::of(seed);
        match attempt(&plan) {
            Ok(figures) => {
                sum.calls += figures.calls;
                sum.unknown += figures.unknown;
                sum.events += figures.events;
                sum.lives += figures.lives;
                sum.splits += figures.splits;
            }
            Err(error) => {
                let (smallest, smaller_error) = shrink(&plan, error.clone());
                panic!(
                    "{plan}{error}\n\nthe smallest that was found:\n{smallest}{smaller_error}\n\nagain: SEED={seed} cargo test --test sim replay"
                );
            }
        }
    }
    sum
}

#[test]
fn schedules_are_linearizable() {
    let began = Instant::now();
    let count = number("SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let first = number("SIM_FIRST").unwrap_or(1);
    let sum = explore(first..first + count);
    println!("{count} schedules in {:?}: {sum:?}", began.elapsed());
}

#[test]
fn replay() {
    if std::env::var_os("SIM_LOG").is_some() {
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE).with_test_writer().init();
    }
    let seed = number("SEED").unwrap_or(1);
    let plan = Plan::of(seed);
    println!("{plan}");
    let one = attempt(&plan).unwrap_or_else(|error| panic!("{plan}{error}"));
    let other = attempt(&plan).unwrap_or_else(|error| panic!("{plan}{error}"));
    assert_eq!((one.fingerprint, one.events), (other.fingerprint, other.events), "one seed, two runs");
    println!("{one:?}");
}

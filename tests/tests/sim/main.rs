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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Schedules of one test run.
const SCHEDULES: u64 = 1200;
/// Schedules that are run twice, unless one is named.
const REPLAYED: u64 = 40;
/// Attempts at a smaller schedule that shows the same.
const SHRINK_MAX: usize = 60;
/// Schedules between two lines of a soak.
const SOAK_LINE: u64 = 5000;

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

/// Schedules from `first` on, on all cores.
fn explore(first: u64, count: u64) -> Figures {
    let (next, done, began) = (AtomicU64::new(first), AtomicU64::new(0), Instant::now());
    let work = || {
        let mut sum = Figures::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed - first >= count {
                return sum;
            }
            sum.add(&check(seed));
            let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
            if so_far.is_multiple_of(SOAK_LINE) {
                println!("{so_far} schedules, {:.0} a minute", so_far as f64 * 60.0 / began.elapsed().as_secs_f64());
            }
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().fold(Figures::default(), |mut sum, thread| {
            sum.add(&thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            sum
        })
    })
}

#[test]
fn schedules_are_linearizable() {
    let began = Instant::now();
    let count = number("SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let sum = explore(number("SIM_FIRST").unwrap_or(1), count);
    println!("{count} schedules in {:.1?}: {sum:?}", began.elapsed());
}

#[test]
#[ignore = "runs until it is stopped"]
fn soak() {
    let began = Instant::now();
    let first = number("SIM_FIRST").unwrap_or_else(rand::random);
    println!("from seed {first} on");
    let count = number("SIM_SCHEDULES").unwrap_or(u64::MAX - first);
    let sum = explore(first, count);
    println!("{count} schedules in {:.1?}: {sum:?}", began.elapsed());
}

#[test]
fn replay() {
    if std::env::var_os("SIM_LOG").is_some() {
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE).with_test_writer().init();
    }
    let seeds = number("SEED").map_or(1..=REPLAYED, |seed| seed..=seed);
    for plan in seeds.map(Plan::of) {
        println!("{plan}");
        let one = attempt(&plan).unwrap_or_else(|error| panic!("{plan}{error}"));
        let other = attempt(&plan).unwrap_or_else(|error| panic!("{plan}{error}"));
        assert_eq!((one.fingerprint, one.events), (other.fingerprint, other.events), "one seed, two runs: {plan}");
        println!("{one:?}");
    }
}

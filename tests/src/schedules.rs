//! Schedules of a simulated world: each is a seed, and one seed is one run.

use crate::setting::number;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Schedules between two lines of a long run.
const LINE: u64 = 5000;

/// What a schedule came to.
pub trait Figures: Default + Debug + Send {
    /// Adds those of another schedule.
    fn add(&mut self, other: &Self);

    /// The world's fingerprint and the number of its events: the same whenever the schedule runs.
    fn identity(&self) -> (u64, u64);
}

/// Runs a schedule; a panic is a failure like any other.
///
/// # Errors
/// What was wrong, for people.
pub fn attempt<F>(run: impl FnOnce() -> Result<F, String>) -> Result<F, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panicked: {}", text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into())).unwrap_or_default()))
    })
}

/// Checks `count` schedules from `first` on, on all cores, and tells what they came to.
///
/// # Panics
/// As `check` does, which is to name the schedule that failed.
pub fn explore<F: Figures>(first: u64, count: u64, check: impl Fn(u64) -> F + Sync) {
    let (next, done, began) = (AtomicU64::new(first), AtomicU64::new(0), Instant::now());
    let work = || {
        let mut sum = F::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed - first >= count {
                return sum;
            }
            sum.add(&check(seed));
            let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
            if so_far.is_multiple_of(LINE) {
                println!("{so_far} schedules, {:.0} a minute", so_far as f64 * 60.0 / began.elapsed().as_secs_f64());
            }
        }
    };
    let sum = std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().fold(F::default(), |mut sum, thread| {
            sum.add(&thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            sum
        })
    });
    println!("{count} schedules in {:.1?}: {sum:?}", began.elapsed());
}

/// As [`explore`], of as many schedules as `SIM_SCHEDULES` says, from `SIM_FIRST` on.
pub fn explore_some<F: Figures>(schedules: u64, check: impl Fn(u64) -> F + Sync) {
    explore(number("SIM_FIRST").unwrap_or(1), number("SIM_SCHEDULES").unwrap_or(schedules), check);
}

/// As [`explore`], until it is stopped unless `SIM_SCHEDULES` says how many; from a seed of its own unless `SIM_FIRST` says.
pub fn soak<F: Figures>(check: impl Fn(u64) -> F + Sync) {
    let first = number("SIM_FIRST").unwrap_or_else(rand::random);
    println!("from seed {first} on");
    explore(first, number("SIM_SCHEDULES").unwrap_or(u64::MAX - first), check);
}

/// Runs each of the first `count` schedules twice, or the one that `SEED` names; `SIM_LOG` shows all that is logged.
///
/// # Panics
/// When one fails, or two runs of one are not the same.
pub fn replay<P: Display, F: Figures>(count: u64, plan: impl Fn(u64) -> P, run: impl Fn(&P) -> Result<F, String>) {
    if std::env::var_os("SIM_LOG").is_some() {
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE).with_test_writer().init();
    }
    for plan in number("SEED").map_or(1..=count, |seed| seed..=seed).map(plan) {
        println!("{plan}");
        let once = || attempt(|| run(&plan)).unwrap_or_else(|error| panic!("{plan}{error}"));
        let (one, other) = (once(), once());
        assert_eq!(one.identity(), other.identity(), "one seed, two runs: {plan}");
        println!("{one:?}");
    }
}

/// A future that waits by the host's means alone: it is ready when it is asked.
///
/// # Panics
/// When it is not.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("a simulated service waits for nothing but its host"),
    }
}

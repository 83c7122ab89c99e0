//! What a thread takes from its host: time, chance, threads, waiting.
//!
//! All code that runs on a data path takes them from here, so that the `sim` fabric can be their host instead of
//! the operating system: a seed then decides every clock reading, every random number and every interleaving.
//! Without the feature `sim` each function is the call of the system that its name tells, and nothing else.

#[cfg(feature = "sim")]
use crate::fabric::sim;
use crossbeam::channel::{Receiver, RecvError, RecvTimeoutError};
use parking_lot::{Condvar, MutexGuard};
use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::distr::{Distribution, StandardUniform};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whether the calling thread lives in a simulated world.
#[must_use]
#[inline]
pub fn is_simulated() -> bool {
    #[cfg(feature = "sim")]
    return sim::is_inside();
    #[cfg(not(feature = "sim"))]
    false
}

/// `CLOCK_BOOTTIME`, nanoseconds.
#[must_use]
#[inline]
pub fn boot_nanos() -> u64 {
    #[cfg(feature = "sim")]
    if let Some(nanos) = sim::nanos() {
        return nanos;
    }
    let t = clock_gettime(ClockId::Boottime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Resident memory of a process, `self` or a number, bytes; zero where the system does not tell. Source: proc_pid_statm(5).
#[must_use]
pub fn resident_bytes(process: &str) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// The wall clock: time since the Unix epoch, zero before it.
#[must_use]
pub fn unix_time() -> Duration {
    #[cfg(feature = "sim")]
    if sim::is_inside() {
        return Duration::from_nanos(sim::UNIX_NANOS + sim::time());
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A random value.
#[must_use]
pub fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(feature = "sim")]
    if let Some(mut chance) = sim::chance() {
        return rand::Rng::random(&mut chance);
    }
    rand::random()
}

/// A random value of a range.
#[must_use]
pub fn random_in<T: SampleUniform>(range: impl SampleRange<T>) -> T {
    #[cfg(feature = "sim")]
    if let Some(mut chance) = sim::chance() {
        return rand::Rng::random_range(&mut chance, range);
    }
    rand::random_range(range)
}

/// Sleeps.
pub fn sleep(pause: Duration) {
    #[cfg(feature = "sim")]
    if sim::sleep(pause) {
        return;
    }
    std::thread::sleep(pause);
}

/// A thread that was started here.
#[derive(Debug)]
pub struct Thread(Kind);

#[derive(Debug)]
enum Kind {
    System(std::thread::JoinHandle<()>),
    #[cfg(feature = "sim")]
    Simulated(sim::ThreadId),
}

impl Thread {
    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Kind::System(thread) => thread.is_finished(),
            #[cfg(feature = "sim")]
            Kind::Simulated(thread) => thread.is_finished(),
        }
    }

    /// Waits for its end; false when it has panicked.
    pub fn join(self) -> bool {
        match self.0 {
            Kind::System(thread) => thread.join().is_ok(),
            #[cfg(feature = "sim")]
            Kind::Simulated(thread) => thread.join(),
        }
    }
}

/// Starts a thread.
///
/// # Errors
/// When the system has none to give.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<Thread> {
    #[cfg(feature = "sim")]
    if sim::is_inside() {
        return sim::spawn(name, run).map(|thread| Thread(Kind::Simulated(thread)));
    }
    std::thread::Builder::new().name(name.into()).spawn(run).map(|thread| Thread(Kind::System(thread)))
}

/// Waits on a condition for at most `limit`; may return early, as condition variables do.
pub fn wait_for<T>(condition: &Condvar, guard: &mut MutexGuard<'_, T>, limit: Duration) {
    #[cfg(feature = "sim")]
    if sim::is_inside() {
        let nap = limit.min(sim::CONDITION_NAP);
        MutexGuard::unlocked(guard, || sim::sleep(nap));
        return;
    }
    condition.wait_for(guard, limit);
}

/// Receives, however long it takes.
///
/// # Errors
/// When all senders are gone.
pub fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    #[cfg(feature = "sim")]
    if sim::is_inside() {
        return sim::receive(from, None).map_err(|_| RecvError);
    }
    from.recv()
}

/// Receives within `limit`.
///
/// # Errors
/// When nothing came, or all senders are gone.
pub fn receive_within<T>(from: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
    #[cfg(feature = "sim")]
    if sim::is_inside() {
        return sim::receive(from, Some(limit));
    }
    from.recv_timeout(limit)
}

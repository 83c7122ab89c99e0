//! Times for which the machine itself gave nobody any time.
//!
//! Deadlines are tested on machines that others use. A thread that only sleeps notices when it is woken late; such times
//! are no fault of the call that they fell into.

use crate::history::file::now;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the watch sleeps at a time.
const NAP: Duration = Duration::from_millis(5);
/// Shortest time beyond that which counts.
const LATE: Duration = Duration::from_millis(20);

/// Watches for stalls from its start to its end.
#[derive(Debug)]
pub struct Watch {
    stalls: Arc<Mutex<Vec<(u64, u64)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to watch.
    #[must_use]
    pub fn start() -> Self {
        let (stalls, stop) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (noted, stopped) = (Arc::clone(&stalls), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut before = now();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(NAP);
                let after = now();
                if Duration::from_nanos(after - before) > NAP + LATE {
                    noted.lock().expect("nobody panics with it").push((before, after));
                }
                before = after;
            }
        });
        Self { stalls, stop, thread: Some(thread) }
    }

    /// The stalls so far, as moments of `history::file::now`.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn stalls(&self) -> Vec<(u64, u64)> {
        self.stalls.lock().expect("nobody panics with it").clone()
    }

    /// For how long the machine stood between two moments.
    #[must_use]
    pub fn stood(&self, from: u64, to: u64) -> Duration {
        overlap(&self.stalls(), from, to)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How much of the time between two moments lies in `spans`.
#[must_use]
pub fn overlap(spans: &[(u64, u64)], from: u64, to: u64) -> Duration {
    let within = spans.iter().map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from)));
    Duration::from_nanos(within.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_spans_count() {
        let spans = [(10, 20), (30, 40)];
        assert_eq!(overlap(&spans, 15, 35), Duration::from_nanos(10));
        assert_eq!(overlap(&spans, 20, 30), Duration::ZERO);
        assert_eq!(overlap(&spans, 0, 100), Duration::from_nanos(20));
    }
}

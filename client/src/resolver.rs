//! Questions that the system answers in its own time, asked within a limit.
//!
//! A resolver blocks for as long as its servers are silent, and cannot be told to stop. So each question has a thread
//! of its own, which is left alone when the limit is over; and so many at most may hang.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Threads of a process that may hang in a resolver.
pub(crate) const HANGING_MAX: usize = 8;

/// The resolvers of this process.
pub(crate) static RESOLVERS: Resolvers = Resolvers::new();

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Silence {
    #[error("the name was not resolved within {0:?}")]
    Late(Duration),
    #[error("{HANGING_MAX} earlier questions to the resolver of names are not answered yet")]
    Crowded,
    #[error("no thread to resolve the name: {0}")]
    NoThread(String),
}

/// Threads that ask.
#[derive(Debug)]
pub(crate) struct Resolvers {
    asking: AtomicUsize,
}

impl Resolvers {
    const fn new() -> Self {
        Self { asking: AtomicUsize::new(0) }
    }

    /// The answer to a question, unless it takes longer than `limit`.
    pub fn ask<T: Send + 'static>(
        &'static self,
        limit: Duration,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Silence> {
        if limit.is_zero() {
            return Err(Silence::Late(limit));
        }
        let place = self.enter().ok_or(Silence::Crowded)?;
        let (told, answer) = sync_channel(1);
        let ask = move || {
            let found = question();
            drop(place);
            // Whoever asked may wait no more.
            let _ = told.send(found);
        };
        let started = std::thread::Builder::new().name("sidewire-name".into()).spawn(ask);
        started.map_err(|e| Silence::NoThread(e.to_string()))?;
        answer.recv_timeout(limit).map_err(|e| match e {
            RecvTimeoutError::Timeout => Silence::Late(limit),
            RecvTimeoutError::Disconnected => Silence::NoThread("it has panicked".into()),
        })
    }

    fn enter(&'static self) -> Option<Place> {
        let more = |asking: usize| (asking < HANGING_MAX).then_some(asking + 1);
        self.asking.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Place(self))
    }
}

/// One thread's share of the limit.
struct Place(&'static Resolvers);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Far beyond what a machine under load needs.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn an_answer_in_time_is_an_answer() {
        static HERE: Resolvers = Resolvers::new();
        assert_eq!(HERE.ask(LONG, || 7), Ok(7));
        assert_eq!(HERE.asking.load(Ordering::Acquire), 0);
    }

    #[test]
    fn one_that_hangs_is_left_alone_and_so_many_at_most() {
        static HERE: Resolvers = Resolvers::new();
        let mut held = Vec::new();
        for _ in 0..HANGING_MAX {
            let (release, hang) = channel::<()>();
            held.push(release);
            assert_eq!(HERE.ask(SHORT, move || hang.recv().is_ok()), Err(Silence::Late(SHORT)));
        }
        assert_eq!(HERE.ask(LONG, || true), Err(Silence::Crowded));
        // They are answered at last, and others may ask.
        drop(held);
        let free = || HERE.asking.load(Ordering::Acquire) == 0;
        let until = std::time::Instant::now() + LONG;
        while !free() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(HERE.ask(LONG, || true), Ok(true));
    }

    #[test]
    fn one_that_panics_is_no_answer() {
        static HERE: Resolvers = Resolvers::new();
        let silence = HERE.ask(LONG, || -> u8 { std::panic::resume_unwind(Box::new(())) });
        assert!(matches!(silence, Err(Silence::NoThread(_))), "{silence:?}");
        assert_eq!(HERE.asking.load(Ordering::Acquire), 0);
    }
}

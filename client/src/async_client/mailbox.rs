//! The way to the executor: a bounded channel, and a bell that is rung only when the executor sleeps.

use super::job::{Brought, Job, Task};
use crate::error::Error;
use parking_lot::Mutex;
use sidewire_common::fabric::Waker;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Jobs that wait; callers beyond wait for room.
pub(super) const JOBS_WAITING: usize = 4096;

/// Whether the executor sleeps, and how it is woken.
#[derive(Default)]
pub(super) struct Mailbox {
    asleep: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Mailbox {
    /// The executor is about to sleep, and looks at the channel once more after this.
    pub fn listen(&self, waker: Option<Waker>) {
        *self.waker.lock() = waker;
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The executor looks at the channel by itself again.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Something was put into the channel, or it was closed.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(waker) = &*self.waker.lock()
        {
            waker.wake();
        }
    }
}

/// Hands a job over and waits for its answer.
pub(super) async fn ask(
    jobs: &Sender<Job>,
    mailbox: &Mailbox,
    key: &[u8],
    task: Task,
    deadline: Duration,
) -> Result<Brought, Error> {
    let (job, answer) = Job::new(key, task, deadline);
    jobs.send(job).await.map_err(|_| gone())?;
    mailbox.ring();
    answer.await.map_err(|_| gone())?
}

/// The executor's thread has ended, which it does only with its last handle or by a panic.
fn gone() -> Error {
    Error::ServerGone { server: String::new(), reason: "the thread behind the asynchronous handle has ended".into() }
}

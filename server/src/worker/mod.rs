//! Workers: pinned threads, each the only writer of its shards.
//!
//! ```text
//!   control ──Command──▶ channel ─┐
//!   clients ──immediate─▶ port ───┼─▶ poll_loop ─▶ intake ─▶ execute ─▶ ack
//!   loopback ─completion─▶ port ──┘        └─▶ deferred (what waits for the cells' executor)
//! ```
//! A worker never blocks: not on its own atomics, not on a full outgoing queue, not on memory that is on its way.

mod answer;
mod command;
mod connection;
mod counts;
mod deferred;
mod exactly_once;
mod execute;
mod expiry;
mod intake;
mod lookahead;
mod memory;
mod open;
mod pinning;
mod poll_loop;
mod replica;
mod reserve;
mod scan;
pub mod staging;

pub use command::{Command, OpenError, OpenedEndpoint, Resolution, ScanCursor, ScanItem, ScanPage};
pub use memory::Memory;
pub use pinning::Pinning;

use crate::metrics::WorkerMetrics;
use crate::store::{StartError, Store};
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::Mutex;
use sidewire_common::fabric::Waker;
use sidewire_common::host::{self, Thread};
use std::sync::Arc;

struct Handle {
    commands: Sender<Command>,
    waker: Waker,
    metrics: Arc<WorkerMetrics>,
    thread: Mutex<Option<Thread>>,
}

/// The running workers.
pub struct Workers {
    handles: Vec<Handle>,
    metrics: Vec<Arc<WorkerMetrics>>,
}

/// The worker has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the worker has ended")]
pub struct Stopped;

impl Workers {
    /// Starts them all and waits until each can serve.
    ///
    /// # Errors
    /// When a thread, a port or a first segment cannot be had.
    pub fn start(store: &Arc<Store>) -> Result<Self, StartError> {
        let handles = (0..store.settings().worker_count).map(|number| start_one(store, number)).collect::<Result<Vec<_>, _>>()?;
        let metrics = handles.iter().map(|h| Arc::clone(&h.metrics)).collect();
        Ok(Self { handles, metrics })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.handles.len() as u32
    }

    /// Sends a command to worker `worker` (counted round) and wakes it.
    ///
    /// # Errors
    /// When it has ended.
    pub fn send(&self, worker: u32, command: Command) -> Result<(), Stopped> {
        let handle = &self.handles[worker as usize % self.handles.len()];
        handle.commands.send(command).map_err(|_| Stopped)?;
        handle.waker.wake();
        Ok(())
    }

    /// Figures of each.
    #[must_use]
    pub fn metrics(&self) -> &[Arc<WorkerMetrics>] {
        &self.metrics
    }

    /// Whether one of them has ended before it was told to.
    #[must_use]
    pub fn any_ended(&self) -> bool {
        self.handles.iter().any(|h| h.thread.lock().as_ref().is_some_and(Thread::is_finished))
    }

    /// Tells all to end and waits for them. Again it does nothing.
    pub fn stop(&self) {
        for worker in 0..self.count() {
            let _ = self.send(worker, Command::Stop);
        }
        for handle in &self.handles {
            let thread = handle.thread.lock().take();
            if thread.is_some_and(|thread| !thread.join()) {
                tracing::error!("a worker had panicked");
            }
        }
    }
}

fn start_one(store: &Arc<Store>, number: u32) -> Result<Handle, StartError> {
    let (commands, inbox): (_, Receiver<Command>) = unbounded();
    let (ready, started) = bounded(1);
    let metrics = Arc::new(WorkerMetrics::default());
    let (store, metrics_there) = (Arc::clone(store), Arc::clone(&metrics));
    let thread = host::spawn(&format!("kv-worker-{number}"), move || {
        store.settings().pin.apply(number, store.settings().worker_count);
        match poll_loop::Worker::new(number, store, inbox, metrics_there) {
            Ok(mut worker) => {
                let _ = ready.send(Ok(worker.waker()));
                worker.run();
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        }
    })?;
    let waker = host::receive(&started).map_err(|_| std::io::Error::other("the worker ended while it started"))??;
    Ok(Handle { commands, waker, metrics, thread: Mutex::new(Some(thread)) })
}

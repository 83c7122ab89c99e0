//! Leases: one thread that hears every client's heartbeat and takes back what silent ones held.
//!
//! ```text
//!   table       who is attached, and until when        pure, behind a mutex that control shares
//!    ├ sessions     which endpoints a client has
//!    └ holder_ids   what clients are called in lock words
//!   turn        the thread's loop: orders, beats, judgement, sweeps, epochs
//!    ├ beats        beat endpoints and answers
//!    ├ sweep        the steps of a sweep, each awaited without blocking
//!    └ locks        CAS through the thread's own loopback endpoint
//! ```

mod beats;
pub mod holder_ids;
mod locks;
pub mod sessions;
mod sweep;
pub mod table;
mod turn;

use crate::store::Store;
use crate::worker::Workers;
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::Mutex;
use sidewire_common::fabric::{FabricError, PeerInfo, PortSpec, Waker};
use sidewire_common::host::{self, Thread};
use sidewire_common::id::ClientId;
use sidewire_common::limits::BEAT_DEPTH;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use table::Table;

/// Completions of the loopback endpoint that releases locks.
const LOOPBACK_DEPTH: u32 = 64;

/// What control and the lease thread share.
pub struct Shared {
    /// Who is attached. Held for moments only; never while anything is awaited.
    pub table: Mutex<Table>,
    stopping: AtomicBool,
}

impl Shared {
    /// Whether the server is on its way out and takes nobody in.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// What the lease thread is asked to do.
pub(crate) enum Order {
    /// Opens a client's beat endpoint; an earlier one is closed.
    OpenBeat { client: ClientId, peer: PeerInfo, reply: Sender<Result<PeerInfo, FabricError>> },
    /// Sweeps a client that said goodbye; replies when nothing of it is left.
    Detach { client: ClientId, reply: Sender<()> },
    /// Tells all clients that the server is stopping.
    TellStopping,
    /// Ends the thread.
    Stop,
}

/// Why leases could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// No thread.
    #[error("cannot start the lease thread: {0}")]
    Thread(#[from] std::io::Error),
    /// No port.
    #[error("cannot open the heartbeat port: {}{}", .0, port_hint(.0))]
    Fabric(#[from] FabricError),
}

/// The port is as large as the number of clients demands.
fn port_hint(error: &FabricError) -> &'static str {
    if matches!(error, FabricError::Limit { .. }) { "; lower --clients-max" } else { "" }
}

/// The running lease thread.
pub struct Leases {
    shared: Arc<Shared>,
    orders: Sender<Order>,
    waker: Waker,
    thread: Mutex<Option<Thread>>,
}

impl Leases {
    /// Starts the thread and waits until it hears.
    ///
    /// # Errors
    /// When the thread or its port cannot be had.
    pub fn start(store: &Arc<Store>, workers: &Arc<Workers>) -> Result<Self, LeaseError> {
        let settings = store.settings();
        let table = Mutex::new(Table::new(settings.lease, settings.clients_max));
        let shared = Arc::new(Shared { table, stopping: AtomicBool::new(false) });
        let (orders, receiver) = unbounded();
        let (ready, is_ready) = bounded(1);
        let thread = {
            let (store, workers, shared) = (Arc::clone(store), Arc::clone(workers), Arc::clone(&shared));
            host::spawn("kv-lease", move || run(store, workers, shared, receiver, &ready))?
        };
        let Ok(waker) = host::receive(&is_ready) else {
            return Err(LeaseError::Thread(std::io::Error::other("it ended at once")));
        };
        Ok(Self { shared, orders, waker: waker?, thread: Mutex::new(Some(thread)) })
    }

    /// What is shared with the thread.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Gives the thread something to do. False when it has ended.
    pub(crate) fn order(&self, order: Order) -> bool {
        let taken = self.orders.send(order).is_ok();
        self.waker.wake();
        taken
    }

    /// Whether the thread has ended before it was told to.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.lock().as_ref().is_some_and(Thread::is_finished)
    }

    /// From now on nobody is admitted, and every answer says that the server is stopping.
    pub fn begin_stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.order(Order::TellStopping);
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
    }
}

fn run(
    store: Arc<Store>,
    workers: Arc<Workers>,
    shared: Arc<Shared>,
    orders: Receiver<Order>,
    ready: &Sender<Result<Waker, FabricError>>,
) {
    let completions = store.settings().clients_max.saturating_mul(2 * BEAT_DEPTH).saturating_add(LOOPBACK_DEPTH);
    match store.fabric().port(PortSpec { name: "lease".into(), completions }) {
        Ok(port) => {
            let _ = ready.send(Ok(port.waker()));
            turn::Turn::new(store, workers, shared, orders, port).run();
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    }
}

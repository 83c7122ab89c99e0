//! Growth: a thread that makes chunks before they are needed.
//!
//! A new chunk takes records only once every live client has acknowledged the epoch that announced it, or a
//! bounded wait is over: a client that does not know a chunk then asks, and a server that is stopped never hides one.

use super::{ChunkUse, Pools};
use crate::store::Store;
use sidewire_common::clock::BootInstant;
use sidewire_common::host::{self, Thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the grower looks whether the epoch was acknowledged.
const LOOK: Duration = Duration::from_millis(2);
/// Pause after memory could not be had, so that a full machine is not asked in a loop.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The running grower; stops it when dropped.
pub struct GrowerHandle {
    pools: Arc<Pools>,
    stop: Arc<AtomicBool>,
    thread: Option<Thread>,
}

impl Drop for GrowerHandle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.pools.wake_grower.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

impl Pools {
    /// Starts the grower.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start_grower(store: &Arc<Store>) -> std::io::Result<GrowerHandle> {
        let pools = Arc::clone(store.pools());
        let stop = Arc::new(AtomicBool::new(false));
        let patience = store.settings().lease * 2;
        let (pools_there, stop_there) = (Arc::clone(&pools), Arc::clone(&stop));
        let thread = host::spawn("kv-grow", move || grow_until(&pools_there, &stop_there, patience))?;
        Ok(GrowerHandle { pools, stop, thread: Some(thread) })
    }
}

fn grow_until(pools: &Pools, stop: &AtomicBool, patience: Duration) {
    while let Some(used_for) = next_wish(pools, stop) {
        match pools.make_chunk(used_for) {
            Ok(chunk) => {
                await_acknowledgement(pools, stop, patience);
                pools.open_chunk(&chunk, 0);
                tracing::info!(chunk = chunk.number(), used_for = ?used_for, bytes = chunk.view().len(), "pool has grown");
            }
            Err(error) => {
                tracing::warn!(%error, used_for = ?used_for, "pool could not grow");
                pause(pools, stop);
            }
        }
        pools.inner.lock().growing = false;
    }
}

fn next_wish(pools: &Pools, stop: &AtomicBool) -> Option<ChunkUse> {
    let mut inner = pools.inner.lock();
    loop {
        if stop.load(Ordering::Acquire) {
            return None;
        }
        let wish = match (std::mem::take(&mut inner.wants_index), inner.wants_heap) {
            (true, _) => Some(ChunkUse::Index),
            (false, true) => {
                inner.wants_heap = false;
                Some(ChunkUse::Heap)
            }
            (false, false) => None,
        };
        if let Some(wish) = wish.filter(|_| pools.can_grow()) {
            inner.growing = true;
            return Some(wish);
        }
        host::wait_for(&pools.wake_grower, &mut inner, Duration::from_secs(1));
    }
}

fn await_acknowledgement(pools: &Pools, stop: &AtomicBool, patience: Duration) {
    let epoch = pools.epochs.retire();
    let until = BootInstant::now().plus(patience);
    while !pools.epochs.is_over(epoch) && BootInstant::now() < until && !stop.load(Ordering::Acquire) {
        host::sleep(LOOK);
    }
}

fn pause(pools: &Pools, stop: &AtomicBool) {
    let until = BootInstant::now().plus(PAUSE_AFTER_FAILURE);
    let mut inner = pools.inner.lock();
    while BootInstant::now() < until && !stop.load(Ordering::Acquire) {
        host::wait_for(&pools.wake_grower, &mut inner, PAUSE_AFTER_FAILURE);
    }
}

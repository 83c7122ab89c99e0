//! Requests on their way from the trace to the threads: those of one key always go to the same thread, in order.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::trace::Entry;

/// Requests that travel together.
const BATCH: usize = 256;
/// Batches that wait for a thread at most; the reader waits then.
const BATCHES_MAX: usize = 16;

/// A request and when it is meant to begin, counted from the start.
#[derive(Debug)]
pub struct Due {
    /// The request.
    pub entry: Entry,
    /// The hash of its key, which its value carries.
    pub record: u64,
    /// When it is meant to begin; `None` is as soon as possible.
    pub at: Option<Duration>,
}

/// The receiving ends, one for each thread.
#[derive(Debug)]
pub struct Feed(Vec<Mutex<Receiver<Vec<Due>>>>);

/// The sending ends.
pub struct Feeder {
    to: Vec<SyncSender<Vec<Due>>>,
    open: Vec<Vec<Due>>,
}

/// Both ends, for so many threads.
pub fn pair(threads: usize) -> (Feeder, Feed) {
    let (to, from): (Vec<_>, Vec<_>) = (0..threads).map(|_| sync_channel(BATCHES_MAX)).unzip();
    let open = (0..threads).map(|_| Vec::with_capacity(BATCH)).collect();
    (Feeder { to, open }, Feed(from.into_iter().map(Mutex::new).collect()))
}

/// FNV-1a, 64 bits: any hash that stays the same will do.
pub fn hash(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

impl Feeder {
    /// Sends a request to the thread of its key; false when that thread takes no more.
    pub fn send(&mut self, entry: Entry, at: Option<Duration>) -> bool {
        let record = hash(&entry.key);
        // The low bits choose the shard in many a store.
        let thread = ((record >> 32) % self.to.len() as u64) as usize;
        self.open[thread].push(Due { entry, record, at });
        self.open[thread].len() < BATCH || self.flush(thread)
    }

    /// Sends what waits for more.
    pub fn finish(mut self) {
        for thread in 0..self.to.len() {
            self.flush(thread);
        }
    }

    /// Sends all that waits, when it is due soon.
    pub fn flush_all(&mut self) -> bool {
        (0..self.to.len()).all(|thread| self.flush(thread))
    }

    fn flush(&mut self, thread: usize) -> bool {
        let batch = std::mem::replace(&mut self.open[thread], Vec::with_capacity(BATCH));
        batch.is_empty() || self.to[thread].send(batch).is_ok()
    }
}

impl Feed {
    /// The next batch of a thread; `None` when the trace has ended.
    pub fn next(&self, thread: usize) -> Option<Vec<Due>> {
        self.0[thread].lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

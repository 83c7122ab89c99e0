//! What is put under load. A store is what the whole run talks to, a target one thread's access to it.

mod kv;
mod lmdb;
mod memcached;
pub mod null;
mod redis;
mod resp;
mod store;
mod url;

pub use store::{Needs, Store, open};
pub use url::TargetUrl;

use std::time::Duration;

use crate::failure::Failure;

/// Names an operation in flight.
pub type Ticket = u64;

/// An operation to be begun now and waited for later.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Reads a value.
    Read {
        /// The key.
        key: &'a [u8],
    },
    /// Stores a value.
    Write {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// How long it stays.
        ttl: Option<Duration>,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Adds 1 to a counter.
    Add {
        /// The key.
        key: &'a [u8],
    },
}

/// Keys of a multi-get, one after the other.
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds one.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.ends.iter().enumerate().map(|(at, end)| {
            let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[from..*end]
        })
    }
}

/// A store, from one thread. What a store cannot do is refused before the run, from [`Store::lacks`].
pub trait Target {
    /// Reads a value and shows it where it lies; `None` when there is none.
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure>;

    /// Reads several values and shows each with its place among the keys.
    fn multi_get(&mut self, keys: &Keys, look: impl FnMut(usize, Option<&[u8]>)) -> Result<(), Failure>;

    /// Stores a value, for a time if told so.
    fn write(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Failure>;

    /// Deletes a key, which may hold nothing.
    fn delete(&mut self, key: &[u8]) -> Result<(), Failure>;

    /// Adds 1 to a counter.
    fn add(&mut self, key: &[u8]) -> Result<(), Failure>;

    /// Takes a lock, waiting for it, and gives it back.
    fn lock_and_unlock(&mut self, key: &[u8]) -> Result<(), Failure>;

    /// Creates a counter of 0 if there is none.
    fn create_counter(&mut self, key: &[u8]) -> Result<(), Failure>;

    /// Begins an operation; `None` when too much is in flight already. What it borrows may change after this call.
    fn submit(&mut self, request: Request<'_>) -> Result<Option<Ticket>, Failure>;

    /// Waits until at least one operation ended and shows those that did: for reads with the value, if there is one.
    fn wait(&mut self, ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure>;

    /// As `wait`, but without waiting where the store allows it.
    fn poll(&mut self, ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        self.wait(ended)
    }

    /// Its own counts so far.
    fn stats(&self) -> sidewire::ClientStats;
}

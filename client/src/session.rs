//! A session: one thread's endpoints to one server.

use crate::error::Error;
use crate::lock_guard::{LockGuard, LockView};
use crate::pipeline::{Operation, OperationId, Outcome};
use crate::raw::RawFabric;
use crate::stats::ClientStats;
use crate::value::Value;
use crate::write::{Write, WriteOptions};
use sidewire_common::layout::record::{Kind, Version};
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

/// One thread's endpoints to the server. Every call ends within the session's deadline.
#[derive(Debug)]
pub struct Session {
    _one_thread: PhantomData<Rc<()>>,
}

#[allow(unused_variables, clippy::missing_errors_doc, reason = "bodies follow")]
impl Session {
    /// Sets the deadline of all later calls.
    pub fn set_deadline(&self, deadline: Duration) {}

    /// The key's value.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        Err(Error::Busy)
    }

    /// The values of several keys: one doorbell for their buckets, one for their records.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Value>, Error>> {
        keys.iter().map(|_| Err(Error::Busy)).collect()
    }

    /// Whether the key holds anything, of any kind.
    pub fn exists(&self, key: &[u8]) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// What the key holds.
    pub fn kind(&self, key: &[u8]) -> Result<Option<Kind>, Error> {
        Err(Error::Busy)
    }

    /// Stores a value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        Err(Error::Busy)
    }

    /// Stores a value under conditions, for a time, or fenced by a lock.
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        Err(Error::Busy)
    }

    /// Stores a value if the key holds nothing.
    pub fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_absent())
    }

    /// Stores a value if the key's version is this one.
    pub fn put_if_version(&self, key: &[u8], value: &[u8], version: Version) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_version(version))
    }

    /// Deletes whatever the key holds; false when it held nothing.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// Deletes under conditions, or fenced by a lock.
    pub fn delete_with(&self, key: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        Err(Error::Busy)
    }

    /// Deletes the key if its version is this one.
    pub fn delete_if_version(&self, key: &[u8], version: Version) -> Result<Write, Error> {
        self.delete_with(key, &WriteOptions::new().if_version(version))
    }

    /// Creates a counter; false when there was one already, which is left as it is.
    pub fn create_counter(&self, key: &[u8], initial: i64) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// Adds to a counter and tells its value after that.
    pub fn add(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        Err(Error::Busy)
    }

    /// As [`add`](Self::add), carried out by the server's worker, so that a broken connection cannot leave it in
    /// doubt.
    pub fn add_exactly_once(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        Err(Error::Busy)
    }

    /// A counter's or sequence's value.
    pub fn counter(&self, key: &[u8]) -> Result<Option<i64>, Error> {
        Err(Error::Busy)
    }

    /// Creates a sequence; false when there was one already, which is left as it is.
    pub fn create_sequence(&self, key: &[u8], first: i64) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// The next number of a sequence: numbers may be skipped, never repeated.
    pub fn next(&self, key: &[u8]) -> Result<i64, Error> {
        Err(Error::Busy)
    }

    /// Takes a lock if it is free; creates it if there is none.
    pub fn try_lock(&self, key: &[u8]) -> Result<Option<LockGuard>, Error> {
        Err(Error::Busy)
    }

    /// Takes a lock, waiting for it up to `timeout`; creates it if there is none.
    pub fn lock(&self, key: &[u8], timeout: Duration) -> Result<LockGuard, Error> {
        Err(Error::Busy)
    }

    /// Who holds a lock.
    pub fn lock_state(&self, key: &[u8]) -> Result<Option<LockView>, Error> {
        Err(Error::Busy)
    }

    /// Frees a lock, whoever holds it; false when there is no such lock. For administration.
    pub fn break_lock(&self, key: &[u8]) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// Submits an operation; its outcome comes out of [`poll`](Self::poll) or [`wait`](Self::wait).
    /// [`Error::Full`] means: poll first.
    pub fn submit(&self, operation: Operation<'_>) -> Result<OperationId, Error> {
        Err(Error::Busy)
    }

    /// Moves what has ended into `finished` and says how many. Never blocks.
    pub fn poll(&self, finished: &mut Vec<(OperationId, Result<Outcome, Error>)>) -> usize {
        0
    }

    /// Waits until at least one submitted operation has ended; 0 when none is in flight.
    pub fn wait(&self, finished: &mut Vec<(OperationId, Result<Outcome, Error>)>) -> Result<usize, Error> {
        Ok(0)
    }

    /// Submitted operations that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        0
    }

    /// What this session counted.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        ClientStats::default()
    }

    /// The raw verbs on this session's own endpoints.
    #[must_use]
    pub fn raw(&self) -> RawFabric<'_> {
        RawFabric::new(self)
    }
}

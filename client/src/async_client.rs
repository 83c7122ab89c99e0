//! The handle for asynchronous code: requests go to a thread that owns a session, replies come back.

use crate::error::Error;
use crate::lock_guard::LockView;
use crate::write::{Write, WriteOptions};
use sidewire_common::layout::record::{Kind, Version};
use std::time::Duration;

/// A cloneable handle; its operations are those of a [`Session`](crate::Session). Works in any executor.
#[derive(Clone, Debug)]
pub struct AsyncClient {
    _executor: (),
}

/// A lock that an [`AsyncClient`] holds; released when it is dropped.
#[derive(Debug)]
pub struct AsyncLockGuard {
    key: Vec<u8>,
    token: u64,
}

impl AsyncLockGuard {
    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The fencing token: larger than that of every earlier holder.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whether the lock is surely still held, as far as the lease tells.
    #[must_use]
    pub fn is_held(&self) -> bool {
        false
    }

    /// How long it is surely still held without another heartbeat.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        Duration::ZERO
    }

    /// Releases it, once every write that carries its token has ended.
    ///
    /// # Errors
    /// [`Error::LeaseLapsed`] when it had been lost before.
    pub async fn unlock(self) -> Result<(), Error> {
        Err(Error::Busy)
    }
}

#[allow(unused_variables, clippy::missing_errors_doc, clippy::unused_async, reason = "bodies follow")]
impl AsyncClient {
    /// As [`Session::get`](crate::Session::get).
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Err(Error::Busy)
    }

    /// As [`get`](Self::get), with the value's version.
    pub async fn get_versioned(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Version)>, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::multi_get`](crate::Session::multi_get).
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Vec<u8>>, Error>> {
        Vec::new()
    }

    /// As [`Session::exists`](crate::Session::exists).
    pub async fn exists(&self, key: &[u8]) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::kind`](crate::Session::kind).
    pub async fn kind(&self, key: &[u8]) -> Result<Option<Kind>, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::put`](crate::Session::put).
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::put_with`](crate::Session::put_with).
    pub async fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::put_if_absent`](crate::Session::put_if_absent).
    pub async fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_absent()).await
    }

    /// As [`Session::put_if_version`](crate::Session::put_if_version).
    pub async fn put_if_version(&self, key: &[u8], value: &[u8], version: Version) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_version(version)).await
    }

    /// As [`Session::delete`](crate::Session::delete).
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::delete_with`](crate::Session::delete_with).
    pub async fn delete_with(&self, key: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::delete_if_version`](crate::Session::delete_if_version).
    pub async fn delete_if_version(&self, key: &[u8], version: Version) -> Result<Write, Error> {
        self.delete_with(key, &WriteOptions::new().if_version(version)).await
    }

    /// As [`Session::create_counter`](crate::Session::create_counter).
    pub async fn create_counter(&self, key: &[u8], initial: i64) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::add`](crate::Session::add).
    pub async fn add(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::add_exactly_once`](crate::Session::add_exactly_once).
    pub async fn add_exactly_once(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::counter`](crate::Session::counter).
    pub async fn counter(&self, key: &[u8]) -> Result<Option<i64>, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::create_sequence`](crate::Session::create_sequence).
    pub async fn create_sequence(&self, key: &[u8], first: i64) -> Result<bool, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::next`](crate::Session::next).
    pub async fn next(&self, key: &[u8]) -> Result<i64, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::try_lock`](crate::Session::try_lock).
    pub async fn try_lock(&self, key: &[u8]) -> Result<Option<AsyncLockGuard>, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::lock`](crate::Session::lock); no thread waits.
    pub async fn lock(&self, key: &[u8], timeout: Duration) -> Result<AsyncLockGuard, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::lock_state`](crate::Session::lock_state).
    pub async fn lock_state(&self, key: &[u8]) -> Result<Option<LockView>, Error> {
        Err(Error::Busy)
    }

    /// As [`Session::break_lock`](crate::Session::break_lock).
    pub async fn break_lock(&self, key: &[u8]) -> Result<bool, Error> {
        Err(Error::Busy)
    }
}
impl AsyncClient {
    pub(crate) fn start(_: crate::client::Client) -> Result<Self, Error> {
        Err(Error::Busy)
    }
}

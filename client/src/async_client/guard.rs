//! A lock that an asynchronous handle holds.

use super::AsyncClient;
use super::job::{Job, Task};
use super::mailbox;
use crate::error::Error;
use crate::lock_guard::Held;
use std::sync::Arc;
use std::time::Duration;

/// A lock that an [`AsyncClient`] holds; released when it is dropped.
pub struct AsyncLockGuard {
    pub(super) client: AsyncClient,
    pub(super) key: Vec<u8>,
    pub(super) held: Option<Box<Held>>,
    pub(super) token: u64,
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

    /// Whether the lock is surely still held, as far as the lease and the cluster's map tell.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.left().is_some())
    }

    /// How long it is surely still held without another heartbeat.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        self.held.as_ref().and_then(|held| held.left()).unwrap_or(Duration::ZERO)
    }

    /// Releases it, once every write that carries its token has ended.
    ///
    /// # Errors
    /// [`Error::LeaseLapsed`] when it was lost with the lease, [`Error::Fenced`] when somebody has broken it.
    pub async fn unlock(mut self) -> Result<(), Error> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let shared = Arc::clone(&self.client.shared);
        let deadline = shared.client.deadline;
        mailbox::ask(shared.jobs(), &shared.mailbox, &self.key, Task::Unlock(held), deadline).await.map(|_| ())
    }
}

impl Drop for AsyncLockGuard {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let shared = Arc::clone(&self.client.shared);
        let (job, _) = Job::new(&self.key, Task::Unlock(held), shared.client.deadline);
        match shared.jobs().try_send(job) {
            Ok(()) => shared.mailbox.ring(),
            Err(tokio::sync::mpsc::error::TrySendError::Full(job)) => {
                let runtime = Arc::clone(shared.client.runtime());
                runtime.spawn(async move {
                    if shared.jobs().send(job).await.is_ok() {
                        shared.mailbox.ring();
                    }
                });
            }
            // The session has ended, and with it the lock.
            Err(tokio::sync::mpsc::error::TrySendError::Closed(_)) => {}
        }
    }
}

impl std::fmt::Debug for AsyncLockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncLockGuard").field("token", &self.token).field("is_held", &self.is_held()).finish_non_exhaustive()
    }
}

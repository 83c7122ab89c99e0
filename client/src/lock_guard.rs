//! A lock while it is held.

use crate::attached::Attached;
use crate::error::Error;
use crate::in_flight::Machine;
use crate::op::{Lock, LockGoal, Taken};
use crate::session::Core;
use sidewire_common::clock::BootInstant;
use std::rc::Rc;
use std::sync::Arc;
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
pub struct LockGuard {
    core: Rc<Core>,
    /// The attachment under whose lease it is held.
    attached: Arc<Attached>,
    key: Vec<u8>,
    taken: Taken,
    released: bool,
}

impl LockGuard {
    pub(crate) fn new(core: Rc<Core>, key: &[u8], taken: Taken) -> Self {
        let attached = Arc::clone(core.driver.borrow().attached());
        Self { core, attached, key: key.to_vec(), taken, released: false }
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The fencing token: larger than that of every earlier holder.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.taken.word.token()
    }

    /// Whether the lock is surely still held, as far as the lease tells.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.released && !self.attached.has_ended() && self.attached.lease.valid_at(BootInstant::now())
    }

    /// How long it is surely still held without another heartbeat.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        if self.is_held() { self.attached.lease.left(BootInstant::now()) } else { Duration::ZERO }
    }

    /// Releases it, once every write of this session that carries its token has ended.
    ///
    /// # Errors
    /// [`Error::LeaseLapsed`] when it was lost with the lease, [`Error::Fenced`] when somebody has broken it.
    pub fn unlock(mut self) -> Result<(), Error> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        let deadline = self.core.deadline();
        let started = BootInstant::now();
        {
            let mut driver = self.core.driver.borrow_mut();
            if !driver.settle_writes_of(self.taken.word.token(), deadline) {
                driver.unlock_later(&self.key, self.taken);
                let seen = "writes that carry its token are still unanswered; it is released as soon as they are answered".into();
                return Err(Error::Deadline { operation: "unlock", after: deadline, seen });
            }
            if self.attached.has_ended() || !Arc::ptr_eq(driver.attached(), &self.attached) {
                return Err(Error::LeaseLapsed);
            }
        }
        let left = deadline.saturating_sub(BootInstant::now().since(started)).max(Duration::from_millis(1));
        let machine = Machine::Lock(Lock::new(LockGoal::GiveBack(self.taken)));
        self.core.run_within(machine, &self.key, left).map(|_| ())
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            tracing::debug!(%error, "a lock could not be released; it ends with the lease at the latest");
        }
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard").field("token", &self.token()).field("is_held", &self.is_held()).finish_non_exhaustive()
    }
}

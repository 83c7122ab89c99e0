//! A lock while it is held.

use crate::attached::Attached;
use crate::cluster::MapSlot;
use crate::error::Error;
use crate::in_flight::Sink;
use crate::op::Taken;
use crate::route::Way;
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

/// A lock that was taken, and what its being held rests on.
pub(crate) struct Held {
    /// The attachment under whose lease it is held.
    pub attached: Arc<Attached>,
    pub taken: Taken,
    /// Its shard, and the reign in which it was taken.
    pub way: Way,
    /// The cluster's map, if the server is in a cluster.
    pub map: Option<Arc<MapSlot>>,
}

impl Held {
    /// Whether nobody else can have it by now for all that is known but the lease.
    pub fn is_ours(&self) -> bool {
        let is_later = |map: &Arc<MapSlot>| map.is_later(self.way.hash.shard(), self.way.reign);
        !self.attached.has_ended() && !self.map.as_ref().is_some_and(is_later)
    }

    /// How long it is surely held without another heartbeat; `None` when it is not.
    pub fn left(&self) -> Option<Duration> {
        let now = BootInstant::now();
        (self.is_ours() && self.attached.lease.valid_at(now)).then(|| self.attached.lease.left(now))
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.taken.fmt(f)
    }
}

/// A lock that this client holds; released when it is dropped.
pub struct LockGuard {
    core: Rc<Core>,
    held: Box<Held>,
    key: Vec<u8>,
    released: bool,
}

impl LockGuard {
    pub(crate) fn new(core: Rc<Core>, key: &[u8], held: Box<Held>) -> Self {
        Self { core, held, key: key.to_vec(), released: false }
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The fencing token: larger than that of every earlier holder.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.held.taken.word.token()
    }

    /// Whether the lock is surely still held, as far as the lease and the cluster's map tell.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.released && self.held.left().is_some()
    }

    /// How long it is surely still held without another heartbeat.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        self.held.left().filter(|_| !self.released).unwrap_or(Duration::ZERO)
    }

    /// Releases it, once every write of this session that carries its token has ended.
    ///
    /// # Errors
    /// [`Error::LeaseLapsed`] when it was lost with the lease or with the server that it was held at, [`Error::Fenced`]
    /// when somebody has broken it, [`Error::Indeterminate`] when the connection broke meanwhile and another holds it by
    /// now: it is not held any more, and whether it was broken before nobody knows.
    pub fn unlock(mut self) -> Result<(), Error> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        let deadline = self.core.deadline();
        let started = BootInstant::now();
        let mut router = self.core.router.borrow_mut();
        if !router.settle_writes_of(self.held.taken.word.token(), deadline) {
            router.unlock_later(&self.held, &self.key);
            let seen = "writes that carry its token are still unanswered; it is released as soon as they are answered".into();
            return Err(Error::Deadline { operation: "unlock", after: deadline, seen });
        }
        let left = deadline.saturating_sub(BootInstant::now().since(started)).max(Duration::from_millis(1));
        let ticket = router.begin_give_back(&self.held, &self.key, left, Sink::Call)?;
        router.run(ticket).map(|_| ())
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

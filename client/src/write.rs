//! How a write is asked for, and how it ended.

use crate::lock_guard::LockGuard;
use sidewire_common::layout::record::Version;
use sidewire_common::layout::request::Condition;
use std::time::Duration;

/// How a conditional write ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// It was carried out; a delete's version is that of the record it removed, or 0.
    Done(Version),
    /// Its condition did not hold; nothing was changed.
    NotDone(Unmet),
}

/// Why a condition did not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// The key holds something, of this version.
    Exists(Version),
    /// The key holds another version: this one.
    Mismatch(Version),
    /// The key holds nothing.
    NotFound,
}

/// What a write asks for beyond key and value.
#[derive(Clone, Debug)]
pub struct WriteOptions<'a> {
    pub(crate) ttl: Option<Duration>,
    pub(crate) condition: Condition,
    pub(crate) fence: Option<(&'a [u8], u64)>,
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> WriteOptions<'a> {
    /// Unconditional, unfenced, for ever.
    #[must_use]
    pub const fn new() -> Self {
        Self { ttl: None, condition: Condition::None, fence: None }
    }

    /// The key goes away by itself after this time (at least a millisecond, at most ten years).
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Only if the key holds nothing.
    #[must_use]
    pub const fn if_absent(mut self) -> Self {
        self.condition = Condition::Absent;
        self
    }

    /// Only if the key's version is this one.
    #[must_use]
    pub const fn if_version(mut self, version: Version) -> Self {
        self.condition = Condition::Version(version);
        self
    }

    /// Refused unless the lock is still held by this guard. The lock must be in the key's shard: give both the
    /// same `{tag}`.
    #[must_use]
    pub fn fence(self, guard: &'a LockGuard) -> Self {
        self.fence_raw(guard.key(), guard.token())
    }

    /// As [`fence`](Self::fence), with the lock's key and token, as they were told to another thread or process. The
    /// server refuses the write once the lock has changed hands; the guard's `unlock` waits only for writes of its own
    /// session.
    #[must_use]
    pub const fn fence_raw(mut self, lock_key: &'a [u8], token: u64) -> Self {
        self.fence = Some((lock_key, token));
        self
    }
}

//! Registered memory regions, ours and the peer's.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Rights on a region. A closed set, so that no flag (least of all relaxed ordering) gets in by accident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// This process's own work requests only.
    Local,
    /// Peers may read: index and heap.
    RemoteRead,
    /// Peers may read and run atomics: cells.
    RemoteReadAtomic,
}

/// A place in a peer's memory. What `addr` counts from is the provider's business; it only grows by bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemoteAddr {
    /// The address.
    pub addr: u64,
    /// The key of the region it lies in.
    pub rkey: u32,
}

impl RemoteAddr {
    /// The place `bytes` further on (wrapping: the peer's bounds decide, not ours).
    #[must_use]
    #[inline]
    pub const fn plus(self, bytes: u64) -> Self {
        Self { addr: self.addr.wrapping_add(bytes), rkey: self.rkey }
    }
}

/// A whole region of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemoteRegion {
    /// Its first byte.
    pub base: RemoteAddr,
    /// Its length, bytes.
    pub bytes: u64,
    /// Whether the peer grants atomics on it (cells), which on `shm` means mapping it writable.
    pub atomic: bool,
}

impl RemoteRegion {
    /// The place of `bytes` bytes at `offset`, if they lie within the region.
    #[must_use]
    #[inline]
    pub const fn at(&self, offset: u64, bytes: u64) -> Option<RemoteAddr> {
        if offset <= self.bytes && bytes <= self.bytes - offset { Some(self.base.plus(offset)) } else { None }
    }
}

/// A registration; it ends when the last clone is dropped, and then no peer can reach the memory any more.
#[derive(Clone)]
pub struct Registered {
    remote: RemoteRegion,
    lkey: u32,
    _registration: Arc<dyn Any + Send + Sync>,
}

impl Registered {
    /// For providers: `registration` ends the registration when it is dropped and keeps the mapping alive.
    #[must_use]
    pub fn new(remote: RemoteRegion, lkey: u32, registration: Arc<dyn Any + Send + Sync>) -> Self {
        Self { remote, lkey, _registration: registration }
    }

    /// What a peer needs to reach it.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        self.remote
    }

    /// The local key.
    #[must_use]
    #[inline]
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Bytes registered.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.remote.bytes).unwrap_or(usize::MAX)
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("remote", &self.remote).field("lkey", &self.lkey).finish()
    }
}

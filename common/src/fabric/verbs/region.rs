//! Registered memory. Access flags are written out here and nowhere else; relaxed ordering is never among them.

use super::context::ProtectionDomain;
use super::failure::{check, failed};
use super::memlock;
use crate::fabric::FabricError;
use crate::memory::Mapping;
use rdma_sys::{ibv_access_flags, ibv_dereg_mr, ibv_mr, ibv_reg_mr};
use std::ffi::{c_int, c_uint};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Rights on a region or through a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rights {
    /// Nothing for peers; the device may write for this process.
    Local,
    /// Peers may read.
    RemoteRead,
    /// Peers may read and run atomics.
    RemoteReadAtomic,
    /// Peers may write.
    RemoteWrite,
}

impl Rights {
    /// Flags of a region with these rights.
    pub(super) fn region_flags(self) -> c_uint {
        let local = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        local | self.queue_pair_flags()
    }

    /// Flags of a queue pair through which peers have these rights.
    pub(super) fn queue_pair_flags(self) -> c_uint {
        match self {
            Self::Local => 0,
            Self::RemoteRead => ibv_access_flags::IBV_ACCESS_REMOTE_READ.0,
            Self::RemoteReadAtomic => ibv_access_flags::IBV_ACCESS_REMOTE_READ.0 | ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0,
            Self::RemoteWrite => ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
        }
    }
}

/// A registration of the first bytes of a mapping. When it is dropped no device can reach them any more.
pub(super) struct MemoryRegion {
    raw: NonNull<ibv_mr>,
    lkey: u32,
    rkey: u32,
    map: Arc<Mapping>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: the pointer is used only to deregister, which libibverbs allows from any thread.
unsafe impl Send for MemoryRegion {}
// SAFETY: `&MemoryRegion` gives out copies of keys, nothing else.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Registers the first `bytes` bytes of `map` in `domain`.
    ///
    /// # Errors
    /// When the limit of locked memory forbids it, or the device refuses.
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        map: &Arc<Mapping>,
        bytes: usize,
        rights: Rights,
    ) -> Result<Self, FabricError> {
        assert!(bytes <= map.len(), "a region lies within its mapping");
        memlock::admit(bytes)?;
        // A closed set of small flags: the conversion cannot fail.
        let flags = c_int::try_from(rights.region_flags()).unwrap_or(0);
        // SAFETY: the domain is alive; `bytes` bytes from the mapping's start are mapped (asserted) and stay so
        // until after the region has been deregistered, since `self.map` is dropped after it.
        let raw = unsafe { ibv_reg_mr(domain.raw(), map.pointer().cast(), bytes, flags) };
        let Some(raw) = NonNull::new(raw) else {
            let error = io::Error::last_os_error();
            return Err(failed(format!("ibv_reg_mr of {bytes} bytes"), error, &memlock::hint()));
        };
        // SAFETY: a successful registration returned it; it is not freed before `dereg`.
        let lkey = unsafe { (*raw.as_ptr()).lkey };
        // SAFETY: as above.
        let rkey = unsafe { (*raw.as_ptr()).rkey };
        Ok(Self { raw, lkey, rkey, map: Arc::clone(map), _domain: Arc::clone(domain) })
    }

    pub(super) fn lkey(&self) -> u32 {
        self.lkey
    }

    pub(super) fn rkey(&self) -> u32 {
        self.rkey
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered by `new`, deregistered only here.
        let code = unsafe { ibv_dereg_mr(self.raw.as_ptr()) };
        if let Err(error) = check(code) {
            // The device can still reach the memory, so it must stay mapped for ever.
            std::mem::forget(Arc::clone(&self.map));
            tracing::error!(bytes = self.map.len(), %error, "a region could not be deregistered; its memory is kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_hold_nothing_but_what_the_right_names() {
        assert_eq!(Rights::Local.region_flags(), 1);
        assert_eq!(Rights::RemoteWrite.region_flags(), 1 | 2);
        assert_eq!(Rights::RemoteRead.region_flags(), 1 | 4);
        assert_eq!(Rights::RemoteReadAtomic.region_flags(), 1 | 4 | 8);
        assert_eq!(Rights::Local.queue_pair_flags(), 0);
        assert_eq!(Rights::RemoteWrite.queue_pair_flags(), 2);
        assert_eq!(Rights::RemoteReadAtomic.queue_pair_flags(), 4 | 8);
    }
}

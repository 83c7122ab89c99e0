//! Small registered memory that belongs to one endpoint: staging, receive buffers, messages, results of atomics.

use super::context::ProtectionDomain;
use super::region::{MemoryRegion, Rights};
use crate::fabric::{FabricError, RemoteAddr, RemoteRegion};
use crate::memory::{Mapping, View};
use rdma_sys::ibv_sge;
use std::sync::Arc;

/// Registered anonymous memory. The registration ends before the memory does.
pub(super) struct Pinned {
    region: MemoryRegion,
    view: View,
}

impl Pinned {
    /// `bytes` bytes with `rights` in `domain`.
    pub(super) fn new(domain: &Arc<ProtectionDomain>, what: &str, bytes: usize, rights: Rights) -> Result<Self, FabricError> {
        let map = Arc::new(Mapping::anonymous(what, bytes)?);
        let region = MemoryRegion::new(domain, &map, bytes, rights)?;
        let view = View::whole(map).part(0..bytes).expect("a mapping is at least as long as was asked");
        Ok(Self { region, view })
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// `bytes` bytes at `offset`, as a work request names them. The caller has checked that they are inside.
    #[inline]
    pub(super) fn segment(&self, offset: usize, bytes: u32) -> ibv_sge {
        debug_assert!(offset + bytes as usize <= self.view.len());
        ibv_sge { addr: self.view.address() + offset as u64, length: bytes, lkey: self.region.lkey() }
    }

    /// What a peer needs to reach it.
    pub(super) fn remote(&self) -> RemoteRegion {
        let base = RemoteAddr { addr: self.view.address(), rkey: self.region.rkey() };
        RemoteRegion { base, bytes: self.view.len() as u64, atomic: false }
    }
}

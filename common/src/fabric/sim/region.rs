//! Registered memory, as the NIC sees it.

use super::state::with;
use crate::fabric::{Access, FabricError, Registered, RemoteAddr, RemoteRegion};
use crate::memory::{Mapping, View};
use std::sync::Arc;

/// Address bits of one region.
const ADDRESS_BITS: u32 = 36;
const WORD: usize = size_of::<u64>();

/// A registered region.
pub(super) struct Region {
    pub(super) process: u32,
    pub(super) access: Access,
    /// What the CPU sees.
    view: View,
    /// What the NIC sees; nothing for regions that no peer reads.
    image: Option<View>,
}

impl Region {
    pub(super) fn bytes(&self) -> usize {
        self.view.len()
    }

    /// A store becomes visible.
    pub(super) fn show(&self, at: usize, bytes: &[u8]) {
        if let Some(image) = &self.image {
            // What the CPU could store lies within.
            let _ = image.land(at, bytes);
        }
    }

    /// Some bytes as the NIC sees them.
    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        if let Some(image) = &self.image {
            // The range was checked when the request arrived.
            let _ = image.copy_out(at, into);
        }
    }

    /// The NIC writes: the CPU sees it at once.
    pub(super) fn land(&self, at: usize, bytes: &[u8]) {
        // The range was checked when the request arrived.
        let _ = self.view.land(at, bytes);
    }

    /// The NIC changes a word, and tells what it was.
    pub(super) fn atomic(&self, at: usize, change: impl FnOnce(u64) -> u64) -> u64 {
        let mut word = [0; WORD];
        self.read(at, &mut word);
        let old = u64::from_le_bytes(word);
        let new = change(old).to_le_bytes();
        self.show(at, &new);
        self.land(at, &new);
        old
    }
}

/// Where in a region an address points, if all of it lies within.
pub(super) fn place(region: &Region, key: u32, at: RemoteAddr, bytes: usize) -> Option<usize> {
    let offset = usize::try_from(at.addr.checked_sub(base(key))?).ok()?;
    (offset <= region.bytes() && bytes <= region.bytes() - offset).then_some(offset)
}

fn base(key: u32) -> u64 {
    u64::from(key) << ADDRESS_BITS
}

struct Registration(u32);

impl Drop for Registration {
    fn drop(&mut self) {
        let region = with(|state| state.deregister(self.0));
        drop(region);
    }
}

impl super::state::State {
    /// Adds a region; its number is its key.
    pub(super) fn add_region(&mut self, process: u32, map: &Arc<Mapping>, access: Access, image: Option<View>) -> u32 {
        let key = self.next_region;
        self.next_region += 1;
        let view = View::whole(Arc::clone(map));
        if image.is_some() {
            map.watch(key);
        }
        self.regions.insert(key, Region { process, access, view, image });
        key
    }

    /// Adds a ring that peers write and nobody reads from afar.
    pub(super) fn add_ring(&mut self, process: u32, map: &Arc<Mapping>) -> u32 {
        let key = self.next_region;
        self.next_region += 1;
        let region = Region { process, access: Access::RemoteRead, view: View::whole(Arc::clone(map)), image: None };
        self.regions.insert(key, region);
        key
    }

    fn deregister(&mut self, key: u32) -> Option<Region> {
        let region = self.regions.get(&key)?;
        if region.access == Access::Local {
            self.forget_buffers(key);
        } else if self.processes[region.process as usize].dead {
            // It answers until the process is reaped.
            return None;
        }
        self.regions.remove(&key)
    }
}

/// Registers for a process.
pub(super) fn register(process: u32, map: &Arc<Mapping>, access: Access) -> Result<Registered, FabricError> {
    let image = match access {
        Access::Local => None,
        // A mapping, since fresh pages of one need no clearing.
        _ => Some(View::whole(Arc::new(Mapping::anonymous("simulated image", map.len())?))),
    };
    let key = with(|state| state.add_region(process, map, access, image)).unwrap_or(0);
    let remote = described(key, map.len(), access);
    Ok(Registered::new(remote, key, Arc::new(Registration(key))))
}

/// How peers know a region.
pub(super) fn described(key: u32, bytes: usize, access: Access) -> RemoteRegion {
    RemoteRegion {
        base: RemoteAddr { addr: base(key), rkey: key },
        bytes: bytes as u64,
        atomic: access == Access::RemoteReadAtomic,
    }
}

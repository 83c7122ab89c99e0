//! Real verbs: libibverbs, reliable-connected queue pairs. The only importer of `rdma-sys`.
//!
//! ```text
//!   set-up     device device_list gid      which device, port and GID
//!              context                     what is open; protection domains
//!              region memlock pinned       registered memory
//!              open connect transitions    what a role is made of; the path to a peer; queue pair states
//!   datapath   port endpoint               posting and completing, credits, order
//!              post receive                work requests and receives
//!              queue_pair completion_queue the calls themselves
//!   aside      events                      what the device says by itself
//!              slots recent failure        ids, what the log tells, errors of calls
//! ```
//!
//! Ownership gives the order of teardown: queue pair, completion queue, regions, domain, device.
#![allow(unsafe_code, reason = "a fabric provider; every block carries its proof")]

mod completion_queue;
mod connect;
mod context;
mod device;
mod device_list;
mod endpoint;
mod events;
mod failure;
mod gid;
#[cfg(test)]
mod lab_tests;
mod memlock;
mod open;
mod pinned;
mod port;
mod post;
mod queue_pair;
mod receive;
mod recent;
mod region;
mod slots;
mod transitions;

use super::gid_table;
use super::selection::{Candidate, Wanted};
use super::{
    Access, AtomicExecutor, Fabric, FabricError, FabricInfo, FabricKind, PeerInfo, Port, PortSpec, Registered, RemoteAddr,
    RemoteRegion, Surveyed,
};
use crate::id::ClientId;
use crate::memory::Mapping;
use completion_queue::CompletionQueue;
use device::Hardware;
use device_list::DeviceList;
use port::VerbsPort;
use queue_pair::{QueuePair, Shape};
use region::{MemoryRegion, Rights};
use std::sync::Arc;

/// An opened device.
pub struct Device {
    hardware: Arc<Hardware>,
    info: FabricInfo,
}

impl Device {
    /// Opens the first device that is what is wanted.
    ///
    /// # Errors
    /// When there is none that would do.
    pub fn open(wanted: Wanted<'_>) -> Result<Self, FabricError> {
        let hardware = Arc::new(Hardware::find(wanted)?);
        let info = FabricInfo {
            kind: FabricKind::Verbs,
            device: hardware.context.name().to_owned(),
            port: hardware.port,
            gid: gid_table::text(&hardware.gid),
            gid_index: hardware.gid_now()?.index,
            link_layer: if hardware.ethernet { "Ethernet" } else { "InfiniBand" }.into(),
            mtu_bytes: hardware.mtu_bytes,
            atomics: AtomicExecutor::Nic,
            read_depth: u32::from(hardware.initiator_depth.min(hardware.responder_depth)),
            inline_bytes: granted_inline(&hardware)?,
        };
        Ok(Self { hardware, info })
    }
}

/// Every device of this host, opened for a look.
///
/// # Errors
/// When the kernel has no RDMA support, or does not tell.
pub fn survey() -> Result<Vec<Surveyed>, FabricError> {
    let look = |device: device_list::Listed<'_>| Surveyed {
        is_iwarp: device.is_iwarp(),
        // An iWARP device is never used, so nobody needs its tables.
        table: if device.is_iwarp() { Err("iWARP".into()) } else { device.open().map(|(_, table)| table) },
        name: device.name,
    };
    Ok(DeviceList::read()?.devices().map(look).collect())
}

/// What the device grants a queue pair that asks for inline data; shows as well that one can be made.
fn granted_inline(hardware: &Hardware) -> Result<u32, FabricError> {
    let queue = CompletionQueue::new(&hardware.context, 1)?;
    let shape = Shape { send_depth: 1, recv_depth: 0, inline: true, rights: Rights::Local, port: hardware.port };
    Ok(QueuePair::new(&hardware.tenant, queue.queue(), &shape)?.inline_bytes())
}

impl Fabric for Device {
    fn info(&self) -> &FabricInfo {
        &self.info
    }

    fn register(&self, map: &Arc<Mapping>, access: Access) -> Result<Registered, FabricError> {
        let rights = match access {
            Access::Local => Rights::Local,
            Access::RemoteRead => Rights::RemoteRead,
            Access::RemoteReadAtomic => Rights::RemoteReadAtomic,
        };
        let region = MemoryRegion::new(&self.hardware.tenant, map, map.len(), rights)?;
        let base = RemoteAddr { addr: map.address(), rkey: region.rkey() };
        let remote = RemoteRegion { base, bytes: map.len() as u64, atomic: access == Access::RemoteReadAtomic };
        Ok(Registered::new(remote, region.lkey(), Arc::new(region)))
    }

    fn port(&self, spec: PortSpec) -> Result<Box<dyn Port>, FabricError> {
        Ok(Box::new(VerbsPort::new(&self.hardware, spec)?))
    }

    fn admit(&self, _: ClientId) -> Result<PeerInfo, FabricError> {
        Ok(PeerInfo::Unneeded)
    }

    fn dismiss(&self, _: ClientId) {}

    fn departed(&self) -> Vec<ClientId> {
        Vec::new()
    }

    fn link(&self, invitation: &PeerInfo) -> Result<(), FabricError> {
        match invitation {
            PeerInfo::Unneeded => Ok(()),
            other => Err(FabricError::Peer {
                field: "invitation",
                value: format!("{other:?}"),
                expected: "none: the peer's fabric is not verbs".into(),
            }),
        }
    }

    fn link_alive(&self) -> bool {
        true
    }

    fn adopt(&self, _: &[RemoteRegion]) -> Result<(), FabricError> {
        Ok(())
    }
}

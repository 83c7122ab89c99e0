//! The provider as a process sees it.

use super::port::SimPort;
use super::region::register;
use super::state::with;
use crate::fabric::{
    Access, AtomicExecutor, Fabric, FabricError, FabricInfo, FabricKind, PeerInfo, Port, PortSpec, Registered, RemoteRegion,
};
use crate::id::ClientId;
use crate::limits::READ_DEPTH;
use crate::memory::Mapping;
use std::sync::Arc;

/// The device of one process.
pub(super) struct SimFabric {
    process: u32,
    info: FabricInfo,
}

impl SimFabric {
    pub(super) fn new(process: u32) -> Self {
        let info = FabricInfo {
            // It behaves as verbs do, and code that asks shall take the same ways.
            kind: FabricKind::Verbs,
            device: "sim0".into(),
            port: 1,
            gid: "::ffff:10.0.0.1".into(),
            gid_index: 0,
            link_layer: "Ethernet".into(),
            mtu_bytes: 1024,
            atomics: AtomicExecutor::Nic,
            read_depth: READ_DEPTH,
            inline_bytes: 0,
        };
        Self { process, info }
    }
}

/// The device of the process whose thread calls, if it lives in a world.
pub(crate) fn here() -> Option<Arc<dyn Fabric>> {
    let (process, _) = with(|state| state.current_process())??;
    Some(Arc::new(SimFabric::new(process)))
}

impl Fabric for SimFabric {
    fn info(&self) -> &FabricInfo {
        &self.info
    }

    fn register(&self, map: &Arc<Mapping>, access: Access) -> Result<Registered, FabricError> {
        register(self.process, map, access)
    }

    fn port(&self, _: PortSpec) -> Result<Box<dyn Port>, FabricError> {
        Ok(Box::new(SimPort::new(self.process)?))
    }

    fn admit(&self, _: ClientId) -> Result<PeerInfo, FabricError> {
        Ok(PeerInfo::Unneeded)
    }

    fn dismiss(&self, _: ClientId) {}

    fn departed(&self) -> Vec<ClientId> {
        Vec::new()
    }

    fn link(&self, _: &PeerInfo) -> Result<(), FabricError> {
        Ok(())
    }

    fn link_alive(&self) -> bool {
        true
    }

    fn adopt(&self, _: &[RemoteRegion]) -> Result<(), FabricError> {
        Ok(())
    }
}

//! The fabric of one host: memfds handed over a Unix socket, rings, eventfds.
#![allow(unsafe_code, reason = "a fabric provider; every block carries its proof")]

use super::{Access, Fabric, FabricError, FabricInfo, FabricKind, PeerInfo, Port, PortSpec, Registered, RemoteRegion};
use crate::id::ClientId;
use crate::memory::Mapping;
use std::sync::Arc;

/// The server's side.
pub struct Host {}
impl Host {
    /// Starts it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start() -> Result<Self, FabricError> {
        Err(FabricError::Unsupported { kind: FabricKind::Shm, what: "anything yet".into() })
    }
}
/// The client's side.
#[derive(Default)]
pub struct Guest {}
impl Guest {
    /// A guest of nobody yet.
    #[must_use]
    pub fn new() -> Self {
        Self {}
    }
}
macro_rules! absent {
    ($name:ty) => {
        impl Fabric for $name {
            fn info(&self) -> &FabricInfo {
                unreachable!()
            }
            fn register(&self, _: &Arc<Mapping>, _: Access) -> Result<Registered, FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Shm, what: "anything yet".into() })
            }
            fn port(&self, _: PortSpec) -> Result<Box<dyn Port>, FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Shm, what: "anything yet".into() })
            }
            fn admit(&self, _: ClientId) -> Result<PeerInfo, FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Shm, what: "anything yet".into() })
            }
            fn dismiss(&self, _: ClientId) {}
            fn departed(&self) -> Vec<ClientId> {
                Vec::new()
            }
            fn link(&self, _: &PeerInfo) -> Result<(), FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Shm, what: "anything yet".into() })
            }
            fn link_alive(&self) -> bool {
                false
            }
            fn adopt(&self, _: &[RemoteRegion]) -> Result<(), FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Shm, what: "anything yet".into() })
            }
        }
    };
}
absent!(Host);
absent!(Guest);

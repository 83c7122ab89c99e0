//! Real verbs: libibverbs, reliable connected queue pairs.
#![allow(unsafe_code, reason = "a fabric provider; every block carries its proof")]

use super::{Access, Fabric, FabricError, FabricInfo, FabricKind, PeerInfo, Port, PortSpec, Registered, RemoteRegion};
use crate::id::ClientId;
use crate::memory::Mapping;
use std::sync::Arc;

/// An opened device.
pub struct Device {}
impl Device {
    /// Opens `name`, or the device whose GID table carries `address`, or the first one with an active port.
    ///
    /// # Errors
    /// When there is none that would do.
    pub fn open(_name: Option<&str>, _address: Option<std::net::IpAddr>) -> Result<Self, FabricError> {
        Err(FabricError::NoDevice { reason: "not built yet".into() })
    }
}
macro_rules! absent {
    ($name:ty) => {
        impl Fabric for $name {
            fn info(&self) -> &FabricInfo {
                unreachable!()
            }
            fn register(&self, _: &Arc<Mapping>, _: Access) -> Result<Registered, FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Verbs, what: "anything yet".into() })
            }
            fn port(&self, _: PortSpec) -> Result<Box<dyn Port>, FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Verbs, what: "anything yet".into() })
            }
            fn admit(&self, _: ClientId) -> Result<PeerInfo, FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Verbs, what: "anything yet".into() })
            }
            fn dismiss(&self, _: ClientId) {}
            fn departed(&self) -> Vec<ClientId> {
                Vec::new()
            }
            fn link(&self, _: &PeerInfo) -> Result<(), FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Verbs, what: "anything yet".into() })
            }
            fn link_alive(&self) -> bool {
                false
            }
            fn adopt(&self, _: &[RemoteRegion]) -> Result<(), FabricError> {
                Err(FabricError::Unsupported { kind: FabricKind::Verbs, what: "anything yet".into() })
            }
        }
    };
}
absent!(Device);

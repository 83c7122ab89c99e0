//! Which provider is used, and why.

use super::selection::{Candidate, DeviceTable, Wanted};
#[cfg(feature = "verbs")]
use super::verbs;
use super::{Fabric, FabricError, FabricKind, shm};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// What the operator asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FabricChoice {
    /// `verbs` where a device carries the listen address, else `shm`.
    #[default]
    Auto,
    /// `verbs`, or fail.
    Verbs,
    /// `shm`.
    Shm,
}

impl FromStr for FabricChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "verbs" => Ok(Self::Verbs),
            "shm" => Ok(Self::Shm),
            other => Err(format!("unknown fabric `{other}`; known are auto, verbs and shm")),
        }
    }
}

/// A chosen fabric and the reason to tell.
pub struct Choice {
    /// The fabric.
    pub fabric: Arc<dyn Fabric>,
    /// Why this one, in a sentence.
    pub reason: String,
}

/// Opens the fabric of a server that listens on `address`. `device` names an RDMA device to use; without it
/// the one whose GID table carries `address` is taken.
///
/// # Errors
/// When the choice is explicit and cannot be had; `auto` falls back to `shm` and says why.
pub fn open_server(choice: FabricChoice, device: Option<&str>, address: IpAddr) -> Result<Choice, FabricError> {
    match choice {
        FabricChoice::Shm => shm_server("asked for with --fabric shm".into()),
        FabricChoice::Verbs => {
            let fabric = verbs_device(Wanted { device, address: Some(address), address_may_differ: false })?;
            let reason = format!("asked for with --fabric verbs; device {}", fabric.info().device);
            Ok(Choice { fabric, reason })
        }
        FabricChoice::Auto => match verbs_device(Wanted { device, address: Some(address), address_may_differ: false }) {
            Ok(fabric) => {
                let reason = format!("device {} carries {address}", fabric.info().device);
                Ok(Choice { fabric, reason })
            }
            Err(error) => shm_server(format!("no verbs here: {error}")),
        },
    }
}

/// Opens the client's side of the fabric that a server runs. `local` is this end's address towards the server; a device
/// that is named may carry another one.
///
/// # Errors
/// When this host has no device for it.
pub fn open_client(kind: FabricKind, device: Option<&str>, local: Option<IpAddr>) -> Result<Arc<dyn Fabric>, FabricError> {
    #[cfg(feature = "sim")]
    if let Some(simulated) = super::sim::here() {
        return Ok(simulated);
    }
    match kind {
        FabricKind::Shm => Ok(Arc::new(shm::Guest::new())),
        FabricKind::Verbs => verbs_device(Wanted { device, address: local, address_may_differ: true }),
    }
}

/// A device of this host, as a look at it found it.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Its name.
    pub name: String,
    /// Whether its transport is iWARP.
    pub is_iwarp: bool,
    /// What it says of itself, or why it cannot be opened.
    pub table: Result<DeviceTable, String>,
}

impl Candidate for &Surveyed {
    type Opened = ();

    fn name(&self) -> &str {
        &self.name
    }

    fn is_iwarp(&self) -> bool {
        self.is_iwarp
    }

    fn open(&self) -> Result<((), DeviceTable), String> {
        self.table.clone().map(|table| ((), table))
    }
}

/// Every RDMA device of this host, in the order in which one is chosen.
///
/// # Errors
/// When the kernel has no RDMA support, or this build has no verbs.
#[cfg(feature = "verbs")]
pub fn survey() -> Result<Vec<Surveyed>, FabricError> {
    verbs::survey()
}

/// Every RDMA device of this host: this build cannot tell.
///
/// # Errors
/// Always.
#[cfg(not(feature = "verbs"))]
pub fn survey() -> Result<Vec<Surveyed>, FabricError> {
    Err(no_verbs())
}

#[cfg(not(feature = "verbs"))]
fn no_verbs() -> FabricError {
    FabricError::Unsupported { kind: FabricKind::Verbs, what: "anything: this build has no verbs".into() }
}

fn shm_server(reason: String) -> Result<Choice, FabricError> {
    Ok(Choice { fabric: Arc::new(shm::Host::start()?), reason })
}

#[cfg(feature = "verbs")]
fn verbs_device(wanted: Wanted<'_>) -> Result<Arc<dyn Fabric>, FabricError> {
    Ok(Arc::new(verbs::Device::open(wanted)?))
}

#[cfg(not(feature = "verbs"))]
fn verbs_device(_: Wanted<'_>) -> Result<Arc<dyn Fabric>, FabricError> {
    Err(no_verbs())
}

//! What a fabric is and can do, as `kvctl info` shows it.

use std::fmt;
use std::str::FromStr;

/// The providers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FabricKind {
    /// libibverbs, reliable connected.
    Verbs,
    /// Shared memory on one host.
    Shm,
}

impl fmt::Display for FabricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verbs => "verbs",
            Self::Shm => "shm",
        })
    }
}

impl FromStr for FabricKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "verbs" => Ok(Self::Verbs),
            "shm" => Ok(Self::Shm),
            other => Err(format!("unknown fabric `{other}`; known are verbs and shm")),
        }
    }
}

/// Who executes atomics on cells. Exactly one per server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicExecutor {
    /// The server's NIC; the server's own changes go through its loopback queue pair.
    Nic,
    /// The CPU, by whoever issues the operation.
    Cpu,
}

impl fmt::Display for AtomicExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nic => "nic",
            Self::Cpu => "cpu",
        })
    }
}

/// A fabric's description. Text fields are empty where they mean nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FabricInfo {
    /// The provider.
    pub kind: FabricKind,
    /// Device name, such as `rxe0`.
    pub device: String,
    /// Port of the device, counted from 1.
    pub port: u8,
    /// The GID in use, in its usual notation.
    pub gid: String,
    /// Index of that GID in the port's table, looked up again at every connect.
    pub gid_index: u32,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// Active path MTU, bytes.
    pub mtu_bytes: u32,
    /// Who executes atomics.
    pub atomics: AtomicExecutor,
    /// Reads and atomics in flight that one endpoint can have.
    pub read_depth: u32,
    /// Inline bytes that a post may carry.
    pub inline_bytes: u32,
}

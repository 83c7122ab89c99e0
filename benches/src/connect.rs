//! Attaching to the server, and what can end a command early.

use sidewire::{Client, Error};

use crate::cli::Common;
use crate::drive::CrewError;

/// Why a command ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The flags do not fit each other, the workload or the server.
    #[error("{0}")]
    Usage(String),
    /// The server or the fabric.
    #[error("{0}")]
    Failed(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<CrewError> for Stop {
    fn from(error: CrewError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Attaches to the server of the common flags; `location_cache` is a count of entries.
pub fn attach(common: &Common, location_cache: Option<u64>) -> Result<Client, Stop> {
    attach_to(&common.server, common, location_cache)
}

/// Attaches to this server.
pub fn attach_to(server: &str, common: &Common, location_cache: Option<u64>) -> Result<Client, Stop> {
    let mut builder = Client::builder()
        .server(server)
        .fabric(common.fabric.0)
        .deadline(common.deadline)
        .pack_writes(common.pack)
        .program(concat!("kv-bench ", env!("CARGO_PKG_VERSION")));
    if let Some(device) = &common.device {
        builder = builder.device(device);
    }
    if let Some(spin) = common.spin {
        builder = builder.spin(spin);
    }
    if let Some(entries) = location_cache {
        let entries = usize::try_from(entries).map_err(|_| Stop::Usage("--location-cache is too large".into()))?;
        builder = builder.location_cache_entries(entries);
    }
    Ok(builder.connect()?)
}

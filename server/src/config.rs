//! What the operator decided: flags win over the file, the file over the defaults; every value is checked.

mod cluster;
mod given;
mod machine;
mod print;
mod value;

pub use cluster::{ClusterConfig, MapSource};
pub use given::{CommandLine, Given};
pub use machine::Machine;

use crate::store::{CHUNK_BYTES_MIN, Settings};
use crate::value_limits::ValueLimits;
use crate::worker::Pinning;
use sidewire_common::fabric::FabricChoice;
use sidewire_common::limits::{
    CHUNK_BYTES_MAX, CHUNKS_MAX, CLIENTS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, STAGING_BYTES_MAX, STAGING_BYTES_MIN, VALUE_BYTES_MAX,
    WORKERS_MAX,
};
use sidewire_common::memory::HugepageMode;
use sidewire_common::units::format_bytes;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use value::Said;

/// Smallest memory: two of the smallest chunks, one for the index and one for records.
const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// Chunks are whole hugepages.
const CHUNK_STEP_BYTES: u64 = 2 << 20;
/// Staging rings are whole pages.
const PAGE_BYTES: u64 = 4096;
/// Most cells: their region stays below 4 GiB.
const CELLS_MAX: u32 = 1 << 26;
/// Longest time that an idle worker may spin: more would burn a core for nothing.
const SPIN_MAX: Duration = Duration::from_secs(1);
/// Most workers that are started without being asked for.
const WORKERS_AUTO_MAX: u32 = 16;
const _: () = assert!(MEMORY_BYTES_MIN >= 2 * CHUNK_BYTES_MIN && WORKERS_AUTO_MAX <= WORKERS_MAX);

/// Why the configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("configuration file {}: {reason}", path.display())]
    Parse {
        /// Which.
        path: PathBuf,
        /// Where and what, over several lines.
        reason: String,
    },
    /// A value cannot be accepted.
    #[error("{field} is `{value}` ({origin}): {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value, as it was written.
        value: String,
        /// Where it comes from.
        origin: String,
        /// What it must be.
        expected: String,
    },
}

/// How logs look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

/// The checked configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Address of the control plane; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Data fabric.
    pub fabric: FabricChoice,
    /// RDMA device; `None` = the one that carries the listen address.
    pub device: Option<String>,
    /// Bytes of index and records together.
    pub memory_bytes: u64,
    /// Bytes of a chunk; `None` = the store's choice.
    pub chunk_bytes: Option<u64>,
    /// Worker threads; `None` = half of the cores.
    pub workers: Option<u32>,
    /// Lease of a client.
    pub lease: Duration,
    /// Hugepages.
    pub hugepages: HugepageMode,
    /// Cells.
    pub cells: u32,
    /// Bytes of the longest value; `None` = 64 MiB, or what a chunk holds.
    pub value_max: Option<u64>,
    /// Bytes of a staging ring.
    pub staging_bytes: u64,
    /// Bytes of all staging rings together; `None` = a quarter of the machine's memory.
    pub staging_total_bytes: Option<u64>,
    /// Clients at a time.
    pub clients_max: u32,
    /// How long an idle worker spins.
    pub spin: Duration,
    /// Where workers run.
    pub pin: Pinning,
    /// The cluster that the server belongs to.
    pub cluster: ClusterConfig,
    /// What is logged.
    pub log: String,
    /// How.
    pub log_format: LogFormat,
}

impl Config {
    /// Reads the file, if one is named, and checks everything.
    ///
    /// # Errors
    /// At the first value that cannot be accepted.
    pub fn load(flags: &Given, file: Option<&Path>, machine: &Machine) -> Result<Self, ConfigError> {
        let (file, name) = match file {
            Some(path) => (Given::read(path)?, path.display().to_string()),
            None => (Given::default(), String::new()),
        };
        Self::check(flags, &file, &name, machine)
    }

    /// Flags over file over defaults, every value checked against its limits and `machine`.
    ///
    /// # Errors
    /// At the first value that cannot be accepted.
    pub fn check(flags: &Given, file: &Given, file_name: &str, machine: &Machine) -> Result<Self, ConfigError> {
        let said = |field| Said::pick(field, flags, file, file_name);
        let memory_bytes = check_memory(&said("memory"), machine)?;
        let workers = said("workers").or_auto(|s| s.count(1, WORKERS_MAX))?;
        let fabric = said("fabric").parsed::<FabricChoice>()?;
        let device = said("device");
        if fabric == FabricChoice::Shm && !device.text.is_empty() {
            return Err(device.refuse("an RDMA device has no meaning with fabric shm"));
        }
        let staging_bytes = check_staging(&said("staging"))?;
        let staging_total = said("staging_total");
        let staging_total_bytes = staging_total.or_auto(|s| s.bytes(staging_bytes, machine.memory_bytes.max(staging_bytes)))?;
        let clients_max = said("clients_max").count(1, CLIENTS_MAX)?;
        let (shortest, longest) = (Duration::from_millis(LEASE_MS_MIN), Duration::from_millis(LEASE_MS_MAX));
        Ok(Self {
            listen: said("listen").address()?,
            fabric,
            device: Some(device.text).filter(|name| !name.is_empty()),
            memory_bytes,
            chunk_bytes: check_chunk(&said("chunk"), memory_bytes)?,
            workers,
            lease: said("lease").duration(shortest, longest)?,
            hugepages: check_hugepages(&said("hugepages"))?,
            cells: said("cells").count(1, CELLS_MAX)?,
            value_max: check_value_max(&said("value_max"), memory_bytes)?,
            staging_bytes,
            staging_total_bytes,
            clients_max,
            spin: said("spin").duration(Duration::ZERO, SPIN_MAX)?,
            pin: check_pin(&said("pin"), machine)?,
            cluster: ClusterConfig::check(said)?,
            log: said("log").log_filter()?,
            log_format: check_log_format(&said("log_format"))?,
        })
    }

    /// Workers to start on `machine`.
    #[must_use]
    pub fn worker_count(&self, machine: &Machine) -> u32 {
        self.workers.unwrap_or((machine.cores / 2).clamp(1, WORKERS_AUTO_MAX))
    }

    /// Bytes that all staging rings together may take on `machine`.
    #[must_use]
    pub fn staging_total(&self, machine: &Machine) -> u64 {
        self.staging_total_bytes.unwrap_or((machine.memory_bytes / 4).max(self.staging_bytes))
    }

    /// What the store needs to know.
    #[must_use]
    pub fn settings(&self, machine: &Machine) -> Settings {
        Settings {
            memory_bytes: self.memory_bytes,
            chunk_bytes: self.chunk_bytes,
            values: ValueLimits { longest: self.value_max, in_one_request: None },
            staging_bytes: self.staging_bytes as usize,
            worker_count: self.worker_count(machine),
            hugepages: self.hugepages,
            cell_count: self.cells,
            lease: self.lease,
            spin: self.spin,
            pin: self.pin.clone(),
            clients_max: self.clients_max,
            hash_seed: None,
        }
    }
}

fn check_memory(said: &Said, machine: &Machine) -> Result<u64, ConfigError> {
    let bytes = said.bytes(MEMORY_BYTES_MIN, u64::MAX)?;
    if bytes > machine.memory_bytes {
        return Err(said.refuse(format!("this machine has {}", format_bytes(machine.memory_bytes))));
    }
    Ok(bytes)
}

fn check_chunk(said: &Said, memory_bytes: u64) -> Result<Option<u64>, ConfigError> {
    let Some(bytes) = said.or_auto(|s| s.bytes(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX))? else { return Ok(None) };
    if !bytes.is_multiple_of(CHUNK_STEP_BYTES) {
        return Err(said.refuse("must be a multiple of 2 MiB"));
    }
    if bytes > memory_bytes / 2 {
        return Err(said.refuse(format!("must be at most half of the memory of {}", format_bytes(memory_bytes))));
    }
    if memory_bytes / bytes > u64::from(CHUNKS_MAX) {
        return Err(said.refuse(format!("would make more than {CHUNKS_MAX} chunks of {}", format_bytes(memory_bytes))));
    }
    Ok(Some(bytes))
}

fn check_staging(said: &Said) -> Result<u64, ConfigError> {
    let bytes = said.bytes(STAGING_BYTES_MIN as u64, STAGING_BYTES_MAX as u64)?;
    if bytes.is_multiple_of(PAGE_BYTES) { Ok(bytes) } else { Err(said.refuse("must be a multiple of 4 KiB")) }
}

fn check_value_max(said: &Said, memory_bytes: u64) -> Result<Option<u64>, ConfigError> {
    let Some(bytes) = said.or_auto(|s| s.bytes(1, VALUE_BYTES_MAX as u64))? else { return Ok(None) };
    // A record lies in one chunk, and the smallest memory is a chunk of index and one of records.
    if bytes > memory_bytes / 2 - CHUNK_STEP_BYTES {
        return Err(said.refuse(format!("a value must fit half of the memory of {}", format_bytes(memory_bytes))));
    }
    Ok(Some(bytes))
}

fn check_hugepages(said: &Said) -> Result<HugepageMode, ConfigError> {
    said.one_of(&[("auto", HugepageMode::Auto), ("require", HugepageMode::Require), ("off", HugepageMode::Off)])
}

fn check_log_format(said: &Said) -> Result<LogFormat, ConfigError> {
    said.one_of(&[("text", LogFormat::Text), ("json", LogFormat::Json)])
}

fn check_pin(said: &Said, machine: &Machine) -> Result<Pinning, ConfigError> {
    let pin = said.parsed::<Pinning>()?;
    if let Pinning::Cores(cores) = &pin
        && let Some(core) = cores.iter().find(|&&core| core >= machine.cores)
    {
        return Err(said.refuse(format!("there is no core {core}; this machine has cores 0 to {}", machine.cores - 1)));
    }
    Ok(pin)
}

#[cfg(test)]
mod tests;

//! Which device, port and GID a host uses, decided from tables alone: the verbs provider opens what is chosen here,
//! and `kvctl doctor` shows it.

use super::gid_table::{self, GidEntry};
use std::fmt;
use std::net::IpAddr;

/// What was asked for.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wanted<'a> {
    /// A device by name.
    pub device: Option<&'a str>,
    /// The address that the GID must carry.
    pub address: Option<IpAddr>,
    /// Whether a device that was named may do without the address: a client's control plane may take another way than
    /// its data.
    pub address_may_differ: bool,
}

/// What an opened device says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceTable {
    /// Whether it has atomics at all.
    pub atomics: bool,
    /// Reads and atomics that this end may have in flight.
    pub initiator_depth: u32,
    /// Reads and atomics that peers may have in flight here.
    pub responder_depth: u32,
    /// Its ports.
    pub ports: Vec<PortTable>,
}

/// What a port is like now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortTable {
    /// Its number, from 1.
    pub number: u8,
    /// Whether it carries traffic.
    pub active: bool,
    /// Ethernet, else InfiniBand.
    pub ethernet: bool,
    /// Active path MTU, bytes.
    pub mtu_bytes: u32,
    /// Entries of the GID table that are in use; of a port that is not active possibly none.
    pub gids: Vec<GidEntry>,
}

/// A device of this host, before and after it is opened.
pub trait Candidate {
    /// What opening it gives besides its tables.
    type Opened;
    /// Its name, such as `rxe0`.
    fn name(&self) -> &str;
    /// Whether its transport is iWARP.
    fn is_iwarp(&self) -> bool;
    /// Opens it.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn open(&self) -> Result<(Self::Opened, DeviceTable), String>;
}

/// The device to use.
#[derive(Debug)]
pub struct Chosen<O> {
    /// Its name.
    pub device: String,
    /// What opening it gave.
    pub opened: O,
    /// What it says of itself.
    pub table: DeviceTable,
    /// The port to use, by its place in the table.
    pub port_index: usize,
    /// The GID to use; none on an InfiniBand port without a table.
    pub gid: Option<GidEntry>,
    /// Devices that were looked at before it.
    pub passed_over: Vec<Refused>,
}

impl<O> Chosen<O> {
    /// The port to use.
    pub fn port(&self) -> &PortTable {
        &self.table.ports[self.port_index]
    }
}

/// A device that will not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its name.
    pub device: String,
    /// Why not.
    pub reason: Refusal,
}

/// Why a device will not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Another one was named.
    NotNamed,
    /// It is iWARP.
    Iwarp,
    /// It cannot be opened.
    Closed(String),
    /// It has no atomics.
    NoAtomics,
    /// None of its ports will do.
    NoPort(Vec<(u8, PortRefusal)>),
}

/// Why a port will not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortRefusal {
    /// It carries no traffic.
    NotActive,
    /// Its GID table lacks the address; what it carries instead.
    Elsewhere {
        /// The address.
        address: IpAddr,
        /// What the table carries.
        carries: Vec<GidEntry>,
    },
    /// Its GID table is empty.
    NoGid,
}

/// The first of `candidates` that fits.
///
/// # Errors
/// Why each of them does not.
pub fn choose<C: Candidate>(
    candidates: impl IntoIterator<Item = C>,
    wanted: Wanted<'_>,
) -> Result<Chosen<C::Opened>, Vec<Refused>> {
    let mut passed_over = Vec::new();
    for candidate in candidates {
        match consider(&candidate, wanted) {
            Ok((opened, table, port_index, gid)) => {
                let device = candidate.name().to_owned();
                return Ok(Chosen { device, opened, table, port_index, gid, passed_over });
            }
            Err(reason) => passed_over.push(Refused { device: candidate.name().to_owned(), reason }),
        }
    }
    Err(passed_over)
}

type Fit<O> = (O, DeviceTable, usize, Option<GidEntry>);

fn consider<C: Candidate>(candidate: &C, wanted: Wanted<'_>) -> Result<Fit<C::Opened>, Refusal> {
    if wanted.device.is_some_and(|name| name != candidate.name()) {
        return Err(Refusal::NotNamed);
    }
    if candidate.is_iwarp() {
        return Err(Refusal::Iwarp);
    }
    let (opened, table) = candidate.open().map_err(Refusal::Closed)?;
    if !table.atomics {
        return Err(Refusal::NoAtomics);
    }
    let mut refused = Vec::new();
    for (index, port) in table.ports.iter().enumerate() {
        match gid_of(port, wanted) {
            Ok(gid) => return Ok((opened, table, index, gid)),
            Err(reason) => refused.push((port.number, reason)),
        }
    }
    Err(Refusal::NoPort(refused))
}

/// The GID of a port that fits.
fn gid_of(port: &PortTable, wanted: Wanted<'_>) -> Result<Option<GidEntry>, PortRefusal> {
    if !port.active {
        return Err(PortRefusal::NotActive);
    }
    let gid = match wanted.address.filter(|address| !address.is_unspecified()) {
        // A named InfiniBand port is reached by its LID, whatever address the control plane has.
        Some(_) if wanted.device.is_some() && !port.ethernet => gid_table::best(&port.gids),
        Some(address) => {
            let found = gid_table::carrying(&port.gids, &gid_table::of_address(address));
            let otherwise = wanted.address_may_differ && wanted.device.is_some();
            let found = found.or_else(|| gid_table::best(&port.gids).filter(|_| otherwise));
            Some(found.ok_or_else(|| PortRefusal::Elsewhere { address, carries: port.gids.clone() })?)
        }
        None => gid_table::best(&port.gids),
    };
    if port.ethernet && gid.is_none() { Err(PortRefusal::NoGid) } else { Ok(gid) }
}

/// The MTU of a path between two ports.
#[must_use]
pub const fn path_mtu(ours: u32, theirs: u32) -> u32 {
    if ours < theirs { ours } else { theirs }
}

/// Reads and atomics in flight between an initiator and a responder: never 0, with which a posted read is accepted
/// and never completes.
#[must_use]
pub fn path_depth(initiator: u8, responder: u8) -> u8 {
    initiator.min(responder).max(1)
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.device, self.reason)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNamed => f.write_str("is not it"),
            Self::Iwarp => {
                f.write_str("is an iWARP device: it has no Write-with-Immediate, no atomics and no connecting by hand")
            }
            Self::Closed(why) => write!(f, "cannot be opened ({why})"),
            Self::NoAtomics => f.write_str("has no atomics, which counters and locks need"),
            Self::NoPort(ports) => {
                f.write_str("has no port that would do (")?;
                for (at, (number, reason)) in ports.iter().enumerate() {
                    write!(f, "{}port {number} {reason}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for PortRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotActive => f.write_str("is not active"),
            Self::NoGid => f.write_str("has no GID: give its interface an address"),
            Self::Elsewhere { address, carries } if carries.is_empty() => {
                write!(f, "does not carry {address}: its GID table is empty")
            }
            Self::Elsewhere { address, carries } => {
                write!(f, "does not carry {address}, only")?;
                for (at, entry) in carries.iter().enumerate() {
                    write!(f, "{} {}", if at == 0 { "" } else { "," }, gid_table::text(&entry.gid))?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The fabric of one host: memfds handed over a Unix socket, rings, and a wake-up byte.
//!
//! ```text
//!   Host (server)                                    Guest (client)
//!    ├ door      one thread: who may have what   <──  dial      link, regions by rkey, endpoints by ticket
//!    ├ table     regions by rkey                      table     the same, mapped
//!    └ HostPort  endpoints, each with                 └ GuestPort
//!        A  the client writes: sleeper word, position, immediates, messages, staging
//!        B  the server writes: positions, messages
//!        S  the server port's sleeper word, one page for all its endpoints
//!        a socket pair: a byte wakes, a hang-up tells of the peer's end
//! ```
//!
//! | file | its job |
//! | --- | --- |
//! | `table` | regions by rkey, and each port's copy of it |
//! | `shape` | where things are in A, B and S |
//! | `ring`, `messages` | the rings, both ends |
//! | `bell` | the sleeper word: no wake-up is lost, none is sent in vain |
//! | `lanes`, `endpoint`, `execute` | one end of a connection, and what a post does |
//! | `core`, `port`, `sleep` | many of them: post, poll, sleep, close |
//! | `wire`, `ledger`, `callers`, `handing`, `door`, `dial` | the handshake, both ends |
//! | `host`, `guest` | the two fabrics |
//!
//! *What a hostile client can do.* Everything it can write (A, its end of the socket, the door) is checked
//! where it is used: positions that move back or overtake, lengths beyond the slot or the staging ring, more
//! wake-up bytes than entries. All of it costs that client its endpoint and nobody else anything. Both ends
//! of a wake-up have open files of their own (a socket pair, not an eventfd, whose blocking mode and counter
//! a client could change under the server). A page of A that a client punches out reads as zeros.
//!
//! *What it cannot do.* B, S, index and heap are sealed `FUTURE_WRITE` before a descriptor leaves the
//! process. Cells it can write: clients of one tenant are trusted with that tenant's cells.

mod bell;
mod callers;
mod core;
mod dial;
mod door;
mod endpoint;
mod execute;
mod guest;
mod handing;
mod host;
mod lanes;
mod ledger;
#[cfg(all(test, loom))]
mod loom_model;
mod messages;
mod port;
mod ring;
mod shape;
mod sleep;
mod table;
mod wire;

pub use guest::Guest;
pub use host::Host;

use super::{AtomicExecutor, FabricError, FabricInfo, FabricKind};
use crate::limits::READ_DEPTH;
use std::io;

/// The same on both sides: there is no device to describe.
fn info() -> FabricInfo {
    FabricInfo {
        kind: FabricKind::Shm,
        device: String::new(),
        port: 0,
        gid: String::new(),
        gid_index: 0,
        link_layer: String::new(),
        mtu_bytes: 0,
        atomics: AtomicExecutor::Cpu,
        read_depth: READ_DEPTH,
        inline_bytes: 0,
    }
}

fn call_failed(call: &str, source: impl Into<io::Error>) -> FabricError {
    let source = source.into();
    let hint = match source.raw_os_error() {
        Some(code) if code == rustix::io::Errno::MFILE.raw_os_error() => {
            "; raise the limit of open files (`ulimit -n`, LimitNOFILE= in the unit)".into()
        }
        _ => String::new(),
    };
    FabricError::Call { call: call.into(), source, hint }
}

fn handshake(reason: impl Into<String>) -> FabricError {
    FabricError::Handshake { kind: FabricKind::Shm, reason: reason.into() }
}

fn unsupported(what: impl Into<String>) -> FabricError {
    FabricError::Unsupported { kind: FabricKind::Shm, what: what.into() }
}

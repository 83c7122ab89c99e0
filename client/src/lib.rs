//! Client library of Sidewire, a key-value store whose data path is one-sided RDMA.
//!
//! ```no_run
//! use sidewire::Client;
//! use std::time::Duration;
//!
//! let client = Client::connect(&["127.0.0.1:7400"])?;
//! let session = client.session()?;
//! session.put(b"greeting", b"hello")?;
//! if let Some(value) = session.get(b"greeting")? {
//!     println!("{} ({} bytes)", String::from_utf8_lossy(&value), value.len());
//! }
//! session.create_counter(b"visits", 0)?;
//! session.add(b"visits", 1)?;
//! let guard = session.lock(b"{orders}.lock", Duration::from_secs(2))?;
//! session.put_with(b"{orders}.next", b"17", &sidewire::WriteOptions::new().fence(&guard))?;
//! guard.unlock()?;
//! # Ok::<(), sidewire::Error>(())
//! ```
//!
//! # Threads and layers
//!
//! ```text
//!   caller's thread          caller's thread         sidewire-async             sidewire-beat        sidewire-rpc
//!   Session                  Session                 Session, for AsyncClient   heartbeat            gRPC
//!     driver  posts, polls     driver                  driver                     lease, epochs,       attach, endpoints,
//!     op/     state machines   op/                     op/                        attaching anew       regions, admin
//!     port    own endpoints    port                    port                       port
//!        └───────────────────────┴── attached: one life of the server ──┴────────────┘
//!            regions · directory and location cache (lock-free) · lease · shard clock · epoch gate
//! ```
//!
//! | layer | what it knows |
//! | --- | --- |
//! | `session`, `async_client` | calls of the application |
//! | `driver` | a port, its endpoints, what is in flight; the only one that posts and polls |
//! | `op` | what is believed, in which order things are asked; no I/O |
//! | `writer`, `ring` | sequences, credits and ring space of one worker |
//! | `locate`, `regions` | where things lie |
//! | `attached`, `lease`, `epoch` | one attachment, until when it is believed, what holds its memory |
//! | `heartbeat`, `attach`, `control` | the server's control plane |
//!
//! A Get on a key whose location is known posts one Read and takes no lock, no memory and no system call. Whatever is
//! read counts only if the lease still held when it had arrived. When the attachment ends, sessions move to the next
//! by themselves: reads begin anew, writes that had been sent are [`Error::Indeterminate`].

mod address;
mod admin;
mod async_client;
mod attach;
mod attached;
mod client;
mod cluster;
mod control;
mod driver;
mod epoch;
mod error;
mod fleet;
mod heartbeat;
mod in_flight;
mod lease;
mod locate;
mod lock_guard;
mod op;
mod parts;
mod pipeline;
mod raw;
mod regions;
mod resolver;
mod retry;
mod route;
mod server;
mod session;
mod shared;
#[cfg(feature = "sim")]
pub mod sim;
mod slab;
mod stats;
mod value;
mod write;
mod writer;

pub use address::local_address_towards;
pub use admin::{Admin, ScanItem};
pub use async_client::{AsyncClient, AsyncLockGuard};
pub use client::{Attachment, Client, ClientBuilder};
pub use error::{Error, Retry};
pub use fleet::{Fleet, FleetServer};
pub use lock_guard::{LockGuard, LockView};
pub use pipeline::{Operation, OperationId, Outcome};
pub use raw::RawFabric;
pub use session::Session;
pub use sidewire_common::fabric::{AtomicExecutor, FabricKind};
pub use sidewire_common::id::{ClientId, Incarnation};
pub use sidewire_common::layout::record::{Kind, Version};
pub use sidewire_proto::v1;
pub use stats::ClientStats;
pub use value::Value;
pub use write::{Unmet, Write, WriteOptions};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

//! The Sidewire server: memory that clients read, count and lock in by themselves, and the few threads around it.
//!
//! ```text
//!   control   gRPC: attach, endpoints, admin            tokio, two threads
//!     │ crossbeam channels
//!   worker    one pinned thread each: requests that change the index      fabric port
//!   lease     one thread: heartbeats, sweeps, epochs                      fabric port
//!   pools     one thread that makes chunks before they are needed
//! ```
//!
//! No thread is on the way of a Get, a counter add or a lock: those are the client's own, in registered memory.

pub mod boot;
pub mod cells;
pub mod cluster;
pub mod config;
pub mod control;
pub mod epochs;
mod fast_map;
pub mod heap;
pub mod lease;
pub mod metrics;
pub mod pools;
pub mod refusals;
pub mod reserved;
pub mod shard;
pub mod shutdown;
pub mod store;
pub mod value_limits;
pub mod worker;

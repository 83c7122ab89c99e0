//! The Sidewire server.

pub mod cells;
pub mod epochs;
pub mod heap;
pub mod metrics;
pub mod pools;
pub mod shard;
pub mod store;
pub mod worker;

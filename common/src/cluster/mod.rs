//! The cluster map: which server serves which shard, and what it may do with it.
//!
//! ```text
//!   map        members, shards, epochs; what every reader checks
//!   quota      how many shards each member is due
//!   placement  who is to have which shard, with as little movement as there can be
//!   plan       the next step from the map as it is towards that: the leader's
//!   change     what a primary may change in its own shards
//! ```
//!
//! Everything here is pure: no clock, no thread, no network. The map lives in a store that compares and swaps it
//! as a whole (etcd); servers and clients hold copies, each with its epoch.

pub mod change;
mod map;
pub mod placement;
pub mod plan;
pub mod quota;
#[cfg(test)]
mod tests;

pub use map::{
    Assignment, ClusterMap, MEMBERS_MAX, MapError, Member, MemberId, NAME_BYTES_MAX, REPLICAS_MAX, Reign, WEIGHT_MAX, check_name,
};

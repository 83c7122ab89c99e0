//! The cluster map: which server serves which shard, and what it may do with it.
//!
//! ```text
//!   map        members, shards, epochs; what every reader checks
//! ```
//!
//! Everything here is pure: no clock, no thread, no network. The map lives in a store that compares and swaps it
//! as a whole (etcd); servers and clients hold copies, each with its epoch.

mod map;

pub use map::{
    Assignment, ClusterMap, MEMBERS_MAX, MapError, Member, MemberId, NAME_BYTES_MAX, REPLICAS_MAX, Reign, WEIGHT_MAX, check_name,
};

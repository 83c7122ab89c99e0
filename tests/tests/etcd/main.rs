//! Servers that are a cluster by an etcd of their own.
//!
//! What could break: a cluster does not form or not evenly; a dead server keeps its shards, or a living one loses them;
//! two plan, or nobody; an etcd that goes away takes reads and writes with it, or its return does not bring them back;
//! a server whose lease has run out goes on as if nothing had been; a wrong flag ends in silence.

mod lives;
mod outage;
mod refusals;
mod scene;
mod tools;

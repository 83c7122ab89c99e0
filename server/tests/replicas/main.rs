//! Copies of a shard in several servers of one process, over shared memory, spoken to in raw requests. The map is a test's
//! own: what the workers wish is granted at once, or not at all.

#[path = "../raw/mod.rs"]
mod raw;

mod board;
mod copies;
mod reigns;

//! The third provider: a whole cluster in one thread, whose every chance comes from a seed. For tests alone.
//!
//! ```text
//!   World  ── agenda of events in simulated time ──▶ one at a time
//!    ├ process   server or client: its threads, ports, regions; can be paused, killed, cut off
//!    │  └ thread   a coroutine that runs the real code until it waits
//!    ├ stores    what a thread has stored to registered memory and no NIC sees yet
//!    └ net       queue pairs: requests executed word by word, completions late, lost or in error
//! ```
//! What it makes of the contract is the weakest that verbs allow:
//!
//! - A store by the server's CPU reaches the memory that NICs see later, in any order that the fences between
//!   them leave open. A doorbell is such a fence.
//! - A Read takes eight bytes a step, the lines in random order; Reads of one endpoint run at the same time.
//! - A completion can come late, or never: its endpoint then fails, whether the work was done or not.
//! - What a dead client had sent may still arrive; the memory of a dead server answers for a while.
//! - Clocks of processes differ and drift; threads are woken late.
//!
//! A thread may lose its CPU where it waits, posts, polls, or stores to index or heap, and nowhere else; races between
//! CPUs of one process are loom's field.

mod actor;
mod agenda;
mod chance;
mod control;
mod endpoint;
mod exchange;
mod execute;
mod fabric;
mod faults;
mod port;
mod queue;
mod region;
mod rights;
mod state;
mod stores;
mod world;

pub use actor::{ThreadId, end_quiet, time};
pub use chance::Chance;
pub use control::within;
pub use queue::PortId;
pub use world::{ProcessId, World};

pub(crate) use actor::{is_inside, nanos, receive, sleep, spawn};
pub(crate) use chance::chance;
pub(crate) use fabric::here;
pub(crate) use stores::{barrier, stored};

use std::time::Duration;

/// The wall clock when a world begins, nanoseconds since 1970.
pub(crate) const UNIX_NANOS: u64 = 1_790_000_000 * 1_000_000_000;
/// How long a thread naps that waits on a condition.
pub(crate) const CONDITION_NAP: Duration = Duration::from_micros(500);

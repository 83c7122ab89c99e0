//! The threads that put a store under load.

mod closed_loop;
mod crew;
mod interim;
mod measured;
mod member;
mod phase;
mod pipelined_loop;
mod replay_loop;
pub mod stats_delta;
#[cfg(test)]
mod tests;

pub use crew::{Crew, CrewError};
pub use interim::{Interim, Line};
pub use measured::{Measured, Sent};
pub use member::Plan;
pub use phase::{Limits, Order, Phase, Work};

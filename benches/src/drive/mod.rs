//! The threads that put a store under load.

mod closed_loop;
mod crew;
mod member;
mod phase;
mod pipelined_loop;
pub mod stats_delta;
#[cfg(test)]
mod tests;

pub use crew::{Crew, CrewError, Limits, Measured};
pub use member::Plan;
pub use phase::Work;

//! Histories of calls, and the check that some order of the calls explains all their outcomes.
//!
//! A history is a list of [`Event`]s of any clients, each with the moments of its invocation and return on one clock.
//! It is *linearizable* if each call can be given one moment between the two at which it took effect, so that the store of
//! `model` run through in that order gives every outcome that was seen.
//!
//! ```text
//!   event      calls, outcomes                            record    a history as it is made, in memory
//!   prepare    which keys belong together; what is        file      JSON lines of real processes, merged
//!              wrong at first sight (torn, of nowhere)    observed  what the library's answers mean here
//!   model      the sequential store                       lives     the lives of a server that starts empty
//!   counter    sums and numbers, without a search         ending    how calls ended, as reports count them
//!   search     just-in-time linearization                 report    the window that shows a violation
//! ```
//!
//! Linearizability is compositional, so each key is checked by itself; a fenced write ties its key to its lock. A call of
//! which nobody knows may take effect at any moment after its invocation, or never.
//!
//! # Why not stateright
//!
//! Its `LinearizabilityTester` (the one that model checkers in Rust use) allows one call at a time and thread, tries all
//! interleavings recursively without remembering what it has seen, and answers `None` without saying where it
//! failed. Histories here have hundreds of thousands of calls, pipelined ones, calls that stay in doubt for ever and values
//! that expire by time. Lowe's just-in-time linearization (the streaming form of Wing and Gong's) walks through time once, and
//! versions told by the store leave it one configuration nearly everywhere.

mod check;
mod counter;
mod ending;
mod event;
pub mod file;
pub mod lives;
mod model;
pub mod observed;
mod prepare;
mod record;
mod report;
mod search;
#[cfg(test)]
mod tests;

pub use check::{Figures, Limits, Verdict, check};
pub use event::{Call, Cell, Condition, Event, Fence, Outcome};
pub use record::{Open, Record};
pub use report::{Reason, Violation};

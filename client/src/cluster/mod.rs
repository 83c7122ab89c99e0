//! The servers of a cluster, as a client knows them.
//!
//! ```text
//!   any server ── Map, Watch ──► offer ──► map slot ──► sessions compare its epoch before each operation
//!        ▲                                   └────────► heartbeats acknowledge it
//!        └── refresh ◄── a later epoch in a heartbeat's answer, WrongPrimary, a server that is gone
//! ```
//! | file | what it holds |
//! | --- | --- |
//! | `map_slot` | the map and its epoch |
//! | `members` | a server for each member that somebody needed |
//! | `refresh` | asking for a later map |

mod map_slot;
mod members;
mod refresh;

pub(crate) use map_slot::MapSlot;
pub(crate) use members::{Manner, Members, Membership};

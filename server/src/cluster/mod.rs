//! A server as a member of a cluster.
//!
//! ```text
//!   hands   what workers ask of the rest of the server: changes of the map, links to other servers
//!   links   links to other servers' workers, asked for over the control plane
//!   clock   the shard clock, never behind that of a server whose place this one may take
//! ```

mod clock;
mod hands;
mod links;

pub use clock::ClockAhead;
pub use hands::{Alone, Hands, LinkAsk};
pub use links::{Links, Peers};

//! A server as a member of a cluster.
//!
//! ```text
//!   hands   what workers ask of the rest of the server: changes of the map, links to other servers
//!   links   links to other servers' workers, asked for over the control plane
//!   view    the map, the lease, this server's id: what everybody else looks at, and how the thread is told
//!   thread  `kv-cluster`: keeps the lease, follows the map, makes primaries' changes and, when it leads, the plan
//!   wishes  what is to be changed and is not yet
//!   store   where the map lives: `etcd`, or a `file` that never changes
//!   clock   the shard clock, never behind that of a server whose place this one may take
//! ```

mod clock;
pub mod etcd;
pub mod file;
mod hands;
mod links;
pub mod store;
pub mod thread;
mod view;
mod wishes;

pub use clock::ClockAhead;
pub use hands::{Alone, Hands, LinkAsk};
pub use links::{Links, Peers};
pub use view::{Event, NodeError, Standing, View};

//! One verbs-shaped interface, with the semantics of a reliable-connected queue pair.
//!
//! ```text
//!   Fabric        one per process and peer kind: a device, or this host's shared memory
//!    └ Port       one per thread: a completion queue and the endpoints that complete into it
//!       └ endpoint   one end of a connection (in verbs a queue pair)
//! ```
//!
//! # The contract, the weakest of all providers
//!
//! - Bytes of a Read arrive in no order; only an aligned 8-byte word is whole.
//! - Atomics exclude other atomics of the same executor only.
//! - A completed Write says nothing about what the remote CPU has seen; a received immediate does.
//! - A posted buffer is the fabric's until its `Done`, or until [`Port::close`] of its endpoint has returned
//!   and the `Done`s it produced were polled, whatever deadline passed.
//! - Every accepted work request produces exactly one [`Event::Done`], in posting order per endpoint. Which
//!   of them are signalled on the wire is the provider's business: the last of a chain always is, the others
//!   are reported when it completes.
//! - After the first `Done` with an error every later one on that endpoint is [`Status::Flushed`]; the
//!   endpoint must be closed and opened anew.

mod capability;
mod choice;
mod completion;
mod endpoint_info;
mod error;
pub mod gid_table;
mod region;
pub mod selection;
pub mod shm;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "verbs")]
pub mod verbs;
mod wait;
mod work;

pub use capability::{AtomicExecutor, FabricInfo, FabricKind};
pub use choice::{Choice, FabricChoice, Surveyed, open_client, open_server, survey};
pub use completion::{Completion, Event, Status};
pub use endpoint_info::{PeerInfo, ShmTicket, VerbsPeer};
pub use error::{FabricError, PostError};
pub use region::{Access, Registered, RemoteAddr, RemoteRegion};
pub use wait::{Spin, Wake, Waker};
pub use work::{Verb, WorkId, WorkRequest};

use crate::id::ClientId;
use crate::limits::MESSAGE_BYTES;
use crate::memory::{Mapping, View};
use std::sync::Arc;
use std::time::Duration;

/// An endpoint within its port. Never reused for another endpoint of the same port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EndpointId(pub u32);

/// What an endpoint is for. It decides rights, protection domain and queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Client: posts reads and atomics.
    Reader,
    /// Server: what a `Reader` connects to. Remote read and atomic in the tenant's domain, posts nothing.
    ReadTarget,
    /// Client: posts writes with immediate, receives acks.
    Writer,
    /// Server: what a `Writer` connects to. A protection domain of its own whose one remotely accessible region
    /// is a staging ring of this many bytes, made with the endpoint. Receives immediates, sends acks.
    WriteTarget {
        /// Bytes of the staging ring.
        staging_bytes: usize,
    },
    /// Both: small messages each way, nothing one-sided.
    Beat,
}

/// How an endpoint is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointSpec {
    /// What it is for.
    pub role: Role,
    /// Work requests it may have in flight; the port counts them and refuses more.
    pub send_depth: u32,
    /// Immediates or messages the peer may have in flight towards it: its own receive queue has that depth
    /// and is replenished by [`Port::poll`] (immediates) and [`Port::take_message`] (messages).
    pub recv_depth: u32,
}

/// The ring that a peer writes into.
#[derive(Debug, Clone)]
pub struct Staging {
    /// The server's own view of it. Its bytes are hostile.
    pub view: View,
    /// Where the client writes.
    pub remote: RemoteRegion,
}

/// An endpoint that was opened and waits for its peer.
#[derive(Debug)]
pub struct Opened {
    /// Its name within the port.
    pub endpoint: EndpointId,
    /// What the peer must be told.
    pub info: PeerInfo,
    /// The staging ring, for [`Role::WriteTarget`].
    pub staging: Option<Staging>,
}

/// How a port is made.
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// For logs.
    pub name: String,
    /// Completions that can be outstanding over all its endpoints: it refuses an endpoint beyond that,
    /// because a completion queue that is full loses completions silently.
    pub completions: u32,
}

/// One thread's completion queue and its endpoints. Made on the thread that uses it; not `Send`.
pub trait Port {
    /// Opens an endpoint; the peer is told its [`Opened::info`].
    ///
    /// # Errors
    /// When resources are short or the role cannot be offered.
    fn open(&mut self, spec: &EndpointSpec) -> Result<Opened, FabricError>;

    /// Connects an opened endpoint to its peer and makes it ready to post.
    ///
    /// # Errors
    /// When the peer's information is refused field by field, or the handshake fails or takes over 5 seconds.
    fn connect(&mut self, endpoint: EndpointId, peer: &PeerInfo) -> Result<(), FabricError>;

    /// How long the next connects may wait for the peer, if they wait at all: 5 seconds at most, and unless set.
    fn set_patience(&mut self, _limit: Duration) {}

    /// An endpoint of this process to itself, through the executor of atomics: posts `Read`, `FetchAdd` and
    /// `CompareSwap` on regions registered by this fabric.
    ///
    /// # Errors
    /// When resources are short.
    fn loopback(&mut self, send_depth: u32) -> Result<EndpointId, FabricError>;

    /// Work requests that [`Port::post`] would take on this endpoint now; 0 for a broken or unknown one.
    fn room(&self, endpoint: EndpointId) -> usize;

    /// Posts a chain and rings the doorbell once. On success `chain` is empty; on error nothing was posted and
    /// `chain` is untouched (the caller gives its buffers back).
    ///
    /// # Errors
    /// When there is not room for all, or a request is malformed, or the endpoint is broken or unknown.
    fn post(&mut self, endpoint: EndpointId, chain: &mut Vec<WorkRequest<'_>>) -> Result<(), PostError>;

    /// Moves completions that have happened into `out` (a bounded batch), and says how many. Never blocks.
    fn poll(&mut self, out: &mut Vec<Completion>) -> usize;

    /// Copies a received message out and gives its receive buffer back to the queue. Returns its length.
    ///
    /// # Errors
    /// When the slot does not hold one.
    fn take_message(&mut self, endpoint: EndpointId, slot: u32, into: &mut [u8; MESSAGE_BYTES]) -> Result<usize, FabricError>;

    /// Sleeps until a completion may be there, the [`Waker`] was used, or `timeout` has passed. Never misses
    /// a completion that happened before or during the call.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    fn sleep(&mut self, timeout: Duration) -> Result<Wake, FabricError>;

    /// Wakes this port from another thread.
    fn waker(&self) -> Waker;

    /// Endpoints broken so far because the peer did what no honest one does, for counting.
    fn offences(&self) -> u64 {
        0
    }

    /// Ends an endpoint: to error, drained, destroyed. When it returns nothing of it can land any more; the
    /// `Done`s of its open work (as [`Status::Flushed`]) come out of the next polls. Unknown ones are ignored.
    fn close(&mut self, endpoint: EndpointId);
}

/// A device, or this host's shared memory.
pub trait Fabric: Send + Sync {
    /// What it is and what it can do.
    fn info(&self) -> &FabricInfo;

    /// Registers a mapping. It ends when the last clone of the result is dropped.
    ///
    /// # Errors
    /// When the kernel or device refuses; the error names the limit in force.
    fn register(&self, map: &Arc<Mapping>, access: Access) -> Result<Registered, FabricError>;

    /// Makes a port for the calling thread.
    ///
    /// # Errors
    /// When resources are short.
    fn port(&self, spec: PortSpec) -> Result<Box<dyn Port>, FabricError>;

    /// Server: what a client that was admitted needs for [`Fabric::link`].
    ///
    /// # Errors
    /// When resources are short.
    fn admit(&self, client: ClientId) -> Result<PeerInfo, FabricError>;

    /// Server: ends a client's link. Unknown clients are ignored.
    fn dismiss(&self, client: ClientId);

    /// Server: clients whose link has hung up since the last call. `verbs` never knows any.
    fn departed(&self) -> Vec<ClientId>;

    /// Client: follows the server's invitation. Needed before `adopt` and before any `connect`.
    ///
    /// # Errors
    /// When the server cannot be reached that way.
    fn link(&self, invitation: &PeerInfo) -> Result<(), FabricError>;

    /// Client: how long `link` and `adopt` may wait for the server, if they wait at all: 5 seconds at most, and unless set.
    fn set_patience(&self, _limit: Duration) {}

    /// Client: false once the link has hung up; what was adopted through it is then unmapped as soon as no
    /// operation uses it. `verbs` always says true: only leases tell there.
    fn link_alive(&self) -> bool;

    /// Client: makes these regions reachable for all ports, now and later ones. Known ones are skipped.
    ///
    /// # Errors
    /// When a region cannot be mapped or its description is refused.
    fn adopt(&self, regions: &[RemoteRegion]) -> Result<(), FabricError>;
}

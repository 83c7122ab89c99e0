//! What the control side asks of a worker, over a crossbeam channel.

use crossbeam::channel::Sender;
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_common::fabric::{EndpointId, FabricError, PeerInfo, RemoteRegion};
use sidewire_common::id::ClientId;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::record::{Kind, Version};
use std::sync::Arc;

/// A command. Replies go to channels of capacity 1; a worker never waits for a reader.
#[derive(Debug)]
pub enum Command {
    /// Open and connect a write endpoint with its staging ring. One that the session has already is closed first.
    OpenWriter {
        /// Whose.
        client: ClientId,
        /// Its id in lock words.
        holder: u32,
        /// Which of its sessions.
        session: u32,
        /// The client's side.
        peer: PeerInfo,
        /// The server's side.
        reply: Sender<Result<OpenedEndpoint, OpenError>>,
    },
    /// Open and connect an endpoint for one-sided reads and atomics.
    OpenReader {
        /// Whose.
        client: ClientId,
        /// Which of its sessions.
        session: u32,
        /// The client's side.
        peer: PeerInfo,
        /// The server's side.
        reply: Sender<Result<OpenedEndpoint, OpenError>>,
    },
    /// Close a session's endpoints and forget what exactly-once kept of it.
    CloseSession {
        /// Whose.
        client: ClientId,
        /// Which of its sessions.
        session: u32,
        /// Told when nothing of it can land any more.
        reply: Sender<()>,
    },
    /// First step of a sweep: the client's endpoints are destroyed and what was accepted is finished.
    Expel {
        /// Whom.
        client: ClientId,
        /// Told when all is done.
        reply: Sender<()>,
    },
    /// A page of this worker's keys.
    Scan {
        /// Where to go on.
        cursor: ScanCursor,
        /// Keys that begin with this.
        prefix: Arc<[u8]>,
        /// Whether values are wanted.
        values: bool,
        /// The page.
        reply: Sender<ScanPage>,
    },
    /// The cluster's map, and which member this server is.
    Map {
        /// The map.
        map: Arc<ClusterMap>,
        /// This server.
        me: MemberId,
    },
    /// What another server has answered to a [`LinkAsk`](crate::cluster::LinkAsk).
    LinkAnswered {
        /// The other server.
        member: MemberId,
        /// Its worker.
        to_worker: u32,
        /// This side's endpoint.
        endpoint: EndpointId,
        /// Its side, its ring and how many workers it has; or why not.
        answer: Result<(PeerInfo, RemoteRegion, u32), String>,
    },
    /// Another server's worker is to write entries here.
    OpenPeer {
        /// The other server.
        member: MemberId,
        /// Its worker.
        worker: u32,
        /// Its side.
        peer: PeerInfo,
        /// This side.
        reply: Sender<Result<OpenedEndpoint, OpenError>>,
    },
    /// What became of a write that was sent to an earlier primary.
    Resolve {
        /// The client's id there.
        client: ClientId,
        /// Its session.
        session: u32,
        /// The write's sequence.
        sequence: u64,
        /// Its shard.
        shard: u32,
        /// The answer.
        reply: Sender<Resolution>,
    },
    /// Finish what was accepted and end.
    Stop,
}

/// What became of a write that was sent to an earlier primary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// `Done`, `NeverDone`, `Busy` (ask again later) or `WrongPrimary` (ask another server).
    pub outcome: Outcome,
    /// The version that it made.
    pub version: u64,
    /// For an add: the value before.
    pub figure: u64,
}

/// The server's side of an endpoint.
#[derive(Debug)]
pub struct OpenedEndpoint {
    /// What the client must be told.
    pub peer: PeerInfo,
    /// The staging ring, for a writer.
    pub staging: Option<RemoteRegion>,
}

/// Why an endpoint was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The fabric refused.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

/// Where a scan of one worker goes on; the default is its beginning.
///
/// It is a position in hash space, so that splits between two pages neither skip nor end it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ScanCursor {
    pub(super) shard: u32,
    pub(super) entry: u32,
    pub(super) bucket: u32,
}

/// A page of keys.
#[derive(Debug, Default)]
pub struct ScanPage {
    /// The keys.
    pub items: Vec<ScanItem>,
    /// Where to go on; `None` at the end.
    pub next: Option<ScanCursor>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanItem {
    /// The key.
    pub key: Vec<u8>,
    /// Its value, if it was asked for and it is one.
    pub value: Option<Vec<u8>>,
    /// What it holds.
    pub kind: Kind,
    /// Its version.
    pub version: Version,
    /// Expiry on the shard's clock, ms; 0 = none.
    pub expiry_ms: u64,
    /// Bytes of the value.
    pub value_bytes: u64,
    /// The word of the cell, for what lives in one.
    pub cell: u64,
}

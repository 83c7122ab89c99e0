//! Why a request is refused, with the code that programs read and the sentence that people read.

use crate::cluster::NodeError;
use crate::lease::table::AdmitError;
use crate::refusals::Cause;
use crate::worker::OpenError;
use sidewire_common::fabric::FabricError;
use sidewire_common::id::{ClientId, Incarnation};
use sidewire_proto::ERROR_CODE;
use sidewire_proto::convert::ConvertError;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// A refusal.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Field(#[from] ConvertError),
    #[error("field `layout_version` is {given}: this server speaks {ours}; use a client of the same version")]
    LayoutVersion { given: u32, ours: u32 },
    #[error("field `client_id` is {0}, which is attached already; take a new random one")]
    ClientExists(ClientId),
    #[error("there are {limit} clients, which is the limit; raise `clients_max` of the server")]
    ClientsMax { limit: u32 },
    #[error("field `client_id` is {0}, which is not attached or whose lease has run out; attach with a new one")]
    UnknownClient(ClientId),
    #[error("field `incarnation` is {given:016x}: this is life {ours:016x} of the server; attach anew")]
    Incarnation { given: u64, ours: u64 },
    #[error("field `session` is {session}: the client has {limit} sessions, which is the limit")]
    SessionsMax { session: u32, limit: u32 },
    #[error("staging rings of all sessions: {asked} bytes asked, {limit} is the limit; raise `staging_total` of the server")]
    StagingMax { asked: u64, limit: u64 },
    #[error("{limit} scans are running, which is the limit; try again later")]
    ScansMax { limit: usize },
    #[error("the server is stopping")]
    Stopping,
    #[error("this server's own lease in its cluster has run out, and not come back yet; try again, or another server")]
    NoLease,
    #[error("this server belongs to no cluster; start it with --etcd or --map")]
    Alone,
    #[error("{0}")]
    Node(#[from] NodeError),
    #[error("{who} did not answer within {seconds} s")]
    Deadline { who: String, seconds: u64 },
    #[error("{0}")]
    Fabric(#[from] FabricError),
}

impl Refusal {
    /// A field that cannot be accepted.
    pub(super) fn field(field: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::Field(ConvertError::new(field, value, expected))
    }

    pub(super) fn of_admission(error: AdmitError, client: ClientId) -> Self {
        match error {
            AdmitError::Exists => Self::ClientExists(client),
            AdmitError::Full { limit } => Self::ClientsMax { limit },
        }
    }

    fn code(&self) -> (Code, &'static str) {
        match self {
            Self::Field(_) => (Code::InvalidArgument, "field"),
            Self::LayoutVersion { .. } => (Code::FailedPrecondition, "layout-version"),
            Self::ClientExists(_) => (Code::AlreadyExists, "client-exists"),
            Self::ClientsMax { .. } => (Code::ResourceExhausted, "clients-max"),
            Self::UnknownClient(_) => (Code::NotFound, "unknown-client"),
            Self::Incarnation { .. } => (Code::FailedPrecondition, "incarnation"),
            Self::SessionsMax { .. } => (Code::ResourceExhausted, "sessions-max"),
            Self::StagingMax { .. } => (Code::ResourceExhausted, "staging-max"),
            Self::ScansMax { .. } => (Code::ResourceExhausted, "scans-max"),
            Self::Stopping => (Code::Unavailable, "stopping"),
            Self::NoLease => (Code::Unavailable, "no-lease"),
            Self::Alone => (Code::FailedPrecondition, "alone"),
            Self::Node(NodeError::Map(_)) => (Code::InvalidArgument, "node"),
            Self::Node(NodeError::Store(_)) => (Code::Unavailable, "map-store"),
            Self::Node(NodeError::Static) => (Code::FailedPrecondition, "static-map"),
            Self::Deadline { .. } => (Code::DeadlineExceeded, "deadline"),
            Self::Fabric(FabricError::Peer { .. }) => (Code::InvalidArgument, "peer"),
            Self::Fabric(FabricError::Limit { .. }) => (Code::ResourceExhausted, "fabric"),
            Self::Fabric(error) if error.is_retryable() => (Code::Unavailable, "fabric"),
            Self::Fabric(_) => (Code::Internal, "fabric"),
        }
    }
}

impl Refusal {
    /// What it counts as, when the peer is to blame for it.
    pub(super) fn cause(&self) -> Option<Cause> {
        Some(match self {
            Self::Field(_) => Cause::Field,
            Self::LayoutVersion { .. } | Self::Incarnation { .. } => Cause::Life,
            Self::ClientExists(_) => Cause::ClientExists,
            Self::UnknownClient(_) => Cause::UnknownClient,
            Self::ClientsMax { .. } | Self::SessionsMax { .. } | Self::StagingMax { .. } | Self::ScansMax { .. } => Cause::Limit,
            Self::Fabric(FabricError::Limit { .. }) => Cause::Limit,
            Self::Fabric(FabricError::Peer { .. }) => Cause::Peer,
            Self::Stopping | Self::NoLease | Self::Alone | Self::Node(_) | Self::Deadline { .. } | Self::Fabric(_) => {
                return None;
            }
        })
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Fabric(error) => Self::Fabric(error),
            OpenError::Stopping => Self::Stopping,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let (code, name) = refusal.code();
        if code == Code::Internal {
            tracing::warn!(error = %refusal, "a request failed here");
        } else {
            tracing::debug!(error = %refusal, "request refused");
        }
        let mut status = Self::new(code, refusal.to_string());
        status.metadata_mut().insert(ERROR_CODE, MetadataValue::from_static(name));
        status
    }
}

/// Refuses an incarnation of 0, which no server has: the field was left out.
pub(super) fn incarnation(given: u64) -> Result<u64, Refusal> {
    if given == 0 { Err(Refusal::field("incarnation", 0, "that of the attach reply")) } else { Ok(Incarnation(given).0) }
}

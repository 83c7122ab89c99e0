//! The control plane: gRPC messages and services, and their conversion into the strict types that the rest of
//! the system uses. Wire types stop here.

#![allow(missing_docs, reason = "generated code carries the comments of the protocol files")]

pub mod cluster_map;
pub mod convert;

/// Generated messages, clients and servers.
#[allow(clippy::all, clippy::pedantic, unused_qualifications, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("sidewire.v1");
}

/// gRPC metadata key under which an error's machine-readable code travels.
pub const ERROR_CODE: &str = "sidewire-code";

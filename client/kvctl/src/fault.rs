//! The client library's errors: their word for programs and their exit code.

use crate::failure::{Failure, NOT_DONE, TROUBLE, USAGE};
use sidewire::Error;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (exit, code) = class(&error);
        Self::new(exit, code, error)
    }
}

const fn class(error: &Error) -> (u8, &'static str) {
    match error {
        Error::NotFound => (NOT_DONE, "not_found"),
        Error::WrongKind { .. } => (NOT_DONE, "wrong_kind"),
        Error::Fenced { .. } => (NOT_DONE, "fenced"),
        Error::OutOfRange { .. } => (NOT_DONE, "out_of_range"),
        Error::LockTimeout { .. } => (NOT_DONE, "held"),
        Error::LocksClosed { .. } => (NOT_DONE, "locks_closed"),
        Error::Key(_) => (USAGE, "key"),
        Error::ValueTooLong { .. } => (USAGE, "value_too_long"),
        Error::DeltaTooLarge { .. } => (USAGE, "delta_too_large"),
        Error::Address { .. } => (USAGE, "address"),
        Error::Control { .. } => (TROUBLE, "control"),
        Error::ServerGone { .. } => (TROUBLE, "server_gone"),
        Error::Deadline { .. } => (TROUBLE, "deadline"),
        Error::Indeterminate { .. } => (TROUBLE, "indeterminate"),
        Error::LeaseLapsed => (TROUBLE, "lease_lapsed"),
        Error::Refused { .. } => (TROUBLE, "refused"),
        Error::OutOfMemory { .. } => (TROUBLE, "out_of_memory"),
        Error::IndexFull { .. } => (TROUBLE, "index_full"),
        Error::OutOfCells { .. } => (TROUBLE, "out_of_cells"),
        Error::Busy | Error::Full => (TROUBLE, "busy"),
        Error::Fabric(_) => (TROUBLE, "fabric"),
        Error::Layout { .. } => (TROUBLE, "layout"),
    }
}

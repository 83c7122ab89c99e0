//! Conditional writes: the version that was made, or why nothing was done.

use crate::escape::escape;
use crate::failure::{Done, Failure, NOT_DONE};
use sidewire::{Unmet, Write};

/// The version made by a write.
pub fn version(write: Write, key: &[u8]) -> Done<u64> {
    let key = escape(key);
    match write {
        Write::Done(version) => Ok(version.raw()),
        Write::NotDone(Unmet::Exists(version)) => {
            Err(Failure::new(NOT_DONE, "exists", format!("`{key}` exists, with version {}", version.raw())))
        }
        Write::NotDone(Unmet::Mismatch(version)) => {
            Err(Failure::new(NOT_DONE, "version_mismatch", format!("`{key}` has version {}", version.raw())))
        }
        Write::NotDone(Unmet::NotFound) => Err(missing(&key)),
    }
}

/// There is no such key; `key` is escaped.
fn missing(key: &str) -> Failure {
    Failure::not_found(format!("`{key}` is not there"))
}

/// There is no such key.
pub fn not_found(key: &[u8]) -> Failure {
    missing(&escape(key))
}

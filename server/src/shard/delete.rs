//! Delete, of whatever kind; what a cell needs is done before.

use super::index::{Found, Index};
use super::{Unmet, publish};
use crate::heap::Heap;
use crate::worker::Memory;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::request::Condition;

/// What became of a delete.
#[derive(Clone, Copy, Debug)]
pub struct Deleted {
    /// Bytes of the record that is gone.
    pub bytes: i64,
}

/// Checks whether a delete may be carried out.
///
/// # Errors
/// What the ack says when it may not.
pub fn judge(condition: Condition, found: Option<&Found>) -> Result<Found, Unmet> {
    let found = *found.ok_or(Unmet::plain(Outcome::NotFound))?;
    let figures = [found.header.version.raw(), found.location.raw()];
    let refuse = |outcome| Err(Unmet { outcome, detail: found.header.kind, figures });
    match condition {
        Condition::Absent => refuse(Outcome::Exists),
        Condition::Version(version) if version != found.header.version => refuse(Outcome::VersionMismatch),
        _ => Ok(found),
    }
}

/// Unpublishes a record that was found in this same turn and frees its block.
pub fn delete(memory: &mut Memory, heap: &mut Heap, found: &Found) -> Deleted {
    publish::delete(memory, found);
    let bytes = found.header.record_bytes();
    heap.free(found.location.place(), bytes);
    Deleted { bytes: bytes as i64 }
}

impl Index {
    /// Finds a key and judges a delete of it.
    ///
    /// # Errors
    /// What the ack says when it may not be carried out.
    pub fn find_to_delete(
        &mut self,
        memory: &mut Memory,
        hash: sidewire_common::key::KeyHash,
        key: &[u8],
        condition: Condition,
    ) -> Result<Found, Unmet> {
        let found = self.find(memory, hash, key);
        judge(condition, found.as_ref())
    }
}

//! Put: conditions, a fresh block, publication.

use super::index::{Found, Index};
use super::{Unmet, publish};
use crate::heap::{Heap, HeapError};
use crate::store::Store;
use crate::worker::Memory;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::location::Location;
use sidewire_common::layout::record::{self, Fields, Kind, Version, record_bytes};
use sidewire_common::layout::request::Condition;

/// What is put.
#[derive(Clone, Copy, Debug)]
pub struct PutAsk<'a> {
    /// The key and its hash.
    pub key: &'a [u8],
    /// Its hash.
    pub hash: KeyHash,
    /// The value; for a cell's record the reference.
    pub value: &'a [u8],
    /// Kind of record.
    pub kind: Kind,
    /// When it is carried out.
    pub condition: Condition,
    /// Expiry on the shard's clock, ms; 0 = none.
    pub expiry_ms: u64,
    /// Its version, if it is carried out.
    pub version: Version,
    /// What the key holds, found in this same turn.
    pub found: Option<Found>,
}

/// What became of it.
#[derive(Clone, Copy, Debug)]
pub struct PutDone {
    /// Where the record lies.
    pub location: Location,
    /// Bytes by which the records have grown, and whether there is a key more.
    pub grown_bytes: i64,
    /// Whether the key is new.
    pub inserted: bool,
}

/// Checks whether a put may be carried out, given what is there.
///
/// # Errors
/// What the ack says when it may not.
pub fn judge(condition: Condition, kind: Kind, found: Option<&Found>) -> Result<(), Unmet> {
    let Some(found) = found else {
        return match condition {
            Condition::Version(_) => Err(Unmet::plain(Outcome::NotFound)),
            Condition::None | Condition::Absent => Ok(()),
        };
    };
    let there = found.header;
    let figures = [there.version.raw(), found.location.raw()];
    if there.kind != kind as u8 {
        return Err(Unmet { outcome: Outcome::WrongKind, detail: there.kind, figures });
    }
    match condition {
        Condition::Version(version) if version != there.version => {
            Err(Unmet { outcome: Outcome::VersionMismatch, detail: there.kind, figures })
        }
        // What lives in a cell is created once and never overwritten.
        Condition::Absent => Err(Unmet { outcome: Outcome::Exists, detail: there.kind, figures }),
        _ if kind != Kind::Value => Err(Unmet { outcome: Outcome::Exists, detail: there.kind, figures }),
        _ => Ok(()),
    }
}

/// A record whose body is whole and which nobody can find: *pending* on what it is to replace.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    /// Where it lies.
    pub location: Location,
    /// Its version.
    pub version: Version,
    /// Bytes of the record, without padding.
    pub bytes: usize,
    /// Expiry on the shard's clock, ms; 0 = none.
    pub expiry_ms: u64,
    pub(super) hash: KeyHash,
}

/// Writes a record into a fresh block. `scratch` holds its image. What the key holds must stay as it was found until the
/// draft is published or discarded.
///
/// # Errors
/// What the ack says when there is no memory; nothing has changed then.
pub fn draft(memory: &mut Memory, heap: &mut Heap, ask: &PutAsk<'_>, scratch: &mut Vec<u8>) -> Result<Draft, Unmet> {
    let bytes = record_bytes(ask.key.len(), ask.value.len());
    let place = heap.allocate(bytes).map_err(no_memory)?;
    scratch.clear();
    scratch.resize(bytes, 0);
    let fields = Fields { version: ask.version, expiry_ms: ask.expiry_ms, kind: ask.kind, key: ask.key, value: ask.value };
    record::encode(scratch, place, fields, ask.found.map(|f| f.header.version));
    memory.write_record(place, scratch);
    let location = Location::new(ask.hash.fingerprint(), bytes, place);
    Ok(Draft { location, version: ask.version, bytes, expiry_ms: ask.expiry_ms, hash: ask.hash })
}

/// What the ack says when there is no block.
pub(super) fn no_memory(error: HeapError) -> Unmet {
    match error {
        HeapError::Soon => Unmet::plain(Outcome::Busy),
        HeapError::Full { in_use, limit } => Unmet { outcome: Outcome::OutOfMemory, detail: 0, figures: [in_use, limit] },
    }
}

/// Publishes a draft in place of `found`, which was looked up in this same turn.
///
/// # Errors
/// What the ack says when the index has no room; the draft is as it was.
pub fn publish_draft(
    store: &Store,
    memory: &mut Memory,
    index: &mut Index,
    heap: &mut Heap,
    draft: &Draft,
    found: Option<&Found>,
) -> Result<PutDone, Unmet> {
    let Draft { location, version, bytes, hash, .. } = *draft;
    let new = publish::Prepared { location, version };
    let Some(old) = found else {
        insert(store, memory, index, hash, new)?;
        return Ok(PutDone { location, grown_bytes: bytes as i64, inserted: true });
    };
    publish::update(memory, old, new);
    let old_bytes = old.header.record_bytes();
    heap.free(old.location.place(), old_bytes);
    Ok(PutDone { location, grown_bytes: bytes as i64 - old_bytes as i64, inserted: false })
}

/// Gives a draft's block back.
pub fn discard_draft(heap: &mut Heap, draft: &Draft) {
    heap.free(draft.location.place(), draft.bytes);
}

/// Carries a put out at once. `scratch` holds the record's image.
///
/// # Errors
/// What the ack says when it was not carried out; nothing has changed then.
pub fn put(
    store: &Store,
    memory: &mut Memory,
    index: &mut Index,
    heap: &mut Heap,
    ask: PutAsk<'_>,
    scratch: &mut Vec<u8>,
) -> Result<PutDone, Unmet> {
    judge(ask.condition, ask.kind, ask.found.as_ref())?;
    let draft = draft(memory, heap, &ask, scratch)?;
    publish_draft(store, memory, index, heap, &draft, ask.found.as_ref()).inspect_err(|_| discard_draft(heap, &draft))
}

/// Splits on the way to a vacant slot. Each split deepens the segment by one bit; the directory bounds them.
fn insert(store: &Store, memory: &mut Memory, index: &mut Index, hash: KeyHash, new: publish::Prepared) -> Result<(), Unmet> {
    loop {
        let segment = index.entry_of(hash).segment();
        if let Some(slot) = Index::vacant(memory, segment, hash) {
            publish::insert(memory, slot, new);
            return Ok(());
        }
        index.split(memory, store.pools(), hash, store.hash_seed())?;
    }
}

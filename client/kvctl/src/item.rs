//! A key as the server tells it in a scan: what it holds, and its JSON, which `load` reads back.

use crate::context::Context;
use crate::failure::Done;
use crate::json_bytes;
use serde_json::{Value as Json, json};
use sidewire::{Kind, ScanItem};
use sidewire_common::layout::lock_word::{LockState, LockWord};

/// What a key holds.
pub enum Content<'a> {
    /// Bytes.
    Value(&'a [u8]),
    /// A counter's value.
    Counter(i64),
    /// The number that a sequence hands out next.
    Sequence(i64),
    /// A lock.
    Lock {
        /// Whether a client holds it.
        held: bool,
    },
}

/// A scan that tells values leaves out long ones: this one's is read. `None` when the key is gone meanwhile.
pub fn complete(context: &Context, mut item: ScanItem) -> Done<Option<ScanItem>> {
    if item.kind != Kind::Value || item.value.len() as u64 == item.value_bytes {
        return Ok(Some(item));
    }
    let Some(value) = context.session()?.get(&item.key)? else { return Ok(None) };
    (item.version, item.ttl_ms) = (value.version(), value.expires_in_ms());
    item.value = value.to_vec();
    item.value_bytes = item.value.len() as u64;
    Ok(Some(item))
}

/// What the key holds.
pub fn content(item: &ScanItem) -> Content<'_> {
    match item.kind {
        Kind::Value => Content::Value(&item.value),
        Kind::Counter => Content::Counter(item.cell),
        Kind::Sequence => Content::Sequence(item.cell),
        Kind::Lock => Content::Lock { held: matches!(LockWord::from_raw(item.cell as u64).state(), LockState::Held { .. }) },
    }
}

/// One object; with what the key holds, if `values`.
pub fn json(item: &ScanItem, values: bool) -> Json {
    let mut object = json_bytes::object("key", &item.key);
    object.insert("kind".into(), json!(item.kind.name()));
    object.insert("version".into(), json!(item.version.raw().to_string()));
    if let Some(left) = item.ttl_ms {
        object.insert("expires_in_ms".into(), json!(left));
    }
    match content(item) {
        Content::Value(value) => {
            object.insert("value_bytes".into(), json!(item.value_bytes));
            if values {
                json_bytes::insert(&mut object, "value", value);
            }
        }
        Content::Counter(number) if values => drop(object.insert("counter".into(), json!(number))),
        Content::Sequence(number) if values => drop(object.insert("sequence".into(), json!(number))),
        Content::Lock { held } if values => drop(object.insert("held".into(), json!(held))),
        _ => {}
    }
    object.into()
}

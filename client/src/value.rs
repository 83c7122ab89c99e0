//! Values, where the fabric put them.

use crate::op::Record;
use sidewire_common::layout::record::Version;
use sidewire_common::memory::Buffer;
use std::fmt;
use std::ops::{Deref, Range};

/// A value in the registered buffer it was read into; the buffer goes back to its session when this is dropped.
pub struct Value {
    buffer: Buffer,
    range: Range<usize>,
    version: Version,
    expires_in_ms: Option<u64>,
}

impl Value {
    #[inline]
    pub(crate) fn new(record: Record) -> Self {
        let Record { buffer, whole, expires_in_ms } = record;
        let range = whole.value_at..whole.value_at + whole.value_len;
        Self { buffer, range, version: whole.version, expires_in_ms }
    }

    /// Its version, for conditional writes.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Milliseconds that it had left when it was read, if it goes away by itself.
    #[must_use]
    pub fn expires_in_ms(&self) -> Option<u64> {
        self.expires_in_ms
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer.bytes()[self.range.clone()]
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("bytes", &self.len()).field("version", &self.version).finish()
    }
}

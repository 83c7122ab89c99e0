//! Registered buffers of a thread, by size class; pools are added as they are needed, up to a bound.

use super::{Buffer, BufferPool, Mapping};
use crate::fabric::{Access, Fabric, FabricError};
use crate::layout::{record, request};
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::sync::Arc;

/// Bytes of the smallest class; each small class has eight times the bytes of the one before.
const CLASS_BYTES_FIRST: usize = 512;
const CLASS_SHIFT: u32 = 3;
/// Classes up to 256 KiB; each larger class has twice the bytes of the one before.
const SMALL_CLASSES: usize = 4;
const SMALL_BYTES_MAX: usize = CLASS_BYTES_FIRST << (CLASS_SHIFT * (SMALL_CLASSES as u32 - 1));
const CLASSES: usize = SMALL_CLASSES + (VALUE_BYTES_MAX / SMALL_BYTES_MAX).ilog2() as usize;
/// What a large buffer has beyond its power of two: header and keys around a value of that length.
const AROUND_BYTES: usize = 16 << 10;
const _: () = assert!(AROUND_BYTES >= request::HEADER_BYTES + record::HEADER_BYTES + 2 * KEY_BYTES_MAX + record::UNIT_BYTES);
/// Bytes that one more pool takes, unless one buffer of its class is larger.
const POOL_BYTES: usize = 256 << 10;
/// Bytes of all pools of a thread, besides one pool of each class.
const THREAD_BYTES_MAX: usize = 256 << 20;

const fn class_bytes(class: usize) -> usize {
    if class < SMALL_CLASSES {
        return CLASS_BYTES_FIRST << (class as u32 * CLASS_SHIFT);
    }
    (SMALL_BYTES_MAX << (class + 1 - SMALL_CLASSES)) + AROUND_BYTES
}

/// Why there is no buffer.
#[derive(Debug, thiserror::Error)]
pub enum BuffersError {
    /// Too many are in use.
    #[error("too many buffers are in use")]
    Full,
    /// The fabric or the kernel refused a pool.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// The pools of a thread: a client's session, or a worker that writes to its backups.
pub struct Buffers {
    fabric: Arc<dyn Fabric>,
    pools: [Vec<BufferPool>; CLASSES],
    bytes: usize,
}

impl Buffers {
    /// No pools yet.
    #[must_use]
    pub fn new(fabric: Arc<dyn Fabric>) -> Self {
        Self { fabric, pools: Default::default(), bytes: 0 }
    }

    /// The class of buffers that hold `bytes` bytes.
    #[inline]
    fn class_of(bytes: usize) -> usize {
        let bits = |bytes: usize| usize::BITS - bytes.saturating_sub(1).leading_zeros();
        if bytes <= SMALL_BYTES_MAX {
            return bits(bytes).saturating_sub(CLASS_BYTES_FIRST.ilog2()).div_ceil(CLASS_SHIFT) as usize;
        }
        let doublings = bits(bytes.saturating_sub(AROUND_BYTES)).saturating_sub(SMALL_BYTES_MAX.ilog2()).max(1);
        SMALL_CLASSES - 1 + doublings as usize
    }

    /// A buffer of at least `bytes` bytes.
    ///
    /// # Errors
    /// [`BuffersError::Full`] when too many are in use, or what the fabric says.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Result<Buffer, BuffersError> {
        let class = Self::class_of(bytes);
        let pools = self.pools.get_mut(class).ok_or(BuffersError::Full)?;
        if let Some(buffer) = pools.last().and_then(BufferPool::take) {
            return Ok(buffer);
        }
        // The pool that has some is asked first the next time.
        if let Some(at) = pools.iter().position(|pool| pool.free() > 0) {
            let last = pools.len() - 1;
            pools.swap(at, last);
            return pools[last].take().ok_or(BuffersError::Full);
        }
        self.grow(class)
    }

    #[cold]
    fn grow(&mut self, class: usize) -> Result<Buffer, BuffersError> {
        let slot = class_bytes(class);
        let bytes = POOL_BYTES.max(slot);
        if !self.pools[class].is_empty() && self.bytes + bytes > THREAD_BYTES_MAX {
            return Err(BuffersError::Full);
        }
        let map = Mapping::anonymous("buffers", bytes).map_err(FabricError::from)?;
        let map = Arc::new(map);
        let registered = self.fabric.register(&map, Access::Local)?;
        let pool = BufferPool::new(map, registered, slot);
        let buffer = pool.take().ok_or(BuffersError::Full)?;
        self.bytes += bytes;
        self.pools[class].push(pool);
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::record::{UNIT_BYTES, record_bytes};
    use crate::limits::{STAGING_BYTES_MAX, value_bytes_max};

    #[test]
    fn every_record_and_request_has_a_class() {
        for (bytes, class) in [
            (1, 0),
            (512, 0),
            (513, 1),
            (4096, 1),
            (4097, 2),
            (32 << 10, 2),
            (262_016, 3),
            (256 << 10, 3),
            (262_145, 4),
            (1 << 20, 5),
            (16 << 20, 9),
            (64 << 20, 11),
        ] {
            assert_eq!(Buffers::class_of(bytes), class);
            assert!(class_bytes(class) >= bytes);
        }
        let largest = record_bytes(KEY_BYTES_MAX, value_bytes_max(STAGING_BYTES_MAX)).next_multiple_of(UNIT_BYTES);
        for mib in [1, 16, 64] {
            let record = record_bytes(KEY_BYTES_MAX, mib << 20).next_multiple_of(UNIT_BYTES);
            assert!(class_bytes(Buffers::class_of(record)) <= record + AROUND_BYTES, "a value of {mib} MiB wastes memory");
        }
        let class = Buffers::class_of(largest + KEY_BYTES_MAX);
        assert!(class < CLASSES && class_bytes(class) >= largest);
    }
}

//! Registered private buffers: ours to look at, except while they are lent to posted work.
//!
//! The contract of the fabric is that a posted buffer belongs to the driver until the work's completion.
//! [`Buffer::lend`] marks it, [`Buffer::give_back`] takes the completion's work id; in between it cannot be
//! looked at, and a buffer dropped in between is never used again (its slot is lost, and counted).

use super::Mapping;
use crate::fabric::{Registered, WorkId};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

struct Pool {
    // Dropped in this order: the registration ends (a true fence) before the memory goes.
    registered: Registered,
    map: Arc<Mapping>,
    slot_bytes: usize,
    free: RefCell<Vec<u32>>,
    lost: Cell<u32>,
}

/// A pool of equal registered buffers that belongs to one thread.
#[derive(Clone)]
pub struct BufferPool(Rc<Pool>);

impl BufferPool {
    /// Divides a registered mapping into `map.len() / slot_bytes` buffers.
    ///
    /// # Panics
    /// When `slot_bytes` is zero or larger than the mapping, or `registered` is not a registration of it.
    #[must_use]
    pub fn new(map: Arc<Mapping>, registered: Registered, slot_bytes: usize) -> Self {
        assert!(slot_bytes > 0 && slot_bytes <= map.len() && registered.bytes() <= map.len());
        let slots = u32::try_from(registered.bytes() / slot_bytes).unwrap_or(u32::MAX);
        let free = RefCell::new((0..slots).rev().collect());
        Self(Rc::new(Pool { registered, map, slot_bytes, free, lost: Cell::new(0) }))
    }

    /// Takes a buffer, if one is free.
    #[must_use]
    #[inline]
    pub fn take(&self) -> Option<Buffer> {
        let slot = self.0.free.borrow_mut().pop()?;
        Some(Buffer { pool: Rc::clone(&self.0), slot, lent: None })
    }

    /// Bytes of each buffer.
    #[must_use]
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        self.0.slot_bytes
    }

    /// Buffers that are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.free.borrow().len()
    }

    /// Buffers lost because they were dropped while lent.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.0.lost.get()
    }
}

/// One registered buffer. Exclusive: it cannot be cloned, and goes back to its pool when dropped.
pub struct Buffer {
    pool: Rc<Pool>,
    slot: u32,
    lent: Option<WorkId>,
}

/// The right of one posted work request to use a buffer's bytes. Made by [`Buffer::lend`], consumed by a post.
#[derive(Debug)]
pub struct Lent {
    pointer: *mut u8,
    len: usize,
    lkey: u32,
}

impl Lent {
    /// Bytes lent.
    #[must_use]
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty loan is as good as any other")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first byte's address, for a NIC.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        self.pointer as u64
    }

    /// The local key of its registration.
    #[must_use]
    #[inline]
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    #[inline]
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// The bytes, copied.
    #[cfg(feature = "sim")]
    pub(crate) fn copied(&self) -> Vec<u8> {
        // SAFETY: `Lent` stands for `len` live initialised bytes that nothing writes until it is given back.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }.to_vec()
    }

    /// Copies bytes in, as far as they fit.
    #[cfg(feature = "sim")]
    pub(crate) fn land(&self, at: usize, bytes: &[u8]) {
        let room = self.len.saturating_sub(at);
        let bytes = &bytes[..bytes.len().min(room)];
        if !bytes.is_empty() {
            // SAFETY: `at < len`, so the pointer stays inside the lent range.
            let to = unsafe { self.pointer.add(at) };
            // SAFETY: `Lent` stands for exclusive use of its range, `bytes` fits into it and lies elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
    }
}

impl Buffer {
    /// Bytes of the buffer.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.pool.slot_bytes
    }

    #[inline]
    fn pointer(&self) -> *mut u8 {
        let at = self.slot as usize * self.pool.slot_bytes;
        // SAFETY: `slot < registered.bytes() / slot_bytes` and `registered.bytes() <= map.len()`, so the whole
        // slot lies in the live mapping.
        unsafe { self.pool.map.pointer().add(at) }
    }

    /// Its bytes.
    ///
    /// # Panics
    /// When it is lent to posted work.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        assert!(self.lent.is_none(), "a lent buffer belongs to the fabric");
        // SAFETY: the slot is live and initialised (mappings are zero-filled), this `Buffer` is its only
        // owner, and nothing is lent, so nobody writes it while `&self` lives.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.pool.slot_bytes) }
    }

    /// Its bytes, to write.
    ///
    /// # Panics
    /// When it is lent to posted work.
    #[must_use]
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.lent.is_none(), "a lent buffer belongs to the fabric");
        // SAFETY: as in `bytes`, and `&mut self` makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.pool.slot_bytes) }
    }

    /// Lends a range to the work request `id`.
    ///
    /// # Panics
    /// When it is lent already, or `range` is not within the buffer.
    #[must_use]
    #[inline]
    pub fn lend(&mut self, range: Range<usize>, id: WorkId) -> Lent {
        assert!(self.lent.is_none(), "a buffer is lent to one work request at a time");
        assert!(range.start <= range.end && range.end <= self.pool.slot_bytes);
        self.lent = Some(id);
        // SAFETY: `range.start <= slot_bytes`, so the pointer stays inside the slot or one past it.
        let pointer = unsafe { self.pointer().add(range.start) };
        Lent { pointer, len: range.end - range.start, lkey: self.pool.registered.lkey() }
    }

    /// Takes it back, once the completion of `id` has been polled or the post of `id` was refused.
    ///
    /// # Panics
    /// When it was not lent to `id`.
    #[inline]
    pub fn give_back(&mut self, id: WorkId) {
        assert_eq!(self.lent, Some(id), "only the completion of its own work frees a buffer");
        self.lent = None;
    }

    /// Whether posted work holds it.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.lent.is_some()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.lent.is_none() {
            self.pool.free.borrow_mut().push(self.slot);
        } else {
            self.pool.lost.set(self.pool.lost.get() + 1);
        }
    }
}

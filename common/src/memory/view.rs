//! Bounds-checked access to bytes that another process or a NIC may touch at any moment.
//!
//! Words are atomics; longer runs are copied with relaxed atomic loads and stores of at most eight bytes, so
//! a race gives torn bytes, never undefined behaviour. What the bytes mean is checked by their readers.

use super::Mapping;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// An access outside the view, or a store to one that is read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("access of {bytes} bytes at {offset} is not possible in a view of {limit} bytes (writable: {writable})")]
pub struct OutOfView {
    /// Where the access began.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
    /// The view's length.
    pub limit: usize,
    /// Whether stores are possible at all.
    pub writable: bool,
}

/// A part of a [`Mapping`]. Cheap to clone; keeps the mapping alive.
#[derive(Clone, Debug)]
pub struct View {
    map: Arc<Mapping>,
    start: usize,
    len: usize,
}

impl View {
    /// The whole mapping.
    #[must_use]
    pub fn whole(map: Arc<Mapping>) -> Self {
        let len = map.len();
        Self { map, start: 0, len }
    }

    /// A part of this view.
    ///
    /// # Errors
    /// When `range` does not lie within it.
    pub fn part(&self, range: Range<usize>) -> Result<Self, OutOfView> {
        let bytes = range.end.checked_sub(range.start).ok_or_else(|| self.out(range.start, 0))?;
        self.check(range.start, bytes)?;
        Ok(Self { map: Arc::clone(&self.map), start: self.start + range.start, len: bytes })
    }

    /// Its length, bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of its first byte in this process, as a number.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        self.map.address() + self.start as u64
    }

    /// The mapping it is a part of.
    #[must_use]
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.map
    }

    #[cold]
    fn out(&self, offset: usize, bytes: usize) -> OutOfView {
        OutOfView { offset, bytes, limit: self.len, writable: self.map.is_writable() }
    }

    #[inline]
    fn check(&self, offset: usize, bytes: usize) -> Result<(), OutOfView> {
        if offset <= self.len && bytes <= self.len - offset { Ok(()) } else { Err(self.out(offset, bytes)) }
    }

    #[inline]
    fn check_store(&self, offset: usize, bytes: usize) -> Result<(), OutOfView> {
        self.check(offset, bytes)?;
        if self.map.is_writable() { Ok(()) } else { Err(self.out(offset, bytes)) }
    }

    /// A pointer `offset` bytes into the view; the caller has checked `offset <= len`.
    #[inline]
    fn pointer(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.len);
        // SAFETY: `start + offset <= mapping length` (constructors check `start + len`, callers `offset <= len`),
        // so the result stays within, or one past, the one allocation that the live mapping is.
        unsafe { self.map.pointer().add(self.start + offset) }
    }

    /// Tells the CPU that the bytes around `offset` will be touched soon. Nothing happens when it is not in the view.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        if offset < self.len {
            super::prefetch::prefetch(self.pointer(offset));
        }
    }

    #[inline]
    fn word(&self, offset: usize) -> Result<&AtomicU64, OutOfView> {
        self.check(offset, WORD)?;
        let pointer = self.pointer(offset);
        if !(pointer as usize).is_multiple_of(WORD) {
            return Err(self.out(offset, WORD));
        }
        // SAFETY: eight bytes from `pointer` lie in the live mapping (checked), it is aligned (checked), the
        // reference cannot outlive `self.map`, and all access in this process to shared memory is atomic.
        Ok(unsafe { AtomicU64::from_ptr(pointer.cast()) })
    }

    /// Loads the aligned word at `offset` (relaxed).
    ///
    /// # Errors
    /// When it is not in the view or not aligned.
    #[inline]
    pub fn load(&self, offset: usize) -> Result<u64, OutOfView> {
        Ok(self.word(offset)?.load(Ordering::Relaxed))
    }

    /// Loads the aligned word at `offset`; later loads are not moved before it.
    ///
    /// # Errors
    /// When it is not in the view or not aligned.
    #[inline]
    pub fn load_acquire(&self, offset: usize) -> Result<u64, OutOfView> {
        // Relaxed and a fence, since only relaxed loads are promised to work on read-only pages.
        let value = self.word(offset)?.load(Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::Acquire);
        Ok(value)
    }

    #[inline]
    fn word_to_store(&self, offset: usize) -> Result<&AtomicU64, OutOfView> {
        if self.map.is_writable() { self.word(offset) } else { Err(self.out(offset, WORD)) }
    }

    /// Stores the aligned word at `offset` (relaxed).
    ///
    /// # Errors
    /// When it is not in the view, not aligned, or the view is read-only.
    #[inline]
    pub fn store(&self, offset: usize, value: u64) -> Result<(), OutOfView> {
        self.word_to_store(offset)?.store(value, Ordering::Relaxed);
        self.stored(offset, &value.to_ne_bytes());
        Ok(())
    }

    /// Stores the aligned word at `offset` after all earlier stores, as CPUs and devices see them.
    ///
    /// # Errors
    /// When it is not in the view, not aligned, or the view is read-only.
    #[inline]
    pub fn store_release(&self, offset: usize, value: u64) -> Result<(), OutOfView> {
        let word = self.word_to_store(offset)?;
        super::to_device_barrier();
        word.store(value, Ordering::Release);
        self.stored(offset, &value.to_ne_bytes());
        Ok(())
    }

    /// Stores, then a full fence: what is loaded afterwards is loaded after the store is visible.
    ///
    /// # Errors
    /// When it is not in the view, not aligned, or the view is read-only.
    #[inline]
    pub fn store_seq_cst(&self, offset: usize, value: u64) -> Result<(), OutOfView> {
        self.word_to_store(offset)?.store(value, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        self.stored(offset, &value.to_ne_bytes());
        Ok(())
    }

    /// Adds (wrapping) by the CPU and returns the old value. Only a cell's executor may call it.
    ///
    /// # Errors
    /// When it is not in the view, not aligned, or the view is read-only.
    #[inline]
    pub fn fetch_add(&self, offset: usize, delta: u64) -> Result<u64, OutOfView> {
        let old = self.word_to_store(offset)?.fetch_add(delta, Ordering::AcqRel);
        self.stored(offset, &old.wrapping_add(delta).to_ne_bytes());
        Ok(old)
    }

    /// Compares and swaps by the CPU and returns the old value. Only a cell's executor may call it.
    ///
    /// # Errors
    /// When it is not in the view, not aligned, or the view is read-only.
    #[inline]
    pub fn compare_swap(&self, offset: usize, expect: u64, swap: u64) -> Result<u64, OutOfView> {
        let word = self.word_to_store(offset)?;
        let (Ok(old) | Err(old)) = word.compare_exchange(expect, swap, Ordering::AcqRel, Ordering::Acquire);
        if old == expect {
            self.stored(offset, &swap.to_ne_bytes());
        }
        Ok(old)
    }

    /// Copies `into.len()` bytes from `offset`: words in any order, each whole if it is aligned in the mapping.
    ///
    /// # Errors
    /// When the range is not in the view.
    #[inline]
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfView> {
        self.check(offset, into.len())?;
        // SAFETY: the source range is in the live mapping (checked); the destination is an exclusive slice of
        // the same length, and no exclusive Rust slice overlaps shared memory, which never is behind one.
        unsafe { load_bytes(self.pointer(offset), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies `from` to `offset` with relaxed stores.
    ///
    /// # Errors
    /// When the range is not in the view, or it is read-only.
    #[inline]
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), OutOfView> {
        self.check_store(offset, from.len())?;
        // SAFETY: the destination range is in the live, writable mapping (checked); the source is a shared
        // slice of the same length, outside shared memory.
        unsafe { store_bytes(from.as_ptr(), self.pointer(offset), from.len()) };
        self.stored(offset, from);
        Ok(())
    }

    /// Tells a simulated world of a store by the CPU.
    #[cfg(feature = "sim")]
    fn stored(&self, offset: usize, bytes: &[u8]) {
        if let Some(region) = self.map.watched() {
            crate::fabric::sim::stored(region, self.start + offset, bytes);
        }
    }

    #[cfg(not(feature = "sim"))]
    #[inline]
    #[allow(clippy::unused_self, reason = "the other one needs it")]
    fn stored(&self, _: usize, _: &[u8]) {}

    /// Copies `from` to `offset` as a simulated NIC does.
    #[cfg(feature = "sim")]
    pub(crate) fn land(&self, offset: usize, from: &[u8]) -> Result<(), OutOfView> {
        self.check_store(offset, from.len())?;
        // SAFETY: as in `copy_in`.
        unsafe { store_bytes(from.as_ptr(), self.pointer(offset), from.len()) };
        Ok(())
    }

    /// Copies `bytes` bytes at `offset` to `to` at `to_offset`; both may be touched by others.
    ///
    /// # Errors
    /// When either range is not in its view, or `to` is read-only.
    pub fn copy_to(&self, offset: usize, to: &Self, to_offset: usize, bytes: usize) -> Result<(), OutOfView> {
        self.check(offset, bytes)?;
        to.check_store(to_offset, bytes)?;
        let mut piece = [0u8; 4096];
        let mut done = 0;
        while done < bytes {
            let now = piece.len().min(bytes - done);
            self.copy_out(offset + done, &mut piece[..now])?;
            to.copy_in(to_offset + done, &piece[..now])?;
            done += now;
        }
        Ok(())
    }

    /// Copies `bytes` bytes at `offset` into lent private memory (for the `shm` fabric's reads).
    pub(crate) fn copy_to_lent(&self, offset: usize, lent: &super::Lent) -> Result<(), OutOfView> {
        self.check(offset, lent.len())?;
        // SAFETY: the source range is checked; `Lent` stands for exclusive use of `len` live bytes that
        // nothing else touches until it is given back.
        unsafe { load_bytes(self.pointer(offset), lent.pointer(), lent.len()) };
        Ok(())
    }

    /// Copies lent private memory to `offset` (for the `shm` fabric's writes).
    pub(crate) fn copy_from_lent(&self, offset: usize, lent: &super::Lent) -> Result<(), OutOfView> {
        self.check_store(offset, lent.len())?;
        // SAFETY: the destination range is checked and writable; `Lent` stands for `len` live initialised
        // bytes that nothing writes until it is given back.
        unsafe { store_bytes(lent.pointer(), self.pointer(offset), lent.len()) };
        Ok(())
    }
}

/// Loads `len` bytes from shared `from` into private `to`.
///
/// # Safety
/// `from` is valid for atomic loads of `len` bytes; `to` is valid for writes of `len` bytes, private to the
/// caller and does not overlap `from`.
#[inline]
unsafe fn load_bytes(from: *mut u8, to: *mut u8, len: usize) {
    let head = from.align_offset(WORD).min(len);
    let mut at = 0;
    while at < len {
        let whole = at >= head && len - at >= WORD;
        // SAFETY: `at < len`, so the pointer stays inside its range.
        let source = unsafe { from.add(at) };
        // SAFETY: as above.
        let target = unsafe { to.add(at) };
        if whole {
            // SAFETY: eight bytes from `source` are inside the range and aligned, since `at - head` is a
            // multiple of eight; the caller promises validity for atomic loads.
            let word = unsafe { AtomicU64::from_ptr(source.cast()) }.load(Ordering::Relaxed);
            // SAFETY: eight bytes from `target` are inside the private range.
            unsafe { target.cast::<u64>().write_unaligned(word) };
            at += WORD;
        } else {
            // SAFETY: one byte at `source` is inside the range.
            let byte = unsafe { AtomicU8::from_ptr(source) }.load(Ordering::Relaxed);
            // SAFETY: one byte at `target` is inside the private range.
            unsafe { target.write(byte) };
            at += 1;
        }
    }
}

/// Stores `len` bytes from private `from` to shared `to`.
///
/// # Safety
/// `from` is valid for reads of `len` bytes and not written meanwhile; `to` is valid for atomic stores of
/// `len` bytes and does not overlap `from`.
#[inline]
unsafe fn store_bytes(from: *const u8, to: *mut u8, len: usize) {
    let head = to.align_offset(WORD).min(len);
    let mut at = 0;
    while at < len {
        let whole = at >= head && len - at >= WORD;
        // SAFETY: `at < len`, so the pointer stays inside its range.
        let source = unsafe { from.add(at) };
        // SAFETY: as above.
        let target = unsafe { to.add(at) };
        if whole {
            // SAFETY: eight bytes from `source` are inside the private range.
            let word = unsafe { source.cast::<u64>().read_unaligned() };
            // SAFETY: eight bytes from `target` are inside the range and aligned, as in `load_bytes`.
            unsafe { AtomicU64::from_ptr(target.cast()) }.store(word, Ordering::Relaxed);
            at += WORD;
        } else {
            // SAFETY: one byte at `source` is inside the private range.
            let byte = unsafe { source.read() };
            // SAFETY: one byte at `target` is inside the range.
            unsafe { AtomicU8::from_ptr(target) }.store(byte, Ordering::Relaxed);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view(bytes: usize) -> View {
        View::whole(Arc::new(Mapping::anonymous("view-test", bytes).unwrap()))
    }

    proptest! {
        #[test]
        fn bytes_come_back_whatever_the_alignment(offset in 0usize..64, data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let view = view(4096);
            view.copy_in(offset, &data).unwrap();
            let mut back = vec![0; data.len()];
            view.copy_out(offset, &mut back).unwrap();
            prop_assert_eq!(back, data);
        }

        #[test]
        fn nothing_outside_is_touched(offset in any::<usize>(), len in 0usize..9000) {
            let view = view(4096);
            let mut into = vec![0; len];
            let inside = offset.checked_add(len).is_some_and(|end| end <= 4096);
            prop_assert_eq!(view.copy_out(offset, &mut into).is_ok(), inside);
            prop_assert_eq!(view.copy_in(offset, &into).is_ok(), inside);
            prop_assert_eq!(view.load(offset).is_ok(), offset % 8 == 0 && offset < 4096);
        }
    }

    #[test]
    fn a_part_is_bounded_by_its_own_range() {
        let part = view(4096).part(64..128).unwrap();
        part.store(0, 7).unwrap();
        assert_eq!(part.load(0), Ok(7));
        assert!(part.load(64).is_err());
        assert!(part.part(0..65).is_err());
    }
}

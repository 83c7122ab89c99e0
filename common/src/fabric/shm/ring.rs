//! The ring of immediates: one word an entry, consumed by lap parity.
//!
//! Entry, high to low: immediate (32 bits) | length (31) | parity of the lap (1).
//!
//! The producer's position is nowhere in shared memory: the consumer sees by the parity whether an entry is
//! of this lap. The consumer publishes how many it has taken, in memory of its own, so that the producer
//! never overruns. Fresh memory is zero, so the parity of the first lap is 1.

use crate::memory::View;
use std::sync::atomic::{Ordering, fence};

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = size_of::<u64>();
const LENGTH_BITS: u32 = 31;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// Words that two processes share: a [`View`] whose length its maker has checked, or loom's stand-in.
pub(super) trait Words {
    /// Loads word `index`; later loads stay behind it.
    fn load_acquire(&self, index: usize) -> u64;
    /// Stores word `index` after all earlier stores and loads.
    fn store_release(&self, index: usize, value: u64);
    /// Orders every earlier store before every later load.
    fn full_fence();
}

const WITHIN: &str = "a ring is given a view of its own length";

impl Words for View {
    #[inline]
    fn load_acquire(&self, index: usize) -> u64 {
        self.load_acquire(index * ENTRY_BYTES).expect(WITHIN)
    }

    #[inline]
    fn store_release(&self, index: usize, value: u64) {
        self.store_release(index * ENTRY_BYTES, value).expect(WITHIN);
    }

    #[inline]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// The peer broke the protocol of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Misbehaved(pub(super) &'static str);

/// What a producer knows of the room in its ring. The peer's word for it is checked.
pub(super) struct Credit<M = View> {
    taken: M,
    capacity: u64,
    produced: u64,
    seen: u64,
}

impl<M: Words> Credit<M> {
    pub(super) fn new(taken: M, capacity: u32) -> Self {
        Self { taken, capacity: u64::from(capacity), produced: 0, seen: 0 }
    }

    /// Entries that the peer has taken, by its own word.
    #[inline]
    fn look(&self) -> Result<u64, Misbehaved> {
        let taken = self.taken.load_acquire(0);
        if taken < self.seen {
            return Err(Misbehaved("its position moved back"));
        }
        if taken > self.produced {
            return Err(Misbehaved("its position is beyond what was produced"));
        }
        Ok(taken)
    }

    /// Entries that fit now.
    #[inline]
    pub(super) fn room(&self) -> Result<u64, Misbehaved> {
        Ok(self.capacity - (self.produced - self.look()?))
    }

    /// Whether `entries` fit. The peer's word is loaded only when they did not fit at the last look.
    #[inline]
    pub(super) fn has(&mut self, entries: u64) -> Result<bool, Misbehaved> {
        if self.capacity - (self.produced - self.seen) < entries {
            self.seen = self.look()?;
        }
        Ok(self.capacity - (self.produced - self.seen) >= entries)
    }

    /// The position of the next entry, which counts as produced.
    #[inline]
    pub(super) fn advance(&mut self) -> u64 {
        self.produced += 1;
        self.produced - 1
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }
}

#[inline]
fn parity(position: u64, capacity: u64) -> u64 {
    ((position / capacity) & 1) ^ 1
}

#[inline]
fn slot(position: u64, capacity: u64) -> usize {
    (position & (capacity - 1)) as usize
}

/// The producer's end.
pub(super) struct ImmediateSender<M = View> {
    ring: M,
    /// Room.
    pub(super) credit: Credit<M>,
}

impl<M: Words> ImmediateSender<M> {
    /// `ring` has `capacity` words, a power of two; `taken` is the consumer's word.
    pub(super) fn new(ring: M, taken: M, capacity: u32) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self { ring, credit: Credit::new(taken, capacity) }
    }

    /// Publishes an entry, and with it every store before. The caller has made sure that it fits.
    #[inline]
    pub(super) fn push(&mut self, imm: u32, bytes: u32) {
        debug_assert!(u64::from(bytes) <= LENGTH_MASK);
        let capacity = self.credit.capacity();
        let position = self.credit.advance();
        let word = (u64::from(imm) << 32) | (u64::from(bytes) << 1) | parity(position, capacity);
        self.ring.store_release(slot(position, capacity), word);
    }
}

/// The consumer's end.
pub(super) struct ImmediateReceiver<M = View> {
    ring: M,
    taken: M,
    capacity: u64,
    position: u64,
}

impl<M: Words> ImmediateReceiver<M> {
    /// `ring` has `capacity` words, a power of two; `taken` is this end's own word.
    pub(super) fn new(ring: M, taken: M, capacity: u32) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self { ring, taken, capacity: u64::from(capacity), position: 0 }
    }

    #[inline]
    fn peek(&self) -> Option<u64> {
        let word = self.ring.load_acquire(slot(self.position, self.capacity));
        (word & 1 == parity(self.position, self.capacity)).then_some(word)
    }

    /// Whether an entry waits.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.peek().is_some()
    }

    /// Takes the next entry: immediate and length, both the peer's word.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u32, u32)> {
        let word = self.peek()?;
        self.position += 1;
        Some(((word >> 32) as u32, ((word >> 1) & LENGTH_MASK) as u32))
    }

    /// Gives what was taken back to the producer.
    #[inline]
    pub(super) fn release(&mut self) {
        self.taken.store_release(0, self.position);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::memory::Mapping;
    use std::sync::Arc;

    pub(in crate::fabric::shm) fn memory(bytes: usize) -> View {
        View::whole(Arc::new(Mapping::anonymous("ring-test", bytes).unwrap())).part(0..bytes).unwrap()
    }

    fn pair(capacity: u32) -> (ImmediateSender, ImmediateReceiver, View) {
        let (ring, taken) = (memory(capacity as usize * ENTRY_BYTES), memory(8));
        let receiver = ImmediateReceiver::new(ring.clone(), taken.clone(), capacity);
        (ImmediateSender::new(ring, taken.clone(), capacity), receiver, taken)
    }

    #[test]
    fn many_laps_lose_and_invent_nothing() {
        let (mut sender, mut receiver, _) = pair(4);
        let (mut sent, mut seen) = (0u32, 0u32);
        for round in 0..1000u32 {
            for _ in 0..round % 6 {
                if sender.credit.has(1).unwrap() {
                    sender.push(sent, sent * 2);
                    sent += 1;
                }
            }
            for _ in 0..round % 5 {
                if let Some(entry) = receiver.next() {
                    assert_eq!(entry, (seen, seen * 2));
                    seen += 1;
                }
            }
            receiver.release();
            assert_eq!(u64::from(sent - seen), 4 - sender.credit.room().unwrap());
            assert_eq!(receiver.waits(), sent != seen);
        }
        assert!(seen > 1000);
    }

    #[test]
    fn a_hostile_position_is_noticed() {
        let (mut sender, mut receiver, taken) = pair(2);
        sender.push(1, 0);
        sender.push(2, 0);
        taken.store(0, 3).unwrap();
        assert_eq!(sender.credit.has(1), Err(Misbehaved("its position is beyond what was produced")));
        receiver.next();
        receiver.release();
        assert_eq!(sender.credit.has(1), Ok(true));
        taken.store(0, 0).unwrap();
        assert_eq!(sender.credit.has(2), Err(Misbehaved("its position moved back")));
        assert_eq!(sender.credit.room(), Err(Misbehaved("its position moved back")));
    }

    #[test]
    fn the_widest_length_survives() {
        let (mut sender, mut receiver, _) = pair(1);
        sender.push(u32::MAX, LENGTH_MASK as u32);
        assert_eq!(receiver.next(), Some((u32::MAX, LENGTH_MASK as u32)));
        assert_eq!(receiver.next(), None);
    }
}

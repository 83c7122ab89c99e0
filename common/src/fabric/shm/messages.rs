//! Message rings: slots of a header word and [`MESSAGE_BYTES`].
//!
//! Header, high to low: lap from 1 (32 bits, wrapping) | length (32).
//!
//! A slot is the receiver's from the moment it was announced until [`MessageReceiver::take`] has copied it
//! out. The length is captured when it is announced; a sender that scribbles on a slot tears its own message.

use super::ring::{Credit, Misbehaved};
use crate::limits::MESSAGE_BYTES;
use crate::memory::View;

const HEADER_BYTES: usize = size_of::<u64>();
/// Bytes of a slot: whole cache lines.
pub(super) const SLOT_BYTES: usize = (HEADER_BYTES + MESSAGE_BYTES).next_multiple_of(64);
const WITHIN: &str = "a ring is given a view of its own length";

#[inline]
fn lap(position: u64, capacity: u64) -> u32 {
    (position / capacity) as u32 + 1
}

#[inline]
fn slot_at(position: u64, capacity: u64) -> usize {
    (position & (capacity - 1)) as usize * SLOT_BYTES
}

/// The sender's end.
pub(super) struct MessageSender {
    slots: View,
    /// Room.
    pub(super) credit: Credit,
}

impl MessageSender {
    /// `slots` holds `capacity` slots, a power of two; `taken` is the receiver's word.
    pub(super) fn new(slots: View, taken: View, capacity: u32) -> Self {
        debug_assert!(capacity.is_power_of_two() && slots.len() == capacity as usize * SLOT_BYTES);
        Self { slots, credit: Credit::new(taken, capacity) }
    }

    /// Publishes a message. The caller has made sure that it fits, and that it is not too long.
    pub(super) fn push(&mut self, message: &[u8]) {
        debug_assert!(message.len() <= MESSAGE_BYTES);
        let capacity = self.credit.capacity();
        let position = self.credit.advance();
        let at = slot_at(position, capacity);
        self.slots.copy_in(at + HEADER_BYTES, message).expect(WITHIN);
        let header = (u64::from(lap(position, capacity)) << 32) | message.len() as u64;
        self.slots.store_release(at, header).expect(WITHIN);
    }
}

/// The receiver's end.
pub(super) struct MessageReceiver {
    slots: View,
    taken: View,
    capacity: u64,
    /// Next to be announced.
    position: u64,
    /// First that was not copied out yet; what is below it is the sender's again.
    oldest: u64,
    /// Lengths of the slots that were announced and not copied out.
    announced: Vec<Option<u16>>,
}

impl MessageReceiver {
    /// `slots` holds `capacity` slots, a power of two; `taken` is this end's own word.
    pub(super) fn new(slots: View, taken: View, capacity: u32) -> Self {
        debug_assert!(capacity.is_power_of_two() && slots.len() == capacity as usize * SLOT_BYTES);
        let announced = vec![None; capacity as usize];
        Self { slots, taken, capacity: u64::from(capacity), position: 0, oldest: 0, announced }
    }

    #[inline]
    fn peek(&self) -> Option<u64> {
        if self.position - self.oldest == self.capacity {
            return None;
        }
        let header = self.slots.load_acquire(slot_at(self.position, self.capacity)).expect(WITHIN);
        ((header >> 32) as u32 == lap(self.position, self.capacity)).then_some(header)
    }

    /// Whether a message waits.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.peek().is_some()
    }

    /// Announces the next message: the slot it waits in.
    pub(super) fn next(&mut self) -> Option<Result<u32, Misbehaved>> {
        let length = self.peek()? & u64::from(u32::MAX);
        if length > MESSAGE_BYTES as u64 {
            return Some(Err(Misbehaved("a message is longer than its slot")));
        }
        let slot = (self.position & (self.capacity - 1)) as usize;
        self.announced[slot] = Some(length as u16);
        self.position += 1;
        Some(Ok(slot as u32))
    }

    /// Copies an announced message out and gives its slot back.
    pub(super) fn take(&mut self, slot: u32, into: &mut [u8; MESSAGE_BYTES]) -> Option<usize> {
        let length = usize::from(self.announced.get_mut(slot as usize)?.take()?);
        self.slots.copy_out(slot as usize * SLOT_BYTES + HEADER_BYTES, &mut into[..length]).expect(WITHIN);
        self.release();
        Some(length)
    }

    fn release(&mut self) {
        let before = self.oldest;
        while self.oldest < self.position && self.announced[(self.oldest & (self.capacity - 1)) as usize].is_none() {
            self.oldest += 1;
        }
        if self.oldest != before {
            self.taken.store_release(0, self.oldest).expect(WITHIN);
        }
    }
}

const _: () = assert!(MESSAGE_BYTES <= u16::MAX as usize && SLOT_BYTES.is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::super::ring::tests::memory;
    use super::*;

    fn pair(capacity: u32) -> (MessageSender, MessageReceiver, View) {
        let (slots, taken) = (memory(capacity as usize * SLOT_BYTES), memory(8));
        let receiver = MessageReceiver::new(slots.clone(), taken.clone(), capacity);
        (MessageSender::new(slots.clone(), taken, capacity), receiver, slots)
    }

    #[test]
    fn many_laps_of_every_length() {
        let (mut sender, mut receiver, _) = pair(4);
        let mut into = [0; MESSAGE_BYTES];
        for round in 0..2000usize {
            let message = vec![round as u8; round % (MESSAGE_BYTES + 1)];
            assert!(sender.credit.has(1).unwrap());
            sender.push(&message);
            let slot = receiver.next().unwrap().unwrap();
            assert_eq!(receiver.next(), None);
            assert_eq!(receiver.take(slot, &mut into), Some(message.len()));
            assert_eq!(&into[..message.len()], &message);
            assert_eq!(receiver.take(slot, &mut into), None);
        }
    }

    /// A slot that was announced but not copied out must not be given back when a later one is.
    #[test]
    fn slots_come_back_in_order_though_taken_out_of_it() {
        let (mut sender, mut receiver, _) = pair(2);
        let mut into = [0; MESSAGE_BYTES];
        sender.push(b"first");
        sender.push(b"second");
        let (first, second) = (receiver.next().unwrap().unwrap(), receiver.next().unwrap().unwrap());
        assert_eq!(receiver.take(second, &mut into), Some(6));
        assert!(!sender.credit.has(1).unwrap());
        assert_eq!(receiver.take(first, &mut into), Some(5));
        assert_eq!(&into[..5], b"first");
        assert!(sender.credit.has(2).unwrap());
    }

    #[test]
    fn a_hostile_header_is_noticed_and_a_late_change_ignored() {
        let (mut sender, mut receiver, slots) = pair(2);
        let mut into = [0; MESSAGE_BYTES];
        sender.push(b"four");
        let slot = receiver.next().unwrap().unwrap();
        slots.store(0, (1 << 32) | 0xffff).unwrap();
        assert_eq!(receiver.take(slot, &mut into), Some(4));
        slots.store(SLOT_BYTES, (1 << 32) | (MESSAGE_BYTES as u64 + 1)).unwrap();
        assert!(receiver.next().unwrap().is_err());
        assert_eq!(receiver.take(1, &mut into), None);
        assert_eq!(receiver.take(9, &mut into), None);
    }

    /// A sender that does not wait for room must not make the receiver announce a slot that is still out.
    #[test]
    fn an_overrun_is_not_announced() {
        let (mut sender, mut receiver, slots) = pair(1);
        sender.push(b"one");
        receiver.next().unwrap().unwrap();
        slots.store(0, (2 << 32) | 3).unwrap();
        assert!(!receiver.waits() && receiver.next().is_none());
    }
}

//! Which records exist for certain: all below a mark, which moves up as inserts are acknowledged.
//!
//! Threads take record numbers in order and their inserts end in any order. A reader may only ask for
//! records whose insert is acknowledged, and the mark is the number of those without a gap below.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

/// Inserts that may be open above the mark.
const WINDOW: u64 = 1 << 16;

/// Hands out record numbers and keeps the mark.
#[derive(Debug)]
pub struct Acked {
    next: AtomicU64,
    end: u64,
    mark: AtomicU64,
    /// One bit for each record from the mark on: acknowledged.
    window: Box<[AtomicU64]>,
    advancing: Mutex<()>,
    /// Records whose insert failed: taken again before new ones, or the mark would stay below them.
    returned: Mutex<Vec<u64>>,
    returned_count: AtomicUsize,
    returned_total: AtomicU64,
}

/// The next record to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This one.
    Record(u64),
    /// The window is full: others must finish first.
    Wait,
    /// All are taken.
    End,
}

impl Acked {
    /// Records below `present` exist; those up to `end` may be inserted.
    pub fn new(present: u64, end: u64) -> Self {
        Self {
            next: AtomicU64::new(present),
            end,
            mark: AtomicU64::new(present),
            window: (0..WINDOW / 64).map(|_| AtomicU64::new(0)).collect(),
            advancing: Mutex::new(()),
            returned: Mutex::new(Vec::new()),
            returned_count: AtomicUsize::new(0),
            returned_total: AtomicU64::new(0),
        }
    }

    /// All records below exist.
    #[inline]
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Acquire)
    }

    /// Takes a record to insert.
    pub fn take(&self) -> Next {
        if self.returned_count.load(Ordering::Relaxed) > 0 {
            let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(record) = returned.pop() {
                self.returned_count.store(returned.len(), Ordering::Relaxed);
                return Next::Record(record);
            }
        }
        let step = |next: u64| (next < self.end && next.saturating_sub(self.mark()) < WINDOW).then_some(next + 1);
        match self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(record) => Next::Record(record),
            Err(next) if next >= self.end => Next::End,
            Err(_) => Next::Wait,
        }
    }

    /// The insert of `record` failed; somebody takes it again.
    pub fn give_back(&self, record: u64) {
        self.returned_total.fetch_add(1, Ordering::Relaxed);
        self.untake(record);
    }

    /// The insert of `record` was never begun; somebody else takes it.
    pub fn untake(&self, record: u64) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.push(record);
        self.returned_count.store(returned.len(), Ordering::Relaxed);
    }

    /// Inserts that failed so far.
    pub fn returned_total(&self) -> u64 {
        self.returned_total.load(Ordering::Relaxed)
    }

    /// The insert of `record` is acknowledged.
    pub fn acknowledge(&self, record: u64) {
        let (word, bit) = self.place(record);
        word.fetch_or(bit, Ordering::SeqCst);
        // Who holds the mutex looks again after letting go of it, so no acknowledged record is left behind.
        while self.is_set(self.mark.load(Ordering::SeqCst)) {
            match self.advancing.try_lock() {
                Ok(_held) => self.advance(),
                Err(TryLockError::WouldBlock) => return,
                Err(TryLockError::Poisoned(_)) => self.advance(),
            }
        }
    }

    fn advance(&self) {
        let mut mark = self.mark.load(Ordering::SeqCst);
        while self.is_set(mark) {
            let (word, bit) = self.place(mark);
            word.fetch_and(!bit, Ordering::SeqCst);
            mark += 1;
        }
        self.mark.store(mark, Ordering::SeqCst);
    }

    fn place(&self, record: u64) -> (&AtomicU64, u64) {
        let place = record % WINDOW;
        (&self.window[(place / 64) as usize], 1 << (place % 64))
    }

    fn is_set(&self, record: u64) -> bool {
        let (word, bit) = self.place(record);
        word.load(Ordering::SeqCst) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_waits_for_the_gap() {
        let acked = Acked::new(10, 20);
        assert_eq!((acked.take(), acked.take(), acked.take()), (Next::Record(10), Next::Record(11), Next::Record(12)));
        acked.acknowledge(12);
        acked.acknowledge(11);
        assert_eq!(acked.mark(), 10);
        acked.acknowledge(10);
        assert_eq!(acked.mark(), 13);
    }

    #[test]
    fn a_failed_insert_is_taken_again() {
        let acked = Acked::new(0, 2);
        assert_eq!((acked.take(), acked.take(), acked.take()), (Next::Record(0), Next::Record(1), Next::End));
        acked.give_back(0);
        acked.acknowledge(1);
        assert_eq!(acked.mark(), 0);
        assert_eq!(acked.take(), Next::Record(0));
        acked.acknowledge(0);
        assert_eq!((acked.mark(), acked.take()), (2, Next::End));
    }

    #[test]
    fn a_held_back_insert_stops_the_others_at_the_window() {
        let acked = Acked::new(0, u64::MAX);
        assert_eq!(acked.take(), Next::Record(0));
        for record in 1..WINDOW {
            assert_eq!(acked.take(), Next::Record(record));
            acked.acknowledge(record);
        }
        assert_eq!((acked.take(), acked.mark()), (Next::Wait, 0));
        acked.acknowledge(0);
        assert_eq!((acked.mark(), acked.take()), (WINDOW, Next::Record(WINDOW)));
    }

    #[test]
    fn threads_lose_no_record() {
        const RECORDS: u64 = 200_000;
        let acked = Acked::new(0, RECORDS);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    loop {
                        match acked.take() {
                            Next::Record(record) => acked.acknowledge(record),
                            Next::Wait => std::thread::yield_now(),
                            Next::End => break,
                        }
                    }
                });
            }
        });
        assert_eq!(acked.mark(), RECORDS);
    }
}

//! What will happen, in the order of simulated time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(super) enum Event {
    /// A thread goes on, unless it has gone on since (`token`).
    Wake { thread: u32, token: u64 },
    /// A work request arrives at its target.
    Start { pair: u32, serial: u64 },
    /// The next words of it are read or written.
    Step { pair: u32, serial: u64 },
    /// Its answer arrives.
    Finish { pair: u32, serial: u64 },
    /// It has had no answer for too long.
    GiveUp { pair: u32, serial: u64 },
    /// Stores of a thread become visible.
    Drain { thread: u32 },
    /// Nothing of a dead process answers any more.
    Reap { process: u32 },
    /// The director acts.
    Call { number: u64 },
}

#[derive(PartialEq, Eq)]
struct Entry {
    at: u64,
    order: u64,
    event: Event,
}

impl Ord for Entry {
    /// The earliest is the greatest, as the heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events to come; those of one moment happen in the order in which they were added.
#[derive(Default)]
pub(super) struct Agenda {
    entries: BinaryHeap<Entry>,
    added: u64,
}

impl Agenda {
    /// Adds an event at `at` nanoseconds.
    pub(super) fn add(&mut self, at: u64, event: Event) {
        self.added += 1;
        self.entries.push(Entry { at, order: self.added, event });
    }

    /// Takes the next one.
    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        self.entries.pop().map(|entry| (entry.at, entry.event))
    }

    /// When the next one is.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.entries.peek().map(|entry| entry.at)
    }
}

//! Exactly once: what became of each sequence of one session, until the client says that it knows.
//!
//! A window begins at the *line*, below which the client knows all outcomes. It outlives the connection: a client
//! that lost one asks after its open sequences on the next.

use sidewire_common::layout::ack::{Ack, Outcome};
use std::collections::VecDeque;

/// Sequences that a session may have above its line. More than its message credits, since a resolve has a
/// sequence of its own.
const WINDOW_MAX: u64 = 4 * sidewire_common::limits::MESSAGE_CREDITS as u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    /// Never seen.
    Unseen,
    /// Accepted, no outcome yet.
    Open,
    /// Carried out or refused; the ack that told it.
    Ended(Ack),
}

/// The window of one session at one worker.
#[derive(Debug)]
pub(super) struct Window {
    line: u64,
    entries: VecDeque<Entry>,
}

/// What to do with an arrived sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// Carry it out.
    New,
    /// It ended before: tell it again.
    Again(Ack),
    /// It is being carried out; its ack will come.
    Open,
    /// Below the line that the client drew.
    BelowLine,
    /// Further above the line than any honest client is.
    TooFar,
}

impl Default for Window {
    fn default() -> Self {
        Self { line: 1, entries: VecDeque::new() }
    }
}

impl Window {
    /// A request with this sequence has arrived; its header says that all below `resolved_below` is known.
    pub(super) fn arrive(&mut self, sequence: u64, resolved_below: u64) -> Arrival {
        self.raise_line(resolved_below);
        let Some(at) = sequence.checked_sub(self.line) else { return Arrival::BelowLine };
        if at >= WINDOW_MAX {
            return Arrival::TooFar;
        }
        match self.entry(at) {
            Entry::Ended(ack) => Arrival::Again(*ack),
            Entry::Open => Arrival::Open,
            entry => {
                *entry = Entry::Open;
                Arrival::New
            }
        }
    }

    fn entry(&mut self, at: u64) -> &mut Entry {
        while self.entries.len() as u64 <= at {
            self.entries.push_back(Entry::Unseen);
        }
        &mut self.entries[at as usize]
    }

    fn raise_line(&mut self, to: u64) {
        while self.line < to && self.entries.pop_front().is_some() {
            self.line += 1;
        }
        self.line = self.line.max(to);
    }

    /// A sequence has ended.
    pub(super) fn end(&mut self, ack: Ack) {
        if let Some(at) = ack.sequence.checked_sub(self.line)
            && let Some(entry) = self.entries.get_mut(at as usize)
        {
            *entry = Entry::Ended(ack);
        }
    }

    /// What became of `sequence`; one never seen is refused from now on. `None` while it is being carried out.
    pub(super) fn resolve(&mut self, sequence: u64) -> Option<Ack> {
        let plain = |outcome| Ack { sequence, outcome, detail: 0, figures: [0; 2] };
        let Some(at) = sequence.checked_sub(self.line) else { return Some(plain(Outcome::Forgotten)) };
        if at >= WINDOW_MAX {
            return Some(plain(Outcome::NeverDone));
        }
        match self.entry(at) {
            Entry::Ended(ack) => Some(*ack),
            Entry::Open => None,
            entry => {
                let never = plain(Outcome::NeverDone);
                *entry = Entry::Ended(never);
                Some(never)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(sequence: u64) -> Ack {
        Ack { sequence, outcome: Outcome::Done, detail: 0, figures: [7, 0] }
    }

    #[test]
    fn a_duplicate_is_told_again_and_never_carried_out_again() {
        let mut window = Window::default();
        assert_eq!(window.arrive(1, 1), Arrival::New);
        assert_eq!(window.arrive(1, 1), Arrival::Open);
        window.end(done(1));
        assert_eq!(window.arrive(1, 1), Arrival::Again(done(1)));
    }

    #[test]
    fn what_was_asked_after_unseen_is_refused_when_it_arrives() {
        let mut window = Window::default();
        assert_eq!(window.resolve(3).map(|a| a.outcome), Some(Outcome::NeverDone));
        assert!(matches!(window.arrive(3, 1), Arrival::Again(ack) if ack.outcome == Outcome::NeverDone));
    }

    #[test]
    fn below_the_line_nothing_is_accepted() {
        let mut window = Window::default();
        assert_eq!(window.arrive(1, 1), Arrival::New);
        window.end(done(1));
        assert_eq!(window.arrive(2, 2), Arrival::New);
        assert_eq!(window.arrive(1, 1), Arrival::BelowLine);
        assert_eq!(window.resolve(1).map(|a| a.outcome), Some(Outcome::Forgotten));
        assert_eq!(window.resolve(2), None, "still being carried out");
    }

    #[test]
    fn the_window_is_bounded() {
        let mut window = Window::default();
        assert_eq!(window.arrive(1 + WINDOW_MAX, 1), Arrival::TooFar);
        assert_eq!(window.arrive(WINDOW_MAX, 1), Arrival::New);
        assert_eq!(window.arrive(u64::MAX, u64::MAX), Arrival::New, "the client gave up all below");
        assert!(window.entries.len() as u64 <= WINDOW_MAX);
    }
}

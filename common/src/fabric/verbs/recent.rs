//! The last work requests of an endpoint, for the log when it breaks.

use super::post::Kind;
use crate::fabric::WorkId;
use std::fmt;

/// Work requests that are remembered.
const REMEMBERED: usize = 64;

/// What is remembered of one.
#[derive(Clone, Copy)]
pub(super) struct Note {
    pub(super) id: WorkId,
    pub(super) kind: Kind,
    pub(super) bytes: u32,
    pub(super) addr: u64,
    pub(super) rkey: u32,
}

/// A ring of the last ones.
pub(super) struct Recent {
    notes: Box<[Option<Note>; REMEMBERED]>,
    count: usize,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { notes: Box::new([None; REMEMBERED]), count: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, note: Note) {
        self.notes[self.count % REMEMBERED] = Some(note);
        self.count = self.count.wrapping_add(1);
    }
}

impl fmt::Display for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (newer, older) = self.notes.split_at(self.count % REMEMBERED);
        let mut separator = "";
        for note in older.iter().chain(newer).flatten() {
            write!(f, "{separator}{:#x} {:?} {}@{:#x}/{:#x}", note.id.0, note.kind, note.bytes, note.addr, note.rkey)?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_the_order_is_kept() {
        let mut recent = Recent::new();
        for id in 0..70 {
            recent.push(Note { id: WorkId(id), kind: Kind::Read, bytes: 8, addr: 0, rkey: 0 });
        }
        let text = recent.to_string();
        assert!(text.starts_with("0x6 Read") && text.ends_with("0x45 Read 8@0x0/0x0"), "{text}");
    }
}

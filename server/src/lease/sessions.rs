//! Which endpoints of which sessions a client has, so that there are never too many.

use sidewire_common::limits::{SESSIONS_PER_CLIENT_MAX, WORKERS_MAX};
use std::collections::BTreeMap;

const _: () = assert!(WORKERS_MAX <= u64::BITS);

/// An endpoint that a session asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Its one read endpoint.
    Reader,
    /// Its write endpoint to a worker.
    Writer {
        /// The worker.
        worker: u32,
    },
}

/// The client has as many sessions as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManySessions;

#[derive(Default, Debug)]
struct Session {
    reader: bool,
    writers: u64,
    opening: u32,
}

/// A client's sessions.
#[derive(Default, Debug)]
pub struct Sessions(BTreeMap<u32, Session>);

impl Sessions {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Write endpoints open or being opened, which is how many staging rings there can be.
    #[must_use]
    pub fn rings(&self) -> u64 {
        self.0.values().map(|s| u64::from(s.writers.count_ones())).sum()
    }

    /// Whether the session has this endpoint already; opening it again replaces it.
    #[must_use]
    pub fn has(&self, session: u32, wanted: Wanted) -> bool {
        self.0.get(&session).is_some_and(|s| match wanted {
            Wanted::Reader => s.reader,
            Wanted::Writer { worker } => s.writers & (1 << worker) != 0,
        })
    }

    /// Begins to open an endpoint. [`Sessions::opened`] or [`Sessions::failed`] must follow.
    ///
    /// # Errors
    /// When it would be one session too many.
    pub fn open(&mut self, session: u32, wanted: Wanted) -> Result<(), TooManySessions> {
        if !self.0.contains_key(&session) && self.count() >= SESSIONS_PER_CLIENT_MAX {
            return Err(TooManySessions);
        }
        let entry = self.0.entry(session).or_default();
        entry.opening += 1;
        match wanted {
            Wanted::Reader => entry.reader = true,
            Wanted::Writer { worker } => entry.writers |= 1 << worker,
        }
        Ok(())
    }

    /// The endpoint is there.
    pub fn opened(&mut self, session: u32) {
        if let Some(entry) = self.0.get_mut(&session) {
            entry.opening = entry.opening.saturating_sub(1);
        }
    }

    /// The endpoint could not be opened; an earlier one in its place is gone too.
    pub fn failed(&mut self, session: u32, wanted: Wanted) {
        self.opened(session);
        let Some(entry) = self.0.get_mut(&session) else { return };
        match wanted {
            Wanted::Reader => entry.reader = false,
            Wanted::Writer { worker } => entry.writers &= !(1 << worker),
        }
        if entry.opening == 0 && !entry.reader && entry.writers == 0 {
            self.0.remove(&session);
        }
    }

    /// The session ends.
    pub fn close(&mut self, session: u32) {
        self.0.remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_endpoints_of_known_ones_are_not() {
        let mut sessions = Sessions::default();
        for session in 0..SESSIONS_PER_CLIENT_MAX {
            sessions.open(session, Wanted::Reader).unwrap();
            sessions.opened(session);
        }
        assert_eq!(sessions.open(9999, Wanted::Reader), Err(TooManySessions));
        sessions.open(3, Wanted::Writer { worker: 63 }).unwrap();
        sessions.opened(3);
        assert_eq!(sessions.rings(), 1);
        sessions.close(3);
        assert_eq!(sessions.rings(), 0);
        sessions.open(9999, Wanted::Reader).unwrap();
    }

    #[test]
    fn a_session_whose_only_endpoint_failed_is_gone() {
        let mut sessions = Sessions::default();
        sessions.open(1, Wanted::Reader).unwrap();
        sessions.open(1, Wanted::Writer { worker: 0 }).unwrap();
        sessions.failed(1, Wanted::Reader);
        assert_eq!(sessions.count(), 1, "the writer is still being opened");
        sessions.failed(1, Wanted::Writer { worker: 0 });
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn a_replaced_endpoint_counts_once() {
        let mut sessions = Sessions::default();
        for _ in 0..2 {
            sessions.open(1, Wanted::Writer { worker: 5 }).unwrap();
            sessions.opened(1);
        }
        assert!(sessions.has(1, Wanted::Writer { worker: 5 }));
        assert_eq!((sessions.count(), sessions.rings()), (1, 1));
    }
}

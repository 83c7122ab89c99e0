//! Who stands at the door.
//!
//! A stranger has [`HELLO_TIME`] to say who he is. There are at most [`STRANGERS_MAX`] of them; when one more
//! comes, the longest waiting of the user with the most of them is shown out, so that one user cannot keep
//! the others out.

use crate::id::ClientId;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that a stranger has. An honest one needs microseconds, or a while on a machine that is busy with others.
const HELLO_TIME: Duration = Duration::from_secs(3);
/// Strangers at once.
const STRANGERS_MAX: usize = 128;

struct Stranger {
    socket: Arc<OwnedFd>,
    uid: u32,
    until: Instant,
}

struct Linked {
    socket: Arc<OwnedFd>,
    client: ClientId,
}

/// Strangers and linked clients, by names that rise. Dropping a socket here closes it, unless the ledger
/// has it too.
#[derive(Default)]
pub(super) struct Callers {
    strangers: BTreeMap<u64, Stranger>,
    linked: HashMap<u64, Linked>,
}

impl Callers {
    /// A stranger comes; another may have to go.
    pub(super) fn enter(&mut self, name: u64, socket: OwnedFd, uid: u32, now: Instant) {
        if self.strangers.len() >= STRANGERS_MAX {
            self.show_one_out();
        }
        self.strangers.insert(name, Stranger { socket: Arc::new(socket), uid, until: now + HELLO_TIME });
    }

    fn show_one_out(&mut self) {
        let mut count: HashMap<u32, usize> = HashMap::new();
        for stranger in self.strangers.values() {
            *count.entry(stranger.uid).or_default() += 1;
        }
        let crowd = count.into_iter().max_by_key(|&(_, strangers)| strangers).map(|(uid, _)| uid);
        let oldest = self.strangers.iter().find(|(_, stranger)| Some(stranger.uid) == crowd).map(|(&name, _)| name);
        if let Some(name) = oldest {
            self.strangers.remove(&name);
        }
    }

    /// The caller's socket, and whether he is linked.
    pub(super) fn find(&self, name: u64) -> Option<(&Arc<OwnedFd>, bool)> {
        let stranger = self.strangers.get(&name).map(|stranger| (&stranger.socket, false));
        stranger.or_else(|| self.linked.get(&name).map(|linked| (&linked.socket, true)))
    }

    /// A stranger turns out to be a client's link.
    pub(super) fn link(&mut self, name: u64, client: ClientId) {
        if let Some(Stranger { socket, .. }) = self.strangers.remove(&name) {
            self.linked.insert(name, Linked { socket, client });
        }
    }

    /// A caller goes; the client whose link it was, if it was one.
    pub(super) fn leave(&mut self, name: u64) -> Option<ClientId> {
        self.strangers.remove(&name);
        self.linked.remove(&name).map(|linked| linked.client)
    }

    /// Shows out the strangers whose time is over. They came in order, and all have the same time.
    pub(super) fn keep_time(&mut self, now: Instant) {
        while self.strangers.first_entry().is_some_and(|first| first.get().until <= now) {
            self.strangers.pop_first();
        }
    }

    /// When that must be done next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.strangers.first_key_value().map(|(_, stranger)| stranger.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    /// One user with many strangers must not push another user's only one out.
    #[test]
    fn the_crowd_pays_for_itself() {
        let (mut callers, now) = (Callers::default(), Instant::now());
        callers.enter(0, socket(), 7, now);
        for name in 1..=2 * STRANGERS_MAX as u64 {
            callers.enter(name, socket(), 8, now);
        }
        assert_eq!(callers.strangers.len(), STRANGERS_MAX);
        assert!(callers.find(0).is_some() && callers.find(1).is_none());
        callers.keep_time(now + HELLO_TIME);
        assert!(callers.strangers.is_empty() && callers.next_deadline().is_none());
    }

    #[test]
    fn a_link_outlives_its_time_as_a_stranger() {
        let (mut callers, now) = (Callers::default(), Instant::now());
        let client = ClientId::random();
        callers.enter(5, socket(), 7, now);
        callers.link(5, client);
        callers.keep_time(now + HELLO_TIME);
        assert!(callers.find(5).is_some_and(|(_, linked)| linked));
        assert_eq!(callers.leave(5), Some(client));
        assert_eq!(callers.leave(5), None);
    }
}

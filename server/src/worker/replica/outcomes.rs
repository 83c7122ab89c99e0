//! How writes of clients have ended, told by their primary for the time after it.

use super::super::Resolution;
use super::super::poll_loop::Worker;
use sidewire_common::clock::BootInstant;
use sidewire_common::id::ClientId;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::replica_entry::Origin;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the outcomes of a session are kept that tells of none any more. A client asks within its call's deadline, and of
/// another server when its session here has ended long ago: that it ended, or was swept, says nothing.
const KEPT: Duration = Duration::from_secs(600);
/// How often what is kept is looked through.
const AGED_EACH: Duration = Duration::from_secs(5);
/// Sessions of which anything is kept; beyond, a quarter of them is dropped, those first that have told nothing for longest.
const SESSIONS_MAX: usize = 1 << 16;
/// Outcomes kept of one session and worker; its client has at most as many open.
const KEPT_MAX: usize = 256;

/// How a write has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The version that it made; 0 for a delete.
    pub version: u64,
    /// See [`figure`](sidewire_common::layout::replica_entry::Entry::figure).
    pub figure: u64,
}

#[derive(Debug, Default)]
struct Session {
    line: u64,
    ended: BTreeMap<u64, (u32, Ended)>,
    touched: Option<BootInstant>,
}

#[derive(Debug, Default)]
pub(in super::super) struct Outcomes {
    /// By client, session and the primary's worker.
    sessions: BTreeMap<(ClientId, u32, u32), Session>,
    aged: Option<BootInstant>,
}

impl Outcomes {
    /// A write of `shard` has ended.
    pub fn add(&mut self, origin: &Origin, shard: u32, ended: Ended, now: BootInstant) {
        let session = self.sessions.entry((origin.client, origin.session, origin.worker)).or_default();
        session.touched = Some(now);
        if origin.resolved_below > session.line {
            session.line = origin.resolved_below;
            session.ended = session.ended.split_off(&origin.resolved_below);
        }
        if origin.sequence >= session.line {
            session.ended.insert(origin.sequence, (shard, ended));
        }
        while session.ended.len() > KEPT_MAX {
            session.ended.pop_first();
        }
        if self.sessions.len() > SESSIONS_MAX {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut touched: Vec<Option<BootInstant>> = self.sessions.values().map(|session| session.touched).collect();
        let (_, &mut limit, _) = touched.select_nth_unstable(SESSIONS_MAX / 4);
        self.sessions.retain(|_, session| session.touched > limit);
    }

    /// How a write has ended; `None` when it was never carried out.
    pub fn find(&self, client: ClientId, session: u32, sequence: u64, shard: u32) -> Option<Ended> {
        let of_session = self.sessions.range((client, session, 0)..=(client, session, u32::MAX));
        of_session.filter_map(|(_, s)| s.ended.get(&sequence)).find(|(of, _)| *of == shard).map(|(_, ended)| *ended)
    }

    /// Drops what nobody will ask after.
    pub fn age(&mut self, now: BootInstant) {
        if self.aged.is_some_and(|at| now.since(at) < AGED_EACH) {
            return;
        }
        self.aged = Some(now);
        self.sessions.retain(|_, session| session.touched.is_some_and(|at| now.since(at) < KEPT));
    }

    /// All outcomes of a shard, for a copy that begins.
    pub fn of_shard(&self, shard: u32) -> Vec<(Origin, Ended)> {
        let mut all = Vec::new();
        for ((client, session, worker), kept) in &self.sessions {
            for (&sequence, (_, ended)) in kept.ended.iter().filter(|(_, (of, _))| *of == shard) {
                let origin = Origin {
                    client: *client,
                    session: *session,
                    worker: *worker,
                    sequence,
                    resolved_below: kept.line.min(sequence),
                };
                all.push((origin, *ended));
            }
        }
        all
    }
}

impl Worker {
    /// What became of a write that a client had sent to an earlier primary.
    pub(in super::super) fn resolve_origin(&self, client: ClientId, session: u32, sequence: u64, shard: u32) -> Resolution {
        let plain = |outcome| Resolution { outcome, version: 0, figure: 0 };
        if let Err(unmet) = self.replication.admits(shard) {
            return plain(unmet.outcome);
        }
        match self.replication.outcomes.find(client, session, sequence, shard) {
            Some(Ended { version, figure }) => Resolution { outcome: Outcome::Done, version, figure },
            // Nothing of an earlier reign is taken any more, so it never will be.
            None => plain(Outcome::NeverDone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(sequence: u64, resolved_below: u64) -> Origin {
        Origin { client: ClientId(7), session: 1, worker: 2, sequence, resolved_below }
    }

    #[test]
    fn an_outcome_is_kept_until_the_client_knows_it() {
        let mut outcomes = Outcomes::default();
        let (now, ended) = (BootInstant::from_nanos(1), Ended { version: 9, figure: 0 });
        outcomes.add(&origin(1, 1), 3, ended, now);
        outcomes.add(&origin(2, 1), 4, ended, now);
        assert_eq!(outcomes.find(ClientId(7), 1, 1, 3), Some(ended));
        assert_eq!(outcomes.find(ClientId(7), 1, 1, 4), None, "another worker's write of that number");
        assert_eq!(outcomes.of_shard(4).len(), 1);
        outcomes.add(&origin(3, 3), 3, ended, now);
        assert_eq!(outcomes.find(ClientId(7), 1, 1, 3), None);
        assert_eq!(outcomes.find(ClientId(7), 1, 3, 3), Some(ended));
    }

    #[test]
    fn sessions_that_told_something_last_stay() {
        let mut outcomes = Outcomes::default();
        let ended = Ended { version: 9, figure: 0 };
        let of = |client: u128| Origin { client: ClientId(client), ..origin(1, 1) };
        let all = 1..=SESSIONS_MAX as u128 + 1;
        all.clone().for_each(|client| outcomes.add(&of(client), 3, ended, BootInstant::from_nanos(client as u64)));
        assert_eq!(outcomes.find(ClientId(1), 1, 1, 3), None);
        assert_eq!(outcomes.find(ClientId(*all.end()), 1, 1, 3), Some(ended));
        assert!((SESSIONS_MAX / 2..SESSIONS_MAX).contains(&outcomes.sessions.len()));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut outcomes = Outcomes::default();
        let ended = Ended { version: 9, figure: 0 };
        for sequence in 1..2000 {
            outcomes.add(&origin(sequence, 1), 3, ended, BootInstant::from_nanos(1));
        }
        assert_eq!(outcomes.of_shard(3).len(), KEPT_MAX);
        outcomes.age(BootInstant::from_nanos(1).plus(KEPT));
        assert!(outcomes.of_shard(3).is_empty());
    }
}

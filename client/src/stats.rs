//! What a client counts.

use parking_lot::Mutex;
use sidewire_common::layout::beat::GetStats;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the client was made. Sums over sessions; each figure is exact, their moments differ.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClientStats {
    /// Gets that ended, found or not.
    pub gets: u64,
    /// Reads posted for them.
    pub reads: u64,
    /// Gets answered from a cached location by one Read.
    pub location_hits: u64,
    /// Retries since a record was torn or of another life.
    pub retries_torn: u64,
    /// Retries since a record was superseded or deleted.
    pub retries_stale: u64,
    /// Retries since a segment had moved.
    pub retries_moved: u64,
    /// Retries since a record was pending.
    pub retries_pending: u64,
    /// Counter adds.
    pub adds: u64,
    /// Lock acquisitions.
    pub locks: u64,
    /// Results thrown away because the lease had run out.
    pub lease_discards: u64,
    /// Puts that were acknowledged.
    pub puts: u64,
    /// Deletes that were acknowledged.
    pub deletes: u64,
    /// Requests that were sent to workers, for writes and for what only a worker can tell.
    pub requests: u64,
    /// Messages that carried them: requests that wait together share one.
    pub messages: u64,
    /// Times that the client attached anew.
    pub reattaches: u64,
    /// Operations that went to another server, or there again, since one said that it is not the key's primary.
    pub rerouted_refused: u64,
    /// The same since the server was gone.
    pub rerouted_gone: u64,
    /// The same since the map had the key's shard elsewhere.
    pub rerouted_moved: u64,
    /// Writes to servers that are gone of which the successor told what became of them.
    pub resolved: u64,
}

impl ClientStats {
    /// Reads for each Get: 1 when locations are cached, 2 when they are not.
    #[must_use]
    pub fn reads_per_get(&self) -> f64 {
        if self.gets == 0 { 0.0 } else { self.reads as f64 / self.gets as f64 }
    }
}

/// A figure that one thread counts and others read.
#[derive(Default, Debug)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds. Only the thread that owns the session calls it, so that no locked instruction is needed.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One session's counts.
#[derive(Default, Debug)]
#[allow(missing_docs, reason = "named like the fields of ClientStats")]
pub(crate) struct SessionStats {
    pub gets: Count,
    pub reads: Count,
    pub location_hits: Count,
    pub retries_torn: Count,
    pub retries_stale: Count,
    pub retries_moved: Count,
    pub retries_pending: Count,
    pub adds: Count,
    pub locks: Count,
    pub lease_discards: Count,
    pub puts: Count,
    pub deletes: Count,
    pub requests: Count,
    pub messages: Count,
    pub rerouted_refused: Count,
    pub rerouted_gone: Count,
    pub rerouted_moved: Count,
    pub resolved: Count,
}

impl SessionStats {
    /// The figures now.
    pub fn figures(&self) -> ClientStats {
        ClientStats {
            gets: self.gets.value(),
            reads: self.reads.value(),
            location_hits: self.location_hits.value(),
            retries_torn: self.retries_torn.value(),
            retries_stale: self.retries_stale.value(),
            retries_moved: self.retries_moved.value(),
            retries_pending: self.retries_pending.value(),
            adds: self.adds.value(),
            locks: self.locks.value(),
            lease_discards: self.lease_discards.value(),
            puts: self.puts.value(),
            deletes: self.deletes.value(),
            requests: self.requests.value(),
            messages: self.messages.value(),
            rerouted_refused: self.rerouted_refused.value(),
            rerouted_gone: self.rerouted_gone.value(),
            rerouted_moved: self.rerouted_moved.value(),
            resolved: self.resolved.value(),
            reattaches: 0,
        }
    }
}

impl ClientStats {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            gets: self.gets + other.gets,
            reads: self.reads + other.reads,
            location_hits: self.location_hits + other.location_hits,
            retries_torn: self.retries_torn + other.retries_torn,
            retries_stale: self.retries_stale + other.retries_stale,
            retries_moved: self.retries_moved + other.retries_moved,
            retries_pending: self.retries_pending + other.retries_pending,
            adds: self.adds + other.adds,
            locks: self.locks + other.locks,
            lease_discards: self.lease_discards + other.lease_discards,
            puts: self.puts + other.puts,
            deletes: self.deletes + other.deletes,
            requests: self.requests + other.requests,
            messages: self.messages + other.messages,
            rerouted_refused: self.rerouted_refused + other.rerouted_refused,
            rerouted_gone: self.rerouted_gone + other.rerouted_gone,
            rerouted_moved: self.rerouted_moved + other.rerouted_moved,
            resolved: self.resolved + other.resolved,
            reattaches: self.reattaches + other.reattaches,
        }
    }

    /// What a heartbeat tells the server.
    pub(crate) fn for_beat(&self) -> GetStats {
        GetStats {
            gets: self.gets,
            reads: self.reads,
            location_hits: self.location_hits,
            retries_torn: self.retries_torn,
            retries_stale: self.retries_stale,
            retries_moved: self.retries_moved,
            retries_pending: self.retries_pending,
            adds: self.adds,
            locks: self.locks,
            lease_discards: self.lease_discards,
        }
    }
}

/// The counts of all sessions of a client.
#[derive(Default, Debug)]
pub(crate) struct AllStats {
    inner: Mutex<All>,
}

#[derive(Default, Debug)]
struct All {
    ended: ClientStats,
    sessions: Vec<Arc<SessionStats>>,
}

impl AllStats {
    /// A new session's counts.
    pub fn begin(&self) -> Arc<SessionStats> {
        let stats = Arc::<SessionStats>::default();
        self.adopt(&stats);
        stats
    }

    /// A session's counts belong to this sum too.
    pub fn adopt(&self, stats: &Arc<SessionStats>) {
        self.inner.lock().sessions.push(Arc::clone(stats));
    }

    /// A session has ended; its counts stay in the sum.
    pub fn end(&self, stats: &Arc<SessionStats>) {
        let mut all = self.inner.lock();
        all.sessions.retain(|s| !Arc::ptr_eq(s, stats));
        all.ended = all.ended.plus(&stats.figures());
    }

    /// The client has attached anew.
    pub fn reattached(&self) {
        self.inner.lock().ended.reattaches += 1;
    }

    /// Sums over all sessions.
    pub fn sum(&self) -> ClientStats {
        let all = self.inner.lock();
        all.sessions.iter().fold(all.ended, |sum, s| sum.plus(&s.figures()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_sessions_stay_in_the_sum() {
        let all = AllStats::default();
        let (one, two) = (all.begin(), all.begin());
        one.gets.add(3);
        one.reads.add(4);
        two.gets.add(1);
        all.end(&one);
        assert_eq!((all.sum().gets, all.sum().reads), (4, 4));
        assert!((all.sum().reads_per_get() - 1.0).abs() < f64::EPSILON);
    }
}

//! The difference and sum of a client's counts.

use sidewire::ClientStats;

/// Applies `f` to each count of two sets.
fn zip(a: ClientStats, b: ClientStats, f: impl Fn(u64, u64) -> u64) -> ClientStats {
    ClientStats {
        gets: f(a.gets, b.gets),
        reads: f(a.reads, b.reads),
        location_hits: f(a.location_hits, b.location_hits),
        retries_torn: f(a.retries_torn, b.retries_torn),
        retries_stale: f(a.retries_stale, b.retries_stale),
        retries_moved: f(a.retries_moved, b.retries_moved),
        retries_pending: f(a.retries_pending, b.retries_pending),
        adds: f(a.adds, b.adds),
        locks: f(a.locks, b.locks),
        lease_discards: f(a.lease_discards, b.lease_discards),
        puts: f(a.puts, b.puts),
        deletes: f(a.deletes, b.deletes),
        reattaches: f(a.reattaches, b.reattaches),
    }
}

/// What was counted between two looks.
pub fn since(before: ClientStats, after: ClientStats) -> ClientStats {
    zip(after, before, u64::saturating_sub)
}

/// The counts of two together.
pub fn sum(a: ClientStats, b: ClientStats) -> ClientStats {
    zip(a, b, u64::wrapping_add)
}

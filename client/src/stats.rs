//! What a client counts.

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
    /// Times that the client attached anew.
    pub reattaches: u64,
}

impl ClientStats {
    /// Reads for each Get: 1 when locations are cached, 2 when they are not.
    #[must_use]
    pub fn reads_per_get(&self) -> f64 {
        if self.gets == 0 { 0.0 } else { self.reads as f64 / self.gets as f64 }
    }
}

//! The difference and sum of a client's counts.

use sidewire::ClientStats;

/// An array of the fields named, both ways: one list, so that no count can take another's place.
macro_rules! in_order {
    ($($count:ident),* $(,)?) => {
        /// Counts that a client keeps.
        pub const COUNTS: usize = [$(stringify!($count)),*].len();

        /// The counts in a fixed order, which other processes of the same program share.
        pub fn to_array(stats: &ClientStats) -> [u64; COUNTS] {
            let ClientStats { $($count),* } = *stats;
            [$($count),*]
        }

        /// The other way round.
        pub fn from_array(counts: [u64; COUNTS]) -> ClientStats {
            let [$($count),*] = counts;
            ClientStats { $($count),* }
        }
    };
}

in_order!(
    gets,
    reads,
    location_hits,
    retries_torn,
    retries_stale,
    retries_moved,
    retries_pending,
    adds,
    locks,
    lease_discards,
    puts,
    deletes,
    requests,
    messages,
    reattaches,
    rerouted_refused,
    rerouted_gone,
    rerouted_moved,
    resolved,
);

/// Applies `f` to each count of two sets.
fn zip(a: ClientStats, b: ClientStats, f: impl Fn(u64, u64) -> u64) -> ClientStats {
    let (a, b) = (to_array(&a), to_array(&b));
    from_array(std::array::from_fn(|at| f(a[at], b[at])))
}

/// What was counted between two looks.
pub fn since(before: ClientStats, after: ClientStats) -> ClientStats {
    zip(after, before, u64::saturating_sub)
}

/// The counts of two together.
pub fn sum(a: ClientStats, b: ClientStats) -> ClientStats {
    zip(a, b, u64::wrapping_add)
}

//! The keys of a schedule: few, so that calls meet.

use rand::Rng;
use rand::rngs::SmallRng;
use sidewire_common::key::KeyHash;

const VALUES: u32 = 5;
const COUNTERS: u32 = 2;
/// Keys that fill one home bucket and its overflow bucket, and some.
const FILLERS: usize = 33;
/// Names to try until there are so many: 64 home buckets share them.
const NAMES_MAX: u32 = 20_000;

/// The keys. All have one tag, so that they share a segment until it splits.
pub struct Keys(());

impl Keys {
    /// The keys of every schedule.
    pub const fn new() -> Self {
        Self(())
    }

    /// A key that holds values.
    pub fn value(&self, rng: &mut SmallRng) -> String {
        format!("{{t}}v{}", rng.random_range(0..VALUES))
    }

    /// A key that holds a counter.
    pub fn counter(&self, rng: &mut SmallRng) -> String {
        format!("{{t}}c{}", rng.random_range(0..COUNTERS))
    }

    /// The key of the sequence.
    pub fn sequence(&self) -> String {
        "{t}s".into()
    }

    /// The key of the lock.
    pub fn lock(&self) -> String {
        "{t}lock".into()
    }

    /// The key that the lock guards.
    pub fn guarded(&self) -> String {
        "{t}guarded".into()
    }

    /// Keys that fill the home bucket of a key until its segment splits, under the server's seed.
    pub fn fillers(&self, seed: u64) -> Vec<String> {
        let of = |name: &str| KeyHash::of(name.as_bytes(), seed);
        let home = of("{t}v0").home_bucket();
        let names = (0..NAMES_MAX).map(|n| format!("{{t}}f{n}"));
        names.filter(|name| of(name).home_bucket() == home).take(FILLERS).collect()
    }
}

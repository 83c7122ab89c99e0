//! The keys of a schedule: few, so that calls meet.

use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;
use sidewire_common::key::KeyHash;

const COUNTERS: u32 = 2;
/// Keys are added slowly.
pub const FILLS_SLOWLY: u32 = 3;
/// Keys that fill one home bucket and its overflow bucket, and some.
const FILLERS: usize = 33;
const FILLERS_MANY: usize = 72;
/// So many that a directory of 16 segments splits nearly all of them.
const FILLERS_MOST: usize = 220;
/// Names to try until there are so many: 64 home buckets share them.
const NAMES_MAX: u32 = 20_000;

/// The keys. All have one tag, so that they share a segment until it splits.
#[derive(Default)]
pub struct Keys {
    /// How many hold values from the start on.
    values: u32,
    /// Those that were added last.
    added: Mutex<Vec<String>>,
}

impl Keys {
    /// So many that hold values.
    pub fn new(values: u32) -> Self {
        Self { values, ..Self::default() }
    }

    /// A key that holds values.
    pub fn value(&self, rng: &mut SmallRng) -> String {
        let added = self.added.lock();
        match added.len() {
            0 => format!("{{t}}v{}", rng.random_range(0..self.values)),
            // The latest are the ones that a split is about.
            count if rng.random_ratio(1, 2) => added[count.saturating_sub(rng.random_range(1..4))].clone(),
            count => added[rng.random_range(0..count)].clone(),
        }
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

    /// A key is there from now on.
    pub fn add(&self, key: &str) {
        self.added.lock().push(key.into());
    }

    /// Keys that fill the home bucket of a key until its segment splits, and perhaps again, under the server's seed.
    pub fn fillers(&self, seed: u64, fills: u32) -> Vec<String> {
        let of = |name: &str| KeyHash::of(name.as_bytes(), seed);
        let home = of("{t}v0").home_bucket();
        let count = match fills {
            FILLS_SLOWLY => FILLERS_MOST,
            2 => FILLERS_MANY,
            _ => FILLERS,
        };
        let names = (0..NAMES_MAX).map(|n| format!("{{t}}f{n}"));
        names.filter(|name| of(name).home_bucket() == home).take(count).collect()
    }
}

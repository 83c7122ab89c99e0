//! Which record the next operation takes.

mod scramble;
mod zipf;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::distribution::{Distribution, Shape};
use scramble::Scramble;
pub use zipf::Zipf;

/// Chooses among the records 0..count; the count may grow from draw to draw.
#[derive(Debug, Clone)]
pub enum KeyChooser {
    /// Each record as often as any other.
    Uniform,
    /// Zipf's law over a permutation of the records.
    Zipfian {
        /// Ranks.
        zipf: Zipf,
        /// Which record has which rank.
        scramble: Scramble,
        /// The count both are for.
        count: u64,
    },
    /// Zipf's law over age: the record inserted last is the most frequent one.
    Latest {
        /// Ages.
        zipf: Zipf,
    },
    /// The first records most of the time, each of them as often as any other of them.
    Hotspot {
        /// Share of the records that is hot.
        data: f64,
        /// Share of the operations that take hot ones.
        operations: f64,
    },
    /// One after the other.
    Sequential {
        /// The next one.
        next: u64,
    },
    /// Frequency falls exponentially with age.
    Exponential {
        /// Mean age in records.
        mean: f64,
    },
}

impl KeyChooser {
    /// A chooser over `count` records to begin with.
    pub fn new(distribution: Distribution, count: u64, shape: &Shape) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipfian => Self::Zipfian { zipf: Zipf::new(count, shape.theta), scramble: Scramble::new(count), count },
            Distribution::Latest => Self::Latest { zipf: Zipf::new(count, shape.theta) },
            Distribution::Hotspot => Self::Hotspot { data: shape.hot_data, operations: shape.hot_operations },
            Distribution::Sequential => Self::Sequential { next: 0 },
            Distribution::Exponential => {
                let range = count as f64 * shape.exponential_share;
                Self::Exponential { mean: range / -(1.0 - shape.exponential_percentile / 100.0).ln() }
            }
        }
    }

    /// For thread `index` of `threads`: those that go through the records in order begin at different places.
    pub fn for_thread(mut self, index: usize, threads: usize, count: u64) -> Self {
        if let Self::Sequential { next } = &mut self {
            *next = (u128::from(count) * index as u128 / threads.max(1) as u128) as u64;
        }
        self
    }

    /// The next record among 0 to `now - 1`; `now` is at least 1.
    #[inline]
    pub fn next(&mut self, now: u64, rng: &mut SmallRng) -> u64 {
        match self {
            Self::Uniform => rng.random_range(0..now),
            Self::Zipfian { zipf, scramble, count } => {
                if *count != now {
                    (*count, *scramble) = (now, Scramble::new(now));
                    zipf.set_count(now);
                }
                scramble.place(zipf.next(rng))
            }
            Self::Latest { zipf } => {
                zipf.set_count(now);
                now - 1 - zipf.next(rng)
            }
            Self::Hotspot { data, operations } => {
                let hot = ((now as f64 * *data) as u64).clamp(1, now);
                if hot == now || rng.random::<f64>() < *operations {
                    rng.random_range(0..hot)
                } else {
                    rng.random_range(hot..now)
                }
            }
            Self::Sequential { next } => {
                let record = if *next < now { *next } else { 0 };
                *next = record + 1;
                record
            }
            Self::Exponential { mean } => loop {
                let age = -(1.0 - rng.random::<f64>()).ln() * *mean;
                if age < now as f64 {
                    break now - 1 - age as u64;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn counts(distribution: Distribution, records: u64, draws: u32) -> Vec<u32> {
        let mut rng = SmallRng::seed_from_u64(5);
        let mut chooser = KeyChooser::new(distribution, records, &Shape::default());
        let mut seen = vec![0; records as usize];
        for _ in 0..draws {
            seen[chooser.next(records, &mut rng) as usize] += 1;
        }
        seen
    }

    #[test]
    fn uniform_is_even() {
        let seen = counts(Distribution::Uniform, 100, 100_000);
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    }

    #[test]
    fn latest_prefers_the_newest_and_follows_inserts() {
        let seen = counts(Distribution::Latest, 1_000, 100_000);
        // The share of rank 0 among 1,000 at exponent 0.99 is 0.1290.
        assert!((12_200..13_600).contains(&seen[999]), "{}", seen[999]);
        assert!(seen[999] > seen[998] && seen[998] > seen[990] && seen[990] > seen[500]);

        let mut rng = SmallRng::seed_from_u64(6);
        let mut chooser = KeyChooser::new(Distribution::Latest, 10, &Shape::default());
        let newest = (11..2_011).filter(|now| chooser.next(*now, &mut rng) == now - 1).count();
        assert!((200..500).contains(&newest), "{newest} of 2,000");
    }

    #[test]
    fn zipfian_keeps_its_head_but_spreads_it() {
        let seen = counts(Distribution::Zipfian, 1_000, 100_000);
        let mut sorted = seen.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        assert!((12_200..13_600).contains(&sorted[0]), "{}", sorted[0]);
        let position = |count: u32| seen.iter().position(|c| *c == count).expect("it is there");
        assert!(position(sorted[0]).abs_diff(position(sorted[1])) > 1);
        let mut rng = SmallRng::seed_from_u64(6);
        let mut chooser = KeyChooser::new(Distribution::Zipfian, 10, &Shape::default());
        assert!((11..2_011).all(|now| chooser.next(now, &mut rng) < now), "only records that are there");
    }

    #[test]
    fn a_hotspot_takes_its_share() {
        // A fifth of the records takes four fifths of the operations.
        let seen = counts(Distribution::Hotspot, 1_000, 100_000);
        let hot: u32 = seen[..200].iter().sum();
        assert!((79_000..81_000).contains(&hot), "{hot}");
        assert!(seen[..200].iter().all(|count| (280..520).contains(count)), "hot ones are even: {:?}", &seen[..200]);
        assert!(seen[200..].iter().all(|count| *count < 70));
    }

    #[test]
    fn sequential_threads_cover_all_records_in_turn() {
        let mut rng = SmallRng::seed_from_u64(5);
        let fresh = KeyChooser::new(Distribution::Sequential, 10, &Shape::default());
        let mut second = fresh.for_thread(1, 2, 10);
        let seen: Vec<_> = (0..12).map(|_| second.next(10, &mut rng)).collect();
        assert_eq!(seen, [5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn exponential_puts_its_percentile_where_it_is_told() {
        // 95 % of the operations on the newest 6/7 of the records, but for the tail that is cut off.
        let seen = counts(Distribution::Exponential, 700, 100_000);
        let newest: u32 = seen[100..].iter().sum();
        assert!((96_000..98_500).contains(&newest), "{newest}");
        assert!(seen[699] > seen[400] && seen[400] > seen[50]);
    }
}

//! Which record the next operation takes.

mod scramble;
mod zipf;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::workload::Distribution;
use scramble::Scramble;
use zipf::Zipf;

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
}

impl KeyChooser {
    /// A chooser over `count` records to begin with.
    pub fn new(distribution: Distribution, count: u64, theta: f64) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipfian => Self::Zipfian { zipf: Zipf::new(count, theta), scramble: Scramble::new(count), count },
            Distribution::Latest => Self::Latest { zipf: Zipf::new(count, theta) },
        }
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
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn counts(distribution: Distribution, records: u64, draws: u32) -> Vec<u32> {
        let mut rng = SmallRng::seed_from_u64(5);
        let mut chooser = KeyChooser::new(distribution, records, 0.99);
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
        let mut chooser = KeyChooser::new(Distribution::Latest, 10, 0.99);
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
        let mut chooser = KeyChooser::new(Distribution::Zipfian, 10, 0.99);
        assert!((11..2_011).all(|now| chooser.next(now, &mut rng) < now), "only records that are there");
    }
}

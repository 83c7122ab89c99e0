//! When operations are meant to begin: an open loop, in which a slow answer does not hold up the next question.
//!
//! Latency counts from the intended start. A generator that waits for each answer before it asks again would leave
//! out just those operations that a stall would have hit (coordinated omission).

use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use crate::drive::Phase;

/// A pause shorter than this is spent spinning: a sleeper wakes up late.
const SLEEP_MIN: Duration = Duration::from_micros(100);
/// Longest sleep between two looks at whether the phase was stopped.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// How starts are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Independent of each other, as requests of many users are: gaps follow the exponential distribution.
    Poisson,
    /// Evenly.
    Fixed,
}

/// A rate and how it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pacing {
    /// Starts per second, of all threads and processes together.
    pub rate: f64,
    /// How they are spread.
    pub arrival: Arrival,
}

/// The intended starts of one thread.
#[derive(Debug)]
pub struct Pacer {
    due: Instant,
    gap: f64,
    arrival: Arrival,
}

impl Pacer {
    /// Thread `index` of `threads` that share the rate.
    pub fn new(pacing: Pacing, index: usize, threads: usize, now: Instant) -> Self {
        let gap = threads as f64 / pacing.rate;
        // Evenly spread threads take turns.
        let first = Duration::from_secs_f64(gap * (index as f64 + 1.0) / threads as f64);
        Self { due: now + first, gap, arrival: pacing.arrival }
    }

    /// The intended start of the next operation.
    #[inline]
    pub fn due(&self) -> Instant {
        self.due
    }

    /// That operation began; another is intended after it.
    #[inline]
    pub fn step(&mut self, rng: &mut SmallRng) {
        let gap = match self.arrival {
            Arrival::Fixed => self.gap,
            // 1 - u is above 0, so the logarithm is finite.
            Arrival::Poisson => -(1.0 - rng.random::<f64>()).ln() * self.gap,
        };
        self.due += Duration::from_secs_f64(gap);
    }

    /// Waits for the next intended start and gives it; `None` when the phase was stopped before.
    #[inline]
    pub fn wait(&mut self, phase: &Phase, rng: &mut SmallRng) -> Option<Instant> {
        let due = self.due;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.step(rng);
                return Some(due);
            }
            if phase.is_stopped() {
                return None;
            }
            rest(left);
        }
    }
}

/// Lets some of the time pass that is left.
pub fn rest(left: Duration) {
    if left > SLEEP_MIN {
        std::thread::sleep((left - SLEEP_MIN).min(SLEEP_MAX));
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn starts(arrival: Arrival, threads: usize, count: usize) -> Vec<f64> {
        let now = Instant::now();
        let mut rng = SmallRng::seed_from_u64(4);
        let mut starts = Vec::new();
        for index in 0..threads {
            let mut pacer = Pacer::new(Pacing { rate: 1_000.0, arrival }, index, threads, now);
            for _ in 0..count {
                starts.push((pacer.due() - now).as_secs_f64());
                pacer.step(&mut rng);
            }
        }
        starts.sort_by(f64::total_cmp);
        starts
    }

    #[test]
    fn fixed_starts_of_all_threads_are_even() {
        let starts = starts(Arrival::Fixed, 4, 250);
        for pair in starts.windows(2) {
            assert!((pair[1] - pair[0] - 0.001).abs() < 1e-6, "{pair:?}");
        }
    }

    #[test]
    fn poisson_starts_have_the_rate_and_the_spread() {
        let starts = starts(Arrival::Poisson, 1, 20_000);
        let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.001).abs() < 3e-5, "mean gap {mean}");
        // Of an exponential distribution the deviation is the mean.
        assert!((variance.sqrt() - mean).abs() < 5e-5, "deviation {}", variance.sqrt());
    }
}

//! Zipf's law over ranks 0..n by rejection-inversion (Hörmann and Derflinger, 1996).
//!
//! Exact for every rank and every exponent above 0, 1 and beyond included, where the approximation of
//! Gray and others is exact for the first two ranks only and needs an exponent below 1. Growing n is two
//! logarithms: there is no sum over all ranks to keep.

use rand::Rng;
use rand::rngs::SmallRng;

/// Draws ranks; rank 0 is the most frequent one.
#[derive(Debug, Clone)]
pub struct Zipf {
    theta: f64,
    /// 1 / (1 - theta).
    inverse: f64,
    count: u64,
    /// H(1.5) - 1: where the first rank's bar begins.
    low: f64,
    /// H(n + 0.5): where the last rank's bar ends.
    high: f64,
    /// Within this distance the nearest rank needs no second look.
    shortcut: f64,
}

impl Zipf {
    /// Ranks 0 to `count - 1` with weights (rank + 1)^-theta.
    pub fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Self { theta, inverse: (1.0 - theta).recip(), count: 0, low: 0.0, high: 0.0, shortcut: 0.0 };
        zipf.low = zipf.area(1.5) - 1.0;
        zipf.shortcut = 2.0 - zipf.place(zipf.area(2.5) - zipf.weight(2.0));
        zipf.set_count(count);
        zipf
    }

    /// Follows a count that grew.
    #[inline]
    pub fn set_count(&mut self, count: u64) {
        if count != self.count {
            self.count = count;
            self.high = self.area(count as f64 + 0.5);
        }
    }

    /// Ranks that are drawn from.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The next rank.
    #[inline]
    pub fn next(&self, rng: &mut SmallRng) -> u64 {
        loop {
            let drawn = self.high + rng.random::<f64>() * (self.low - self.high);
            let place = self.place(drawn);
            let rank = ((place + 0.5) as u64).clamp(1, self.count);
            let x = rank as f64;
            if x - place <= self.shortcut || drawn >= self.area(x + 0.5) - self.weight(x) {
                return rank - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of the weight: (x^(1-theta) - 1) / (1 - theta), and its limit ln x at theta 1.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let scaled = (1.0 - self.theta) * log;
        if scaled.abs() > 1e-8 { scaled.exp_m1() / (1.0 - self.theta) } else { log * (1.0 + scaled / 2.0) }
    }

    /// The inverse of `area`.
    #[inline]
    fn place(&self, area: f64) -> f64 {
        let rest = 1.0 - self.theta;
        let scaled = (area * rest).max(-1.0);
        if rest.abs() > 1e-3 {
            // One call, as exact as the longer way while the exponent is below a thousand.
            (1.0 + scaled).powf(self.inverse)
        } else if scaled.abs() > 1e-8 {
            (scaled.ln_1p() * self.inverse).exp()
        } else {
            (area * (1.0 - scaled / 2.0)).exp()
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// The weight of each rank by the definition.
    pub fn theory(count: u64, theta: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-theta)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// Pearson's statistic, which for k ranks has mean k - 1 and variance 2 (k - 1).
    fn assert_follows(count: u64, theta: f64) {
        let draws = 400_000u32;
        let mut rng = SmallRng::seed_from_u64(count ^ theta.to_bits());
        let zipf = Zipf::new(count, theta);
        let mut seen = vec![0u32; count as usize];
        for _ in 0..draws {
            seen[zipf.next(&mut rng) as usize] += 1;
        }
        let expected = theory(count, theta);
        let square = |(seen, share): (&u32, &f64)| {
            let expected = share * f64::from(draws);
            (f64::from(*seen) - expected).powi(2) / expected
        };
        let statistic: f64 = seen.iter().zip(&expected).map(square).sum();
        let freedom = (count - 1) as f64;
        let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(statistic < bound, "theta {theta}: {statistic} for {freedom} degrees of freedom");
    }

    #[test]
    fn every_rank_is_as_frequent_as_theory_says() {
        for theta in [0.5, 0.99, 0.9999, 1.0, 1.2, 2.0] {
            assert_follows(100, theta);
        }
        assert_follows(1_000, 0.99);
        let zipf = Zipf::new(1, 0.99);
        assert_eq!(zipf.next(&mut SmallRng::seed_from_u64(3)), 0);
    }

    #[test]
    fn a_count_that_grew_is_as_if_it_had_been_so_from_the_start() {
        let mut grown = Zipf::new(10, 0.99);
        grown.set_count(1_000_000);
        let straight = Zipf::new(1_000_000, 0.99);
        let (mut one, mut two) = (SmallRng::seed_from_u64(9), SmallRng::seed_from_u64(9));
        assert!((0..1_000).all(|_| grown.next(&mut one) == straight.next(&mut two)));
    }
}

//! How long values stay.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

/// Times and how often each is given; none means for ever.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ttls {
    /// With the sum of the weights up to each.
    times: Vec<(f64, Duration)>,
}

impl Ttls {
    /// Values stay for ever.
    pub const fn none() -> Self {
        Self { times: Vec::new() }
    }

    /// All values stay this long.
    pub fn all(time: Duration) -> Self {
        Self { times: vec![(1.0, time)] }
    }

    /// Times with their weights.
    pub fn weighted(pairs: &[(Duration, f64)]) -> Self {
        let mut sum = 0.0;
        let step = |(time, weight): &(Duration, f64)| {
            sum += weight;
            (sum, *time)
        };
        Self { times: pairs.iter().filter(|(_, weight)| *weight > 0.0).map(step).collect() }
    }

    /// Whether values stay for ever.
    pub fn is_none(&self) -> bool {
        self.times.is_empty()
    }

    /// The next value's time.
    #[inline]
    pub fn next(&self, rng: &mut SmallRng) -> Option<Duration> {
        match self.times.as_slice() {
            [] => None,
            [(_, time)] => Some(*time),
            times => {
                let (whole, longest) = *times.last()?;
                let drawn = rng.random::<f64>() * whole;
                Some(times.iter().find(|(sum, _)| drawn < *sum).map_or(longest, |(_, time)| *time))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn times_are_given_in_their_shares() {
        let mut rng = SmallRng::seed_from_u64(8);
        let [day, minute] = [Duration::from_secs(86_400), Duration::from_secs(60)];
        let ttls = Ttls::weighted(&[(day, 0.6), (minute, 0.3), (Duration::ZERO, 0.0)]);
        let days = (0..10_000).filter(|_| ttls.next(&mut rng) == Some(day)).count();
        assert!((6_450..6_900).contains(&days), "{days}");
        assert_eq!((Ttls::none().next(&mut rng), Ttls::all(day).next(&mut rng)), (None, Some(day)));
        assert!(Ttls::weighted(&[]).is_none());
    }
}

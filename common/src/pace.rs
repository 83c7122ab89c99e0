//! How often something may be said: what a peer can provoke at will must not fill a log.

use crate::clock::BootInstant;
use parking_lot::Mutex;
use std::time::Duration;

/// Length of a period.
const PERIOD: Duration = Duration::from_secs(1);

/// Lets a bounded number through in each second and counts the rest.
#[derive(Debug)]
pub struct Pace {
    most: u32,
    now: Mutex<Period>,
}

#[derive(Debug)]
struct Period {
    began: BootInstant,
    said: u32,
    left_out: u64,
}

impl Pace {
    /// At most `most` in a second.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { most, now: Mutex::new(Period { began: BootInstant::from_nanos(0), said: 0, left_out: 0 }) }
    }

    /// Whether it may be said now, and how many were left out since the last one that was.
    #[must_use]
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(BootInstant::now())
    }

    fn admit_at(&self, now: BootInstant) -> Option<u64> {
        let mut period = self.now.lock();
        if now.since(period.began) >= PERIOD {
            (period.began, period.said) = (now, 0);
        }
        if period.said >= self.most {
            period.left_out += 1;
            return None;
        }
        period.said += 1;
        Some(std::mem::take(&mut period.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lets_so_many_through_and_the_next_says_how_many_it_did_not() {
        let pace = Pace::new(2);
        let at = |ms: u64| BootInstant::from_nanos(5_000_000_000 + ms * 1_000_000);
        let said: Vec<_> = [0, 1, 2, 500, 999, 1000, 1001, 1002].into_iter().map(|ms| pace.admit_at(at(ms))).collect();
        assert_eq!(said, [Some(0), Some(0), None, None, None, Some(3), Some(0), None]);
    }
}

//! The kinds of operations and their shares.

use rand::Rng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

/// The kinds of operations that are timed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// One Get.
    Read,
    /// One Put of a record that is there.
    Update,
    /// One Put of a record that is not there yet.
    Insert,
    /// One Get, and a Put of the same record.
    Rmw,
    /// 1 is added to a counter.
    Add,
    /// A lock is taken and given back.
    Lock,
    /// Gets of several records at once.
    MultiGet,
    /// A record is deleted.
    Delete,
}

/// Number of kinds.
pub const KINDS: usize = 8;

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; KINDS] =
        [Self::Read, Self::Update, Self::Insert, Self::Rmw, Self::Add, Self::Lock, Self::MultiGet, Self::Delete];

    /// The kind's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Rmw => "rmw",
            Self::Add => "add",
            Self::Lock => "lock",
            Self::MultiGet => "multi_get",
            Self::Delete => "delete",
        }
    }

    /// The property of a workload file that holds its share; those of kinds that YCSB does not have are ours.
    pub const fn property(self) -> &'static str {
        match self {
            Self::Read => "readproportion",
            Self::Update => "updateproportion",
            Self::Insert => "insertproportion",
            Self::Rmw => "readmodifywriteproportion",
            Self::Add => "counteraddproportion",
            Self::Lock => "lockproportion",
            Self::MultiGet => "multigetproportion",
            Self::Delete => "deleteproportion",
        }
    }
}

/// The shares of the kinds of operations, as thresholds of a 32-bit random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Below its threshold and not below the one before it a number means this kind.
    below: [u64; KINDS],
}

impl Mix {
    /// A mix of one kind.
    pub fn only(kind: Kind) -> Self {
        Self::new(Kind::ALL.map(|k| if k == kind { 1.0 } else { 0.0 }))
    }

    /// Shares in the order of [`Kind::ALL`]; their sum is taken as the whole, as YCSB does.
    pub fn new(shares: [f64; KINDS]) -> Self {
        let whole: f64 = shares.iter().sum();
        let mut sum = 0.0;
        let below = shares.map(|share| {
            sum += share;
            ((sum / whole) * (1u64 << 32) as f64).round() as u64
        });
        Self { below }
    }

    /// The next operation's kind.
    #[inline]
    pub fn next(&self, rng: &mut SmallRng) -> Kind {
        if self.below[0] == 1 << 32 {
            return Kind::Read;
        }
        let drawn = u64::from(rng.random::<u32>());
        let kind = Kind::ALL.into_iter().zip(self.below).find(|(_, below)| drawn < *below);
        kind.map_or(Kind::Read, |(kind, _)| kind)
    }

    /// Whether operations of this kind are drawn.
    pub fn has(&self, kind: Kind) -> bool {
        let at = kind as usize;
        self.below[at] > at.checked_sub(1).map_or(0, |before| self.below[before])
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_mix_is_drawn_in_its_shares() {
        let mut rng = SmallRng::seed_from_u64(1);
        let shares = [0.4, 0.2, 0.15, 0.05, 0.1, 0.0, 0.07, 0.03];
        let mix = Mix::new(shares);
        let mut counts = [0u32; KINDS];
        for _ in 0..100_000 {
            counts[mix.next(&mut rng) as usize] += 1;
        }
        for (count, share) in counts.iter().zip(shares) {
            assert!((f64::from(*count) / 100_000.0 - share).abs() < 0.01, "{counts:?}");
        }
        assert!(mix.has(Kind::Delete) && mix.has(Kind::Read) && !mix.has(Kind::Lock));
        assert!(Kind::ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }
}

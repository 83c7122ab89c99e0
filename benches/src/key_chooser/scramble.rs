//! A permutation of 0..n that puts neighbours far apart, so that hot ranks are not neighbours in the key space.
//!
//! YCSB takes a hash modulo n, which leaves a third of the records without any rank and gives others two.
//! Here each record has exactly one, so the frequencies of keys are those of the distribution.

/// Permutes 0..n.
#[derive(Debug, Clone, Copy)]
pub struct Scramble {
    count: u64,
    mask: u64,
    shift: u32,
}

impl Scramble {
    /// A permutation of 0 to `count - 1`.
    pub fn new(count: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let mask = if bits == u64::BITS { u64::MAX } else { (1 << bits) - 1 };
        Self { count, mask, shift: (bits / 2).max(1) }
    }

    /// Where `rank` goes. Steps that leave 0..n are walked on until one comes back: two at most on average.
    #[inline]
    pub fn place(&self, rank: u64) -> u64 {
        let mut place = rank;
        loop {
            place = self.step(place);
            if place < self.count {
                return place;
            }
        }
    }

    /// A permutation of the next power of two: products with odd numbers and shifted xors can be undone.
    #[inline]
    fn step(&self, mut x: u64) -> u64 {
        x = x.wrapping_add(0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93) & self.mask;
        x ^= x >> self.shift;
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_exactly_one_rank() {
        for count in [1, 2, 3, 5, 64, 1_000, 4_096, 100_001] {
            let scramble = Scramble::new(count);
            let mut taken = vec![false; count as usize];
            for rank in 0..count {
                let place = scramble.place(rank) as usize;
                assert!(!std::mem::replace(&mut taken[place], true), "{count}: {place} twice");
            }
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let scramble = Scramble::new(1_000_000);
        let near = (0..1_000).filter(|rank| scramble.place(*rank).abs_diff(scramble.place(rank + 1)) < 1_000).count();
        assert!(near < 20, "{near} of 1,000 neighbours stayed within 1,000");
    }
}

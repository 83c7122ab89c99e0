//! The world's dice.

use super::state::{State, with};
use rand::RngCore;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How long things take, nanoseconds.
#[derive(Debug)]
pub(super) struct Dice {
    rng: SmallRng,
    /// The longest that a rare straggler takes.
    pub(super) straggler_max: u64,
    /// One way in so many is one.
    pub(super) straggler_one_in: u32,
}

/// One way in so many takes long.
const SLOW_ONE_IN: u32 = 24;

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), straggler_max: 3_000_000, straggler_one_in: 400 }
    }

    /// A way through the network or the kernel.
    pub(super) fn latency(&mut self) -> u64 {
        if self.one_in(self.straggler_one_in) {
            return self.below(self.straggler_max);
        }
        if self.one_in(SLOW_ONE_IN) {
            return self.below(60_000);
        }
        150 + self.below(1_500)
    }

    /// Between two words of one transfer.
    pub(super) fn step(&mut self) -> u64 {
        if self.one_in(64) { self.below(5_000) } else { self.below(60) }
    }

    /// What a thread takes between two calls of the fabric.
    pub(super) fn thought(&mut self) -> u64 {
        if self.one_in(96) { self.below(30_000) } else { 20 + self.below(300) }
    }

    /// How long a thread waits for a CPU that it lost.
    pub(super) fn preemption(&mut self) -> u64 {
        match self.below(256) {
            0 => self.below(20_000_000),
            1..32 => self.below(400_000),
            32..128 => self.below(40_000),
            _ => self.below(6_000),
        }
    }

    /// How long stores wait in a CPU.
    pub(super) fn store_delay(&mut self) -> u64 {
        match self.below(32) {
            0 => self.below(200_000),
            1..4 => self.below(8_000),
            _ => self.below(400),
        }
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_ratio(1, n)
    }

    /// Below `n`, or 0 when that is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.rng.random_range(0..n) }
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Random numbers out of the world's seed.
pub struct Chance(());

/// The dice, for code that runs inside.
pub(crate) fn chance() -> Option<Chance> {
    super::is_inside().then_some(Chance(()))
}

impl Chance {
    pub(super) fn of_world() -> Self {
        Self(())
    }
}

fn roll<T>(with_dice: impl FnOnce(&mut SmallRng) -> T) -> T {
    with(|state: &mut State| with_dice(&mut state.dice.rng)).expect("only a world hands out its dice")
}

impl RngCore for Chance {
    fn next_u32(&mut self) -> u32 {
        roll(RngCore::next_u32)
    }

    fn next_u64(&mut self) -> u64 {
        roll(RngCore::next_u64)
    }

    fn fill_bytes(&mut self, into: &mut [u8]) {
        roll(|rng| rng.fill_bytes(into));
    }
}

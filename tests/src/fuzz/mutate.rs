//! Seeded mutations of an input: bits, values at the edges of fields, cuts, splices.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Values at which checks go wrong, cut to the width of the field.
const EDGES: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    65,
    0x7f,
    0x80,
    0xff,
    4096,
    4097,
    0xffff,
    1 << 19,
    (1 << 19) + 1,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 63,
    u64::MAX,
];
/// Mutations of one input at most.
const STEPS_MAX: u32 = 5;

/// A source of mutations. The same seed gives the same ones.
#[derive(Debug)]
pub struct Mutator {
    dice: SmallRng,
    words: &'static [&'static [u8]],
    bytes_max: usize,
}

impl Mutator {
    /// `words` mean something to the decoder; no result is longer than `bytes_max`.
    #[must_use]
    pub fn new(seed: u64, words: &'static [&'static [u8]], bytes_max: usize) -> Self {
        Self { dice: SmallRng::seed_from_u64(seed), words, bytes_max }
    }

    /// A mutation of one of `corpus`.
    ///
    /// # Panics
    /// When there is none.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus.choose(&mut self.dice).expect("a corpus").clone();
        for _ in 0..self.dice.random_range(1..=STEPS_MAX) {
            self.step(&mut bytes, corpus);
        }
        bytes.truncate(self.bytes_max);
        bytes
    }

    fn step(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.dice.random_range(0..=bytes.len());
        match self.dice.random_range(0..10) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << self.dice.random_range(0..8),
            2..=4 => self.edge(bytes, at),
            5 => bytes.truncate(at),
            6 => {
                let more = self.dice.random_range(1..=64);
                let fill = self.dice.random::<u8>();
                bytes.splice(at..at, std::iter::repeat_n(fill, more));
            }
            7 => {
                let end = self.dice.random_range(at..=bytes.len());
                bytes.drain(at..end.min(at + 64));
            }
            8 => {
                let other = corpus.choose(&mut self.dice).expect("a corpus");
                let from = self.dice.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            9 if !self.words.is_empty() => {
                let word = *self.words.choose(&mut self.dice).expect("not empty");
                let end = if self.dice.random() { at } else { (at + word.len()).min(bytes.len()) };
                bytes.splice(at..end, word.iter().copied());
            }
            _ => bytes.extend((0..8).map(|_| self.dice.random::<u8>())),
        }
    }

    /// A field of 1, 2, 4 or 8 bytes, aligned as layouts align, gets a value at an edge or next to what it had.
    fn edge(&mut self, bytes: &mut [u8], at: usize) {
        let width = 1 << self.dice.random_range(0..4);
        let at = at & !(width - 1);
        let Some(field) = bytes.get_mut(at..at + width) else { return };
        let mut word = [0; 8];
        word[..width].copy_from_slice(field);
        let there = u64::from_le_bytes(word);
        let value = match self.dice.random_range(0..4) {
            0 => there.wrapping_add(1),
            1 => there.wrapping_sub(1),
            _ => *EDGES.choose(&mut self.dice).expect("not empty"),
        };
        field.copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

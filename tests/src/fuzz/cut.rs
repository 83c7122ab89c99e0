//! An input cut into parts, with zeroes behind its end.

/// What is left of an input.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
    /// The whole input.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let taken = self.bytes(N);
        out[..taken.len()].copy_from_slice(taken);
        out
    }

    /// The next word.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next `count` bytes, fewer at the end.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Everything that is left.
    #[must_use]
    pub const fn rest(self) -> &'a [u8] {
        self.0
    }
}

//! Fields of a 64-bit word, each defined by its neighbour below it.

/// A run of bits in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    /// The lowest field of a word.
    #[must_use]
    pub const fn lowest(bits: u32) -> Self {
        assert!(bits > 0 && bits <= 64);
        Self { shift: 0, bits }
    }

    /// The field of `bits` bits just above this one.
    #[must_use]
    pub const fn above(self, bits: u32) -> Self {
        assert!(bits > 0 && self.shift + self.bits + bits <= 64);
        Self { shift: self.shift + self.bits, bits }
    }

    /// Bits of the word up to and including this field.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.shift + self.bits
    }

    /// Largest value it holds.
    #[must_use]
    #[inline]
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Its value in `word`.
    #[must_use]
    #[inline]
    pub const fn of(self, word: u64) -> u64 {
        (word >> self.shift) & self.max()
    }

    /// A word with this field set and all else 0. `value` is masked; encoders check ranges before.
    #[must_use]
    #[inline]
    pub const fn put(self, value: u64) -> u64 {
        debug_assert!(value <= self.max());
        (value & self.max()) << self.shift
    }

    /// `word` with this field cleared.
    #[must_use]
    #[inline]
    pub const fn cleared(self, word: u64) -> u64 {
        word & !(self.max() << self.shift)
    }
}

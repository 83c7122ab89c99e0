//! Lock words: holder 20 bits above a fencing token of 44 bits.
//!
//! | holder | meaning |
//! | --- | --- |
//! | 0 | free; the token is that of the last holder |
//! | 1 ..= 2^20 - 2 | held by that client |
//! | all ones | retired: resolve the key again |

use super::bits::Field;

const TOKEN: Field = Field::lowest(44);
const HOLDER: Field = TOKEN.above(20);
const RETIRED: u64 = HOLDER.max();

/// Largest fencing token.
pub const TOKEN_MAX: u64 = TOKEN.max();
/// Largest holder id.
pub const HOLDER_MAX: u32 = (RETIRED - 1) as u32;

/// The word of a lock's cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockWord(u64);

/// What a word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockState {
    /// Nobody holds it.
    Free,
    /// A client holds it.
    Held {
        /// Its holder id.
        holder: u32,
    },
    /// The cell serves no lock any more.
    Retired,
}

impl LockWord {
    /// A free lock whose next token is above `token`.
    #[must_use]
    pub const fn free(token: u64) -> Self {
        Self(TOKEN.put(token))
    }

    /// From the word in memory.
    #[must_use]
    #[inline]
    pub const fn from_raw(word: u64) -> Self {
        Self(word)
    }

    /// The word in memory.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// What it says.
    #[must_use]
    #[inline]
    pub const fn state(self) -> LockState {
        match HOLDER.of(self.0) {
            0 => LockState::Free,
            RETIRED => LockState::Retired,
            holder => LockState::Held { holder: holder as u32 },
        }
    }

    /// The token: of the holder if it is held, of the last holder if it is free.
    #[must_use]
    #[inline]
    pub const fn token(self) -> u64 {
        TOKEN.of(self.0)
    }

    /// {0, t} → {holder, t+1}. `None` when it is not free, the holder id is none, or tokens are used up.
    #[must_use]
    #[inline]
    pub const fn acquired_by(self, holder: u32) -> Option<Self> {
        let possible = matches!(self.state(), LockState::Free) && holder != 0 && holder <= HOLDER_MAX && self.token() < TOKEN_MAX;
        if possible { Some(Self(HOLDER.put(holder as u64) | TOKEN.put(self.token() + 1))) } else { None }
    }

    /// {holder, t} → {0, t}. `None` when nobody holds it.
    #[must_use]
    #[inline]
    pub const fn released(self) -> Option<Self> {
        match self.state() {
            LockState::Held { .. } => Some(Self::free(self.token())),
            _ => None,
        }
    }

    /// The word of a cell that serves no lock any more.
    #[must_use]
    pub const fn retired(self) -> Self {
        Self(HOLDER.put(RETIRED) | TOKEN.put(self.token()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_rise_with_each_holder() {
        let free = LockWord::free(41);
        let held = free.acquired_by(7).unwrap();
        assert_eq!((held.state(), held.token()), (LockState::Held { holder: 7 }, 42));
        assert_eq!(held.acquired_by(8), None);
        assert_eq!(held.released(), Some(LockWord::free(42)));
        assert_eq!(held.retired().state(), LockState::Retired);
        assert_eq!(LockWord::free(TOKEN_MAX).acquired_by(7), None);
        assert_eq!(held.raw(), (7 << 44) | 42);
    }
}

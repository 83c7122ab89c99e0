//! Sleeping and waking without a lost wake-up, and without one in vain.
//!
//! The sleeper word counts: odd while its owner sleeps, one more at each change.
//!
//! ```text
//!   sleeper:  word := odd ; full fence ; look at every ring again ; sleep
//!   producer: entry published ; full fence ; word odd and not rung yet ?  ring
//! ```
//!
//! Whichever fence comes first, the other side sees what was stored before it: either the sleeper sees the
//! entry, or the producer sees the word. A producer rings once for each time that the owner sleeps.

use super::ring::Words;
use crate::memory::View;

/// This end's own word.
pub(super) struct Sleeper<M = View> {
    word: M,
    value: u64,
}

impl<M: Words> Sleeper<M> {
    pub(super) fn new(word: M) -> Self {
        Self { word, value: 0 }
    }

    /// About to sleep. The caller makes a full fence and looks at its rings again before it does.
    pub(super) fn arm(&mut self) {
        self.value |= 1;
        self.word.store_release(0, self.value);
    }

    /// Awake.
    pub(super) fn disarm(&mut self) {
        self.value = (self.value | 1) + 1;
        self.word.store_release(0, self.value);
    }
}

/// The peer's word.
pub(super) struct PeerSleep<M = View> {
    word: M,
    rung: u64,
}

impl<M: Words> PeerSleep<M> {
    pub(super) fn new(word: M) -> Self {
        Self { word, rung: 0 }
    }

    /// After entries were published: whether the peer must be woken for them.
    #[inline]
    pub(super) fn must_ring(&mut self) -> bool {
        M::full_fence();
        let word = self.word.load_acquire(0);
        let ring = word & 1 == 1 && word != self.rung;
        if ring {
            self.rung = word;
        }
        ring
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::tests::memory;
    use super::*;

    #[test]
    fn one_ring_for_each_sleep() {
        let word = memory(8);
        let (mut sleeper, mut peer) = (Sleeper::new(word.clone()), PeerSleep::new(word));
        assert!(!peer.must_ring());
        for _ in 0..3 {
            sleeper.arm();
            assert!(peer.must_ring());
            assert!(!peer.must_ring());
            sleeper.disarm();
            assert!(!peer.must_ring());
        }
    }
}

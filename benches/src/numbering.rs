//! Which numbers the records of one process have: several processes that insert at once take turns.

/// Numbers of records as a process counts them, and as everybody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    present: u64,
    stride: u64,
    offset: u64,
}

impl Numbering {
    /// One process that inserts: both are the same.
    pub const fn alone() -> Self {
        Self { present: 0, stride: 1, offset: 0 }
    }

    /// Process `index` of `processes`, which all begin with `present` records.
    pub const fn shared(present: u64, index: u16, processes: u16) -> Self {
        if processes == 1 { Self::alone() } else { Self { present, stride: processes as u64, offset: index as u64 } }
    }

    /// The record that this process calls `own`.
    #[inline]
    pub const fn record(self, own: u64) -> u64 {
        if own < self.present || self.stride == 1 { own } else { self.present + (own - self.present) * self.stride + self.offset }
    }

    /// Numbers of its own that a process may use where all processes together may use `end`.
    pub const fn own_end(self, end: u64) -> u64 {
        self.present + (end - self.present) / self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share_what_is_there_and_nothing_that_they_add() {
        let all: Vec<_> = (0..3).map(|index| Numbering::shared(10, index, 3)).collect();
        assert!((0..10).all(|own| all.iter().all(|numbering| numbering.record(own) == own)));
        let mut added: Vec<_> = all.iter().flat_map(|numbering| (10..30).map(|own| numbering.record(own))).collect();
        added.sort_unstable();
        assert_eq!(added, (10..70).collect::<Vec<_>>());
        assert!(all.iter().all(|numbering| numbering.record(numbering.own_end(70) - 1) < 70));
        assert_eq!(Numbering::shared(10, 0, 1).record(12), 12);
    }
}

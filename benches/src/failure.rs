//! How operations fail, by kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::value::Fault;

/// The kinds that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A record that exists was reported absent.
    Absent,
    /// A Get brought another record's value.
    Swapped,
    /// A Get brought bytes that no single Put wrote.
    Damaged,
    /// The deadline passed.
    Deadline,
    /// Whether a write was carried out is not known.
    Indeterminate,
    /// The server or the lease is gone, or the fabric failed.
    Unreachable,
    /// The server's heap or index is full.
    Full,
    /// The server or the library refused the operation.
    Refused,
}

const KINDS: [FailureKind; 8] = [
    FailureKind::Absent,
    FailureKind::Swapped,
    FailureKind::Damaged,
    FailureKind::Deadline,
    FailureKind::Indeterminate,
    FailureKind::Unreachable,
    FailureKind::Full,
    FailureKind::Refused,
];

impl FailureKind {
    /// The kind's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Swapped => "swapped",
            Self::Damaged => "damaged",
            Self::Deadline => "deadline",
            Self::Indeterminate => "indeterminate",
            Self::Unreachable => "unreachable",
            Self::Full => "full",
            Self::Refused => "refused",
        }
    }

    /// Whether the operation did not come through: nothing is gained by asking again at once.
    pub const fn is_outage(self) -> bool {
        !matches!(self, Self::Absent | Self::Swapped | Self::Damaged)
    }
}

/// One operation that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What happened, for people.
    pub text: String,
}

impl Failure {
    /// Record `index` was not there.
    #[cold]
    pub fn absent(index: u64) -> Self {
        Self { kind: FailureKind::Absent, text: format!("record {index} was reported absent") }
    }

    /// The value of record `index` was wrong.
    #[cold]
    pub fn fault(index: u64, fault: Fault) -> Self {
        match fault {
            Fault::Swapped { names } => {
                Self { kind: FailureKind::Swapped, text: format!("record {index} held the value of record {names}") }
            }
            Fault::Damaged { offset } => Self {
                kind: FailureKind::Damaged,
                text: format!("record {index} held bytes that no Put wrote, from offset {offset} on"),
            },
        }
    }

    /// The store or its client refused the operation.
    #[cold]
    pub fn refused(text: &str) -> Self {
        Self { kind: FailureKind::Refused, text: text.into() }
    }

    /// The deadline passed.
    #[cold]
    pub fn deadline(text: &str) -> Self {
        Self { kind: FailureKind::Deadline, text: text.into() }
    }

    /// The store takes no operation though none is in flight.
    #[cold]
    pub fn stuck() -> Self {
        Self { kind: FailureKind::Refused, text: "the store takes no operation though none is in flight".into() }
    }

    /// An operation in flight whose end was not waited for any longer.
    #[cold]
    pub fn given_up() -> Self {
        Self { kind: FailureKind::Unreachable, text: "given up while in flight".into() }
    }
}

/// Failures by kind, with the first text of each.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Failures([(u64, Option<String>); KINDS.len()]);

/// One kind of a report.
#[derive(Debug, Clone, Serialize)]
pub struct FailureReport {
    /// How many.
    pub count: u64,
    /// What the first of them said.
    pub first: String,
}

impl Failures {
    /// Counts one.
    #[cold]
    pub fn add(&mut self, failure: Failure) {
        let (count, first) = &mut self.0[failure.kind as usize];
        *count += 1;
        first.get_or_insert(failure.text);
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.0 += theirs.0;
            if mine.1.is_none() {
                mine.1.clone_from(&theirs.1);
            }
        }
    }

    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(count, _)| count).sum()
    }

    /// Those of one kind.
    #[cfg(test)]
    pub fn count(&self, kind: FailureKind) -> u64 {
        self.0[kind as usize].0
    }

    /// The kinds that happened.
    pub fn report(&self) -> BTreeMap<&'static str, FailureReport> {
        let happened = KINDS.iter().zip(&self.0).filter(|(_, (count, _))| *count > 0);
        let entry = |(kind, (count, first)): (&FailureKind, &(u64, Option<String>))| {
            (kind.name(), FailureReport { count: *count, first: first.clone().unwrap_or_default() })
        };
        happened.map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart_with_their_first_text() {
        let mut failures = Failures::default();
        failures.add(Failure::absent(5));
        failures.add(Failure::absent(6));
        let mut sum = Failures::default();
        sum.add(Failure::fault(1, Fault::Swapped { names: 2 }));
        sum.merge(&failures);
        assert_eq!((sum.total(), sum.count(FailureKind::Absent)), (3, 2));
        let report = sum.report();
        assert_eq!(report["absent"].first, "record 5 was reported absent");
        assert_eq!(report.keys().copied().collect::<Vec<_>>(), ["absent", "swapped"]);
        assert!(KINDS.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }
}

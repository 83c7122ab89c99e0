//! The check of a whole history.

use super::event::{Call, Event, Outcome};
use super::prepare::{self, Group};
use super::report::{Reason, Violation};
use super::search::{self, Found};
use super::{counter, search::OPEN_MAX};
use std::collections::HashMap;
use std::fmt;

/// How far the check goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most configurations that the search of one group of keys may look at before it gives up.
    pub configurations_max: usize,
    /// By how much the clock that values expire on may be wrong, in the units of the history's clock.
    pub expiry_band: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { configurations_max: 2_000_000, expiry_band: 0 }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Events.
    pub events: usize,
    /// Those of which nobody knows whether they took effect.
    pub unknown: usize,
    /// Groups of keys.
    pub groups: usize,
    /// Configurations that the searches looked at.
    pub explored: usize,
}

/// What the check says.
#[derive(Clone, Debug)]
#[must_use]
pub enum Verdict {
    /// An order of all calls explains every outcome.
    Good(Figures),
    /// Nothing does.
    Bad(Box<Violation>),
    /// The bound was reached before either was known.
    GaveUp {
        /// The keys whose search was too long.
        keys: Vec<String>,
        /// The bounds.
        limits: Limits,
    },
}

impl Verdict {
    /// The figures of a good history.
    ///
    /// # Panics
    /// When it is not good, with the report; when the check gave up.
    #[track_caller]
    pub fn expect_good(self) -> Figures {
        match self {
            Self::Good(figures) => figures,
            other => panic!("{other}"),
        }
    }

    /// What is wrong, if the check found that something is.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        match self {
            Self::Bad(violation) => Some(violation),
            _ => None,
        }
    }

    /// Whether an order explains everything.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self, Self::Good(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good(figures) => write!(f, "linearizable: {figures:?}"),
            Self::Bad(violation) => write!(f, "{violation}"),
            Self::GaveUp { keys, limits } => write!(
                f,
                "the check gave up on {keys:?}: more than {} configurations, or {OPEN_MAX} open calls",
                limits.configurations_max
            ),
        }
    }
}

/// Checks the history of one life of a store that was empty before.
pub fn check(events: &[Event], limits: &Limits) -> Verdict {
    let groups = match prepare::groups(events, limits.expiry_band) {
        Ok(groups) => groups,
        Err(violation) => return Verdict::Bad(violation),
    };
    let unknown = events.iter().filter(|e| e.returned.is_none() || e.outcome == Outcome::Unknown).count();
    let mut figures = Figures { events: events.len(), unknown, groups: groups.len(), explored: 0 };
    for group in &groups {
        let simple = counter::counter(group).or_else(|| counter::sequence(group));
        let is_decided = simple.is_some();
        if let Err((reason, ops)) = simple.unwrap_or_else(|| tokens(group)) {
            let shown: Vec<usize> = ops.iter().map(|op| group.ops[*op].event).collect();
            return Verdict::Bad(Violation::of(events, reason, &shown));
        }
        if is_decided {
            continue;
        }
        match search::search(group, limits.configurations_max, &mut figures.explored) {
            Found::Order => {}
            Found::Nothing { op, states } => return Verdict::Bad(Violation::of_search(events, group, op, &states)),
            Found::TooMuch => {
                let keys = group.keys.iter().map(ToString::to_string).collect();
                return Verdict::GaveUp { keys, limits: *limits };
            }
        }
    }
    Verdict::Good(figures)
}

/// Tokens are granted once.
fn tokens(group: &Group<'_>) -> Result<(), counter::Wrong> {
    let mut granted = HashMap::new();
    for (at, op) in group.ops.iter().enumerate() {
        if let (Call::TryLock { .. }, Outcome::Locked { token }) = (op.call, op.outcome)
            && let Some(other) = granted.insert((op.slot, *token), at)
        {
            return Err((Reason::TokenTwice, vec![other, at]));
        }
    }
    Ok(())
}

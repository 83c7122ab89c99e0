//! How calls ended, as reports count them.

use super::{Event, Outcome};

impl Event {
    /// Whether it returned and its outcome is known.
    #[must_use]
    pub const fn ended_well(&self) -> bool {
        self.returned.is_some() && !matches!(self.outcome, Outcome::Unknown | Outcome::NotExecuted | Outcome::Noted)
    }

    /// The class of its end, for people.
    #[must_use]
    pub const fn ending(&self) -> &'static str {
        match (&self.outcome, self.returned) {
            (_, None) => "never returned",
            (Outcome::Unknown, _) => "in doubt",
            (Outcome::NotExecuted, _) => "failed or refused, not carried out",
            (Outcome::Fenced, _) => "fenced off",
            (Outcome::Noted, _) => "locks that may have been lost",
            _ => "ended well",
        }
    }
}

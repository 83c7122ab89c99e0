//! How long the driver may block on behalf of what is open.

use super::Driver;
use crate::in_flight::{Op, Sink};
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use std::time::Duration;

/// Longest time for opening an endpoint again.
const REOPEN_LIMIT: Duration = Duration::from_secs(1);
/// The same while nobody waits for anything: a call that comes meanwhile is late by this at most.
const ERRAND_LIMIT: Duration = Duration::from_millis(100);

impl Driver {
    /// The clock of an operation starts when the driver first has to wait or to block: one that ends at once reads none.
    /// All that are open start together, or each would wait as long as all before it and its own deadline.
    pub fn start_clocks(&mut self, now: BootInstant) {
        if !std::mem::take(&mut self.unclocked) {
            return;
        }
        for op in self.ops.values_mut() {
            op.since.get_or_insert(now);
        }
    }

    /// A call waits for this operation alone, or, with `None`, for whatever ends.
    #[inline]
    pub fn awaits(&mut self, name: Option<SlabKey>) {
        self.awaited = name;
    }

    /// How long an endpoint may take to be opened now: as long as every open operation has time. `None` when one has
    /// had its time, or what the caller waits for has ended. What else has ended does not matter: of a `multi_get` it
    /// waits until those before it have, which may need the endpoint.
    pub fn may_block(&mut self) -> Option<Duration> {
        let now = BootInstant::now();
        self.start_clocks(now);
        self.deadlines_at = now;
        self.look_at_deadlines(now);
        let has_ended = match self.awaited {
            None => !self.finished.is_empty(),
            Some(name) => self.ops.find(name).is_some_and(|op| op.result.is_some()),
        };
        if has_ended {
            return None;
        }
        let mut least = None;
        for name in self.ops.keys() {
            let is_open = |op: &&mut Op| op.sink != Sink::Nobody && op.result.is_none();
            let Some(op) = self.ops.find(name).filter(is_open) else { continue };
            let left = op.deadline.saturating_sub(now.since(op.since.unwrap_or(now)));
            least = Some(least.unwrap_or(self.patience.unwrap_or(REOPEN_LIMIT)).min(left));
        }
        Some(least.unwrap_or(self.patience.unwrap_or(ERRAND_LIMIT))).filter(|least| !least.is_zero())
    }
}

//! A history while it is made, in memory.

use super::event::{Call, Event, Outcome};

/// Names a call that has not returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Open(usize);

/// A history while it is made. The moments are the caller's: a real clock, or a simulated one.
#[derive(Clone, Default, Debug)]
pub struct Record {
    events: Vec<Event>,
}

impl Record {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A call begins. Unless it is ended, it may take effect at any later time or never.
    pub fn begin(&mut self, client: u32, now: u64, call: Call) -> Open {
        self.events.push(Event { client, invoked: now, returned: None, call, outcome: Outcome::Unknown });
        Open(self.events.len() - 1)
    }

    /// A call has ended.
    pub fn end(&mut self, open: Open, now: u64, outcome: Outcome) {
        let event = &mut self.events[open.0];
        event.returned = Some(now);
        event.outcome = outcome;
    }

    /// The history so far.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The history.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }
}

//! The lane to a part of a server: an endpoint that is opened again when it breaks.

use crate::control::{ControlError, Failure};
use crate::retry::Backoff;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::EndpointId;
use std::time::Duration;

/// Pauses between attempts to open an endpoint again.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(250);

fn backoff() -> Backoff {
    Backoff::new(PAUSE_FIRST, PAUSE_MAX)
}

/// One lane. It starts closed, and may be opened at once.
pub(crate) struct Lane {
    /// The endpoint while it is open.
    pub endpoint: Option<EndpointId>,
    /// Not to be opened before.
    open_at: BootInstant,
    backoff: Backoff,
    /// Why the server would not have it opened, when that was tried last.
    refusal: Option<String>,
    /// Whether work has ended well on it: from then on it is opened again at once should it break.
    has_answered: bool,
}

impl Lane {
    /// One that is closed.
    pub fn closed() -> Self {
        Self { endpoint: None, open_at: BootInstant::from_nanos(0), backoff: backoff(), refusal: None, has_answered: true }
    }

    /// One that has proved itself.
    pub fn connected(endpoint: EndpointId) -> Self {
        Self { endpoint: Some(endpoint), ..Self::closed() }
    }

    /// Work has ended well on it.
    #[inline]
    pub fn answered(&mut self) {
        if !self.has_answered {
            (self.has_answered, self.backoff) = (true, backoff());
        }
    }

    /// Whether it must be opened before it can be used.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.endpoint.is_none()
    }

    /// Whether it may be opened at `now`.
    pub fn is_due(&self, now: BootInstant) -> bool {
        now >= self.open_at
    }

    /// It broke: tells what is to be closed, if it was open. It is opened again at once, but not if this endpoint has not
    /// brought a single answer: what broke it would break the next as well.
    pub fn broke(&mut self) -> Option<EndpointId> {
        let endpoint = self.endpoint.take()?;
        if !std::mem::take(&mut self.has_answered) {
            self.put_off();
        }
        Some(endpoint)
    }

    /// It is open.
    pub fn opened(&mut self, endpoint: EndpointId) {
        (self.endpoint, self.refusal) = (Some(endpoint), None);
    }

    /// The server could not be asked, or would not have it opened. What it said last stays said while it does not answer.
    pub fn not_opened(&mut self, error: ControlError) {
        match error.failure {
            Failure::Refused => self.refusal = Some(error.reason),
            Failure::Lapsed => self.refusal = None,
            Failure::Unreachable => {}
        }
        self.put_off();
    }

    /// Why it is closed, if the server has told.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// It is not to be opened before a pause.
    pub fn put_off(&mut self) {
        self.open_at = BootInstant::now().plus(self.pause());
    }

    /// The next pause, each longer than the one before.
    pub fn pause(&mut self) -> Duration {
        self.backoff.pause()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_answers_is_opened_with_pauses() {
        let mut lane = Lane::connected(EndpointId(1));
        assert_eq!(lane.broke(), Some(EndpointId(1)));
        assert!(lane.is_closed() && lane.is_due(BootInstant::now()), "it had answered before");
        assert_eq!(lane.broke(), None, "it breaks once");
        lane.endpoint = Some(EndpointId(2));
        let before = BootInstant::now();
        assert_eq!(lane.broke(), Some(EndpointId(2)));
        assert!(!lane.is_due(before), "an endpoint that brought no answer");
        (0..10).for_each(|_| lane.put_off());
        assert!(lane.pause() >= PAUSE_MAX / 2, "pauses grow");
        lane.endpoint = Some(EndpointId(3));
        lane.answered();
        lane.broke();
        assert!(lane.pause() <= PAUSE_FIRST, "and begin anew after an answer");
    }
}

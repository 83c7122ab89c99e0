//! Asking for a later map: one server after the other, the next one when an answer is late.

use super::members::Members;
use crate::control::Control;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::MemberId;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Shortest pause between two questions that nothing but time has caused.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// After this an answer is late: a server that stands still must not keep the others from being asked.
const LATE: Duration = Duration::from_millis(25);
/// Questions that wait for their answers at once.
const QUESTIONS_MAX: u32 = 8;

impl Members {
    /// Asks for a map of epoch `wanted` at least, unless it is known or somebody has asked already; `from` first. Whoever
    /// needs it calls this again until it has come.
    pub fn refresh(&self, wanted: u32, from: Option<MemberId>) {
        if self.map.epoch() >= wanted {
            return;
        }
        let (now, before) = (BootInstant::now().as_nanos(), self.asked_at.load(Ordering::Relaxed));
        let pause = match (self.asking.load(Ordering::Acquire), from) {
            (QUESTIONS_MAX.., _) => return,
            (1.., _) => LATE,
            (0, None) => PAUSE_MIN,
            (0, Some(_)) => Duration::ZERO,
        };
        let is_due = Duration::from_nanos(now.saturating_sub(before)) >= pause;
        // Of several that see this one asks.
        if !is_due || self.asked_at.compare_exchange(before, now, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        self.asking.fetch_add(1, Ordering::AcqRel);
        let Some(control) = self.somebody(from) else {
            self.asking.fetch_sub(1, Ordering::AcqRel);
            return;
        };
        let me = self.me.clone();
        let server = control.name().to_owned();
        control.map_later(move |told| {
            let Some(members) = me.upgrade() else { return };
            members.asking.fetch_sub(1, Ordering::AcqRel);
            match told {
                Ok(map) => members.offer(map),
                Err(error) => tracing::debug!(server, reason = error.reason, "the map could not be asked for"),
            }
        });
    }

    /// A server to ask: `from`, else those that answer heartbeats in turn, else any.
    pub fn somebody(&self, from: Option<MemberId>) -> Option<Control> {
        if let Some(control) = from.and_then(|id| self.control(id).ok()) {
            return Some(control);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let now = BootInstant::now();
        let all = self.all();
        let answers = |s: &&std::sync::Arc<crate::server::Server>| {
            s.shared.gone().is_none() && s.shared.attached().is_some_and(|a| a.lease.valid_at(now))
        };
        let alive: Vec<_> = all.iter().filter(answers).collect();
        // Every third question goes to anybody: those that answer may all be cut off from the others.
        if !alive.is_empty() && turn % 3 != 2 {
            return Some(alive[turn % alive.len()].shared.control.clone());
        }
        let ids: Vec<MemberId> = self.map.map().members.keys().copied().collect();
        let choices = ids.len() + self.seeds.len();
        match turn / 3 % choices.max(1) {
            at if at < ids.len() => self.control(ids[at]).ok(),
            at => self.seeds.get(at - ids.len()).cloned(),
        }
    }
}

//! Stores that a CPU has made and no NIC sees yet.
//!
//! A store waits in its thread's queue. Those between two fences become visible in any order but for stores to
//! one word; what lies behind a fence waits for all before it. On real machines the barrier before a release
//! store is `dmb oshst` (Arm) or nothing at all, since the CPU keeps the order (x86): this is the weaker of both.

use super::actor;
use super::agenda::Event;
use super::state::{State, with};
use crate::fabric::Access;
use std::time::Duration;

const WORD: usize = size_of::<u64>();
/// A thread loses its CPU after one store in so many.
const PREEMPTED_ONE_IN: u32 = 16;

/// A store to (a part of) one word.
#[derive(Clone, Copy)]
struct Store {
    region: u32,
    at: usize,
    bytes: [u8; WORD],
    count: u8,
    fence: u32,
}

impl Store {
    fn word(&self) -> (u32, usize) {
        (self.region, self.at / WORD)
    }
}

/// The queue of a thread.
#[derive(Default)]
pub(super) struct Stores {
    waiting: Vec<Store>,
    fence: u32,
    /// Whether a drain is on the agenda.
    due: bool,
}

/// Code inside has stored `bytes` at `at` of a registered region.
pub(crate) fn stored(region: u32, at: usize, bytes: &[u8]) {
    let preempted = with(|state| {
        state.stored(region, at, bytes);
        state.preemption(region)
    });
    // In the middle of a publication: what was stored before becomes visible, the rest does not.
    if let Some(nanos) = preempted.flatten() {
        actor::sleep(Duration::from_nanos(nanos));
    }
}

/// Code inside has ordered its stores.
pub(crate) fn barrier() {
    with(|state| {
        if let Some(thread) = state.current {
            state.actors[thread as usize].stores.fence += 1;
        }
    });
}

impl State {
    fn stored(&mut self, region: u32, at: usize, bytes: &[u8]) {
        let at_once = self.current_process().is_none_or(|(process, dead)| dead || self.processes[process as usize].quiet);
        let Some(thread) = self.current.filter(|_| !at_once) else {
            if let Some(region) = self.regions.get(&region) {
                region.show(at, bytes);
            }
            return;
        };
        let stores = &mut self.actors[thread as usize].stores;
        let fence = stores.fence;
        let mut done = 0;
        while done < bytes.len() {
            let at = at + done;
            let count = (WORD - at % WORD).min(bytes.len() - done);
            let mut word = [0; WORD];
            word[..count].copy_from_slice(&bytes[done..done + count]);
            stores.waiting.push(Store { region, at, bytes: word, count: count as u8, fence });
            done += count;
        }
        self.expect_drain(thread);
    }

    /// How long the running thread loses its CPU after a store to index or heap, where no lock is held. Mostly not at all.
    fn preemption(&mut self, region: u32) -> Option<u64> {
        let (process, dead) = self.current_process()?;
        let is_open = !dead && !self.processes[process as usize].quiet;
        let is_index = self.regions.get(&region).is_some_and(|region| region.access == Access::RemoteRead);
        (is_open && is_index && self.dice.one_in(PREEMPTED_ONE_IN)).then(|| self.dice.preemption())
    }

    fn expect_drain(&mut self, thread: u32) {
        if !std::mem::replace(&mut self.actors[thread as usize].stores.due, true) {
            let delay = self.dice.store_delay();
            self.later(delay, Event::Drain { thread });
        }
    }

    fn show(&mut self, store: Store) {
        if let Some(region) = self.regions.get(&store.region) {
            region.show(store.at, &store.bytes[..store.count as usize]);
        }
    }

    /// All that the running thread has stored becomes visible: it rings a doorbell.
    pub(super) fn flush(&mut self) {
        let Some(thread) = self.current else { return };
        for store in std::mem::take(&mut self.actors[thread as usize].stores.waiting) {
            self.show(store);
        }
    }

    /// Some of what a thread has stored becomes visible.
    pub(super) fn drain(&mut self, thread: u32) {
        self.actors[thread as usize].stores.due = false;
        let mut waiting = std::mem::take(&mut self.actors[thread as usize].stores.waiting);
        if let Some(first) = waiting.first().map(|store| store.fence) {
            let open = waiting.iter().position(|store| store.fence != first).unwrap_or(waiting.len());
            let all = self.dice.one_in(3);
            let mut held = std::mem::take(&mut self.held);
            held.clear();
            let mut kept = Vec::with_capacity(waiting.len());
            for store in waiting.drain(..open) {
                // A later store to a word never overtakes an earlier one.
                if !all && (held.contains(&store.word()) || self.dice.one_in(2)) {
                    held.insert(store.word());
                    kept.push(store);
                } else {
                    self.show(store);
                }
            }
            kept.append(&mut waiting);
            self.held = held;
            waiting = kept;
        }
        let more = !waiting.is_empty();
        self.actors[thread as usize].stores.waiting = waiting;
        if more {
            self.expect_drain(thread);
        }
    }

    /// The CPUs of a process stop: what they had stored becomes visible, or half of it, or nothing.
    pub(super) fn stop_stores(&mut self, thread: u32) {
        let waiting = std::mem::take(&mut self.actors[thread as usize].stores.waiting);
        // A prefix is always allowed, whatever the fences.
        let shown = self.dice.below(waiting.len() as u64 + 1) as usize;
        for store in waiting.into_iter().take(shown) {
            self.show(store);
        }
    }
}

//! What the director can do to the world.

use super::agenda::Event;
use super::endpoint::Stage;
use super::state::with;
use super::world::{ProcessId, World};
use crate::fabric::{Role, Status};

/// Longest time that the memory of a dead process answers, nanoseconds.
const ANSWERS_ON_MAX: u64 = 3_000_000;

impl World {
    /// Kills a process: its threads never go on; its memory answers for a while longer.
    pub fn kill(&self, process: ProcessId) {
        let threads = with(|state| {
            state.processes[process.0 as usize].dead = true;
            let threads: Vec<u32> =
                (0..state.actors.len() as u32).filter(|&thread| state.process_of(thread) == process.0).collect();
            for &thread in &threads {
                state.stop_stores(thread);
            }
            let delay = state.dice.below(ANSWERS_ON_MAX);
            state.later(delay, Event::Reap { process: process.0 });
            threads
        });
        for thread in threads.unwrap_or_default() {
            self.end_thread(thread);
        }
    }

    /// Stops a process for a time: its threads do not run, its memory and its clock go on.
    pub fn pause(&self, process: ProcessId, nanos: u64) {
        with(|state| {
            let until = state.now + nanos;
            let paused = &mut state.processes[process.0 as usize].paused_until;
            *paused = until.max(*paused);
        });
    }

    /// Cuts the way between two processes for a time.
    pub fn cut(&self, one: ProcessId, other: ProcessId, nanos: u64) {
        with(|state| {
            let until = state.now + nanos;
            state.partitions.insert((one.0.min(other.0), one.0.max(other.0)), until);
        });
    }

    /// Whether the way between two processes is cut now.
    #[must_use]
    pub fn is_cut(&self, one: ProcessId, other: ProcessId) -> bool {
        with(|state| state.is_cut(one.0, other.0)).unwrap_or(false)
    }

    /// Breaks one of the client-side queue pairs of a process, whatever of its work was done. False when it has none.
    pub fn break_one(&self, process: ProcessId) -> bool {
        with(|state| {
            let own = |role| matches!(role, Role::Reader | Role::Writer | Role::Beat);
            let ready = state.pairs.iter().filter(|(_, p)| p.process == process.0 && p.stage == Stage::Ready && own(p.role));
            let pairs: Vec<u32> = ready.map(|(&number, _)| number).collect();
            if pairs.is_empty() {
                return false;
            }
            let chosen = pairs[state.dice.below(pairs.len() as u64) as usize];
            state.fail(chosen, Status::Unreachable);
            true
        })
        .unwrap_or(false)
    }

    /// Breaks the pair that carries the next atomic or write of a process, when it was done and before it is answered.
    pub fn trap(&self, process: ProcessId) {
        with(|state| state.traps.insert(process.0));
    }

    /// One completion or wake-up in `one_in` straggles, for at most so many nanoseconds.
    pub fn set_stragglers(&self, one_in: u32, nanos: u64) {
        with(|state| (state.dice.straggler_one_in, state.dice.straggler_max) = (one_in, nanos));
    }
}

impl super::state::State {
    /// Nothing of a dead process answers any more. What is returned is to be dropped outside.
    pub(super) fn reap(&mut self, process: u32) -> Vec<super::region::Region> {
        let ports: Vec<u32> = self.ports.iter().filter(|(_, port)| port.process == process).map(|(&number, _)| number).collect();
        ports.into_iter().for_each(|port| drop(self.ports.remove(&port)));
        self.pairs.retain(|_, pair| pair.process != process || pair.stage == Stage::Closed);
        let keys: Vec<u32> = self.regions.iter().filter(|(_, region)| region.process == process).map(|(&key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.regions.remove(&key)).collect()
    }
}

//! The world as its director sees it.

use super::actor::ThreadId;
use super::agenda::Event;
use super::chance::Chance;
use super::fabric::SimFabric;
use super::state::{Act, Process, State, enter, with};
use crate::fabric::Fabric;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Range of the clocks of processes when a world begins, nanoseconds; and of their drift, millionths.
const CLOCK_OFFSET_MAX: u64 = 3_600_000_000_000;
const DRIFT_MAX_PPM: u64 = 400;

/// A process of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId(pub(super) u32);

/// A world. One thread has one at a time.
pub struct World {
    _state: Rc<RefCell<State>>,
}

impl World {
    /// A world whose every chance comes from `seed`.
    ///
    /// # Panics
    /// When this thread has one already.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        assert!(with(|_| ()).is_none(), "a thread has one world at a time");
        let state = Rc::new(RefCell::new(State::new(seed)));
        enter(Some(Rc::clone(&state)));
        Self { _state: state }
    }

    /// Random numbers out of the world's seed, for the director.
    #[must_use]
    pub fn chance(&self) -> Chance {
        Chance::of_world()
    }

    /// Simulated time, nanoseconds since the beginning.
    #[must_use]
    pub fn now(&self) -> u64 {
        with(|state| state.now).unwrap_or(0)
    }

    /// A number that two runs of one seed have in common, and how many events have happened.
    #[must_use]
    pub fn fingerprint(&self) -> (u64, u64) {
        with(|state| (state.fingerprint(), state.events)).unwrap_or_default()
    }

    /// A new process without threads.
    pub fn process(&self, name: &str) -> ProcessId {
        let number = with(|state| {
            let process = Process {
                name: name.into(),
                dead: false,
                paused_until: 0,
                clock_offset: 1_000_000_000 + state.dice.below(CLOCK_OFFSET_MAX),
                drift_ppm: state.dice.below(2 * DRIFT_MAX_PPM + 1) as i64 - DRIFT_MAX_PPM as i64,
                quiet: false,
            };
            state.processes.push(process);
            state.processes.len() as u32 - 1
        });
        ProcessId(number.unwrap_or(0))
    }

    /// The device of a process.
    #[must_use]
    pub fn fabric(&self, process: ProcessId) -> Arc<dyn Fabric> {
        Arc::new(SimFabric::new(process.0))
    }

    /// Starts a thread of a process.
    pub fn spawn(&self, process: ProcessId, name: &str, run: impl FnOnce() + Send + 'static) -> ThreadId {
        with(|state| state.start(process.0, name, run)).expect("there is a world")
    }

    /// Whether what a process stores is visible at once: while it starts, and nobody looks.
    pub fn set_quiet(&self, process: ProcessId, quiet: bool) {
        with(|state| state.processes[process.0 as usize].quiet = quiet);
    }

    /// Does something `nanos` from now.
    pub fn after(&self, nanos: u64, act: impl FnOnce(&Self) + 'static) {
        let act: Act = Box::new(act);
        with(|state| {
            state.next_act += 1;
            let number = state.next_act;
            state.acts.insert(number, act);
            state.later(nanos, Event::Call { number });
        });
    }

    /// Lets things happen until `done`, or until `nanos` from now. True when it was done.
    pub fn run(&self, nanos: u64, mut done: impl FnMut() -> bool) -> bool {
        let until = self.now().saturating_add(nanos);
        while !done() {
            let next = with(|state| {
                if state.agenda.next_at().is_none_or(|at| at > until) {
                    state.now = state.now.max(until);
                    return None;
                }
                let (at, event) = state.agenda.next()?;
                state.now = state.now.max(at);
                state.note(event);
                Some(event)
            });
            match next.flatten() {
                Some(event) => self.happen(event),
                None => return done(),
            }
        }
        true
    }

    fn happen(&self, event: Event) {
        match event {
            Event::Wake { thread, token } => self.wake(thread, token),
            Event::Call { number } => {
                if let Some(act) = with(|state| state.acts.remove(&number)).flatten() {
                    act(self);
                }
            }
            Event::Reap { process } => drop(with(|state| state.reap(process))),
            Event::Start { pair, serial } => drop(with(|state| state.start_request(pair, serial))),
            Event::Step { pair, serial } => drop(with(|state| state.step_request(pair, serial))),
            Event::Finish { pair, serial } => drop(with(|state| state.finish_request(pair, serial))),
            Event::GiveUp { pair, serial } => drop(with(|state| state.give_up_request(pair, serial))),
            Event::Drain { thread } => drop(with(|state| state.drain(thread))),
        }
    }

    /// Lets a thread run until it waits.
    fn wake(&self, thread: u32, token: u64) {
        let run = with(|state| {
            let actor = &state.actors[thread as usize];
            if actor.token != token || actor.ended {
                return None;
            }
            let process = &state.processes[actor.process as usize];
            if process.dead {
                return None;
            }
            if process.paused_until > state.now {
                let after = process.paused_until - state.now;
                state.later(after, Event::Wake { thread, token });
                return None;
            }
            state.current = Some(thread);
            state.actors[thread as usize].run.take()
        });
        let Some(mut run) = run.flatten() else { return };
        run.resume();
        let over = run.is_done();
        with(|state| state.current = None);
        if over {
            with(|state| state.actors[thread as usize].ended = true);
        } else {
            with(|state| state.actors[thread as usize].run = Some(run));
        }
    }

    /// Drops a thread: its destructors run, and nothing of it waits any more.
    pub(super) fn end_thread(&self, thread: u32) {
        let run = with(|state| {
            let actor = &mut state.actors[thread as usize];
            actor.ended = true;
            let run = actor.run.take();
            state.current = Some(thread);
            run
        });
        drop(run);
        with(|state| state.current = None);
    }

    /// Names of the threads that have not ended, for a report.
    #[must_use]
    pub fn threads(&self) -> Vec<String> {
        with(|state| {
            let name = |process: u32| state.processes[process as usize].name.clone();
            let open = state.actors.iter().filter(|actor| !actor.ended);
            open.map(|actor| format!("{}/{}", name(actor.process), actor.name)).collect()
        })
        .unwrap_or_default()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let processes = with(|state| state.processes.len() as u32).unwrap_or(0);
        if !std::thread::panicking() {
            for process in 0..processes {
                self.kill(ProcessId(process));
            }
        }
        enter(None);
    }
}

//! Threads: coroutines that run the real code until it waits.

use super::agenda::Event;
use super::state::{State, with};
use super::stores::Stores;
use crossbeam::channel::{Receiver, RecvTimeoutError, TryRecvError};
use generator::{Generator, Gn};
use std::time::Duration;

/// Words of a thread's stack.
const STACK_WORDS: usize = 96 << 10;
/// Longest nap between two looks at a channel or at a thread's end.
const NAP_MAX: Duration = Duration::from_micros(200);
const NAP_FIRST: Duration = Duration::from_micros(2);
/// What a reading of the clock costs: so that no loop around it lasts for ever.
const CLOCK_COST: u64 = 25;
/// What a dead thread's clock gains with each reading, so that its destructors' waits end.
const DEAD_CLOCK_COST: u64 = 10_000_000;

/// A thread.
pub(super) struct Actor {
    pub(super) process: u32,
    pub(super) name: String,
    pub(super) run: Option<Generator<'static, (), ()>>,
    /// Rises with each wait; a wake-up for an earlier one is void.
    pub(super) token: u64,
    pub(super) ended: bool,
    pub(super) stores: Stores,
}

/// A simulated thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadId(u32);

impl ThreadId {
    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(self) -> bool {
        with(|state| state.actors[self.0 as usize].ended).unwrap_or(true)
    }

    /// Waits for its end.
    pub(crate) fn join(self) -> bool {
        while !self.is_finished() && sleep(NAP_MAX) && !is_dead() {}
        true
    }
}

impl State {
    /// A new thread of a process, due at once.
    pub(super) fn start(&mut self, process: u32, name: &str, run: impl FnOnce() + Send + 'static) -> ThreadId {
        let thread = self.actors.len() as u32;
        let run = Gn::<()>::new_opt(STACK_WORDS, run);
        self.actors.push(Actor { process, name: name.into(), run: Some(run), token: 0, ended: false, stores: Stores::default() });
        let delay = self.dice.latency();
        self.later(delay, Event::Wake { thread, token: 0 });
        ThreadId(thread)
    }

    /// Ends a thread's wait, soon.
    pub(super) fn rouse(&mut self, thread: u32) {
        let delay = 300 + self.dice.latency();
        let token = self.actors[thread as usize].token;
        self.later(delay, Event::Wake { thread, token });
    }
}

/// Whether the caller runs in a thread of a world.
#[inline]
pub(crate) fn is_inside() -> bool {
    with(|state| state.current.is_some()).unwrap_or(false)
}

/// Whether the caller's process was killed, so that only its destructors run.
pub(super) fn is_dead() -> bool {
    with(|state| state.current_process().is_some_and(|(_, dead)| dead)).unwrap_or(false)
}

/// The clock of the caller's process.
pub(crate) fn nanos() -> Option<u64> {
    with(|state| {
        let (process, dead) = state.current_process()?;
        if dead {
            state.processes[process as usize].clock_offset += DEAD_CLOCK_COST;
        } else {
            state.now += CLOCK_COST;
        }
        Some(state.processes[process as usize].clock(state.now))
    })?
}

/// Simulated time, nanoseconds since the world began; the same for all processes. 0 outside of a world.
#[must_use]
pub fn time() -> u64 {
    with(|state| state.now).unwrap_or(0)
}

/// The caller's process has started: what it stores from now on is not visible at once.
pub fn end_quiet() {
    with(|state| {
        if let Some((process, _)) = state.current_process() {
            state.processes[process as usize].quiet = false;
        }
    });
}

/// Waits for `pause`, or until the thread is roused. False outside of a world.
pub(crate) fn sleep(pause: Duration) -> bool {
    let parked = with(|state| {
        let thread = state.current?;
        let (_, dead) = state.current_process()?;
        if dead {
            return Some(false);
        }
        let actor = &mut state.actors[thread as usize];
        actor.token += 1;
        let token = actor.token;
        let pause = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX / 2);
        let late = state.dice.below(500);
        state.later(pause.saturating_add(late), Event::Wake { thread, token });
        Some(true)
    });
    match parked.flatten() {
        None => false,
        Some(false) => true,
        Some(true) => {
            hand_over();
            true
        }
    }
}

/// Gives the turn back to the world.
#[allow(deprecated, reason = "the scope that replaces it would have to be passed through all the code under test")]
fn hand_over() {
    generator::yield_with(());
}

/// Starts a thread of the caller's process.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<ThreadId> {
    let started = with(|state| match state.current_process() {
        Some((process, false)) => Ok(state.start(process, name, run)),
        _ => Err(run),
    });
    match started {
        Some(Ok(thread)) => Ok(thread),
        _ => Err(std::io::Error::other("the process is dead")),
    }
}

/// Receives from a channel, looking at it now and then.
pub(crate) fn receive<T>(from: &Receiver<T>, limit: Option<Duration>) -> Result<T, RecvTimeoutError> {
    let started = nanos().unwrap_or(0);
    let mut nap = NAP_FIRST;
    loop {
        match from.try_recv() {
            Ok(received) => return Ok(received),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        let waited = Duration::from_nanos(nanos().unwrap_or(u64::MAX).saturating_sub(started));
        if is_dead() || limit.is_some_and(|limit| waited >= limit) {
            return Err(RecvTimeoutError::Timeout);
        }
        sleep(nap);
        nap = (nap * 2).min(NAP_MAX);
    }
}

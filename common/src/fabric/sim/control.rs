//! Calls from one process into another, as a control plane makes them.

use super::actor::{is_dead, nanos, sleep};
use super::state::with;
use super::world::ProcessId;
use crossbeam::channel::{TryRecvError, bounded};
use std::time::Duration;

/// Longest nap between two looks for the answer.
const NAP_MAX: Duration = Duration::from_micros(500);

/// Why a call has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The process is dead, or there is no way to it, or its answer was lost.
    #[error("the process cannot be reached")]
    Unreachable,
    /// It did not come in time; it may still be at work.
    #[error("no answer in time")]
    Deadline,
}

/// Runs `call` on a thread of `process` and waits for at most `limit` for what it returns.
///
/// # Errors
/// When there is no answer; the call may have been carried out all the same.
pub fn within<T: Send + 'static>(
    process: ProcessId,
    name: &str,
    limit: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let (reply, answer) = bounded(1);
    let started = nanos().unwrap_or(0);
    let is_over = || is_dead() || Duration::from_nanos(nanos().unwrap_or(u64::MAX).saturating_sub(started)) >= limit;
    let Some(from) = find_a_way(process, is_over) else {
        sleep(NAP_MAX);
        return Err(NoAnswer::Unreachable);
    };
    with(|state| {
        state.start(process.0, name, move || {
            let _ = reply.try_send(call());
        });
    });
    let mut nap = Duration::from_micros(5);
    loop {
        let cut = with(|state| state.is_cut(from, process.0)).unwrap_or(true);
        match answer.try_recv() {
            Ok(answer) if !cut => return Ok(answer),
            Ok(_) | Err(TryRecvError::Disconnected) => return Err(NoAnswer::Unreachable),
            Err(TryRecvError::Empty) => {}
        }
        if is_dead() {
            return Err(NoAnswer::Unreachable);
        }
        if is_over() {
            return Err(NoAnswer::Deadline);
        }
        sleep(nap);
        nap = (nap * 2).min(NAP_MAX);
    }
}

/// The caller's process, once there is a way from it to `process`. Over a link that is cut it is told so at once, or is
/// not told anything: packets are lost, and repeated until they arrive or until the call is over.
fn find_a_way(process: ProcessId, is_over: impl Fn() -> bool) -> Option<u32> {
    let is_told = with(|state| state.dice.one_in(2)).unwrap_or(true);
    loop {
        let way = with(|state| {
            let (from, dead) = state.current_process()?;
            let there = !dead && !state.processes[process.0 as usize].dead;
            there.then(|| (from, state.is_cut(from, process.0)))
        });
        let (from, cut) = way.flatten()?;
        if !cut {
            return Some(from);
        }
        if is_told || is_over() {
            return None;
        }
        sleep(NAP_MAX);
    }
}

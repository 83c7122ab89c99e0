//! The threads of a run: each opens its own session, then all go through the same phases.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::interim::{Interim, LOOK_EVERY, Line};
use super::measured::Measured;
use super::member::{Done, Member, Plan};
use super::phase::{Order, Part, Phase, Work};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::target::Target;

/// Why there are no threads to work with.
#[derive(Debug, thiserror::Error)]
pub enum CrewError {
    /// A thread could not open its session.
    #[error("thread {index} could not open its session: {cause}")]
    Session {
        /// The thread.
        index: usize,
        /// What the library said.
        cause: String,
    },
    /// A process of those that work together.
    #[error("client {index} ended early: {cause}")]
    Process {
        /// The process.
        index: usize,
        /// What it said.
        cause: String,
    },
    /// The system gave no thread or process, or took it away.
    #[error("no thread or process to be had: {0}")]
    System(#[from] std::io::Error),
    /// A thread ended that should not have.
    #[error("a thread of the load generator ended unexpectedly: this is a bug of kv-bench")]
    Ended,
}

struct Command {
    phase: Arc<Phase>,
    work: Work,
    interim: bool,
}

/// What threads tell the main one.
pub enum Told {
    /// The latencies of an interval.
    Interval(Histogram<u64>),
    /// All of a phase, by this thread.
    Part(usize, Box<Part>),
}

/// Threads that wait for their next phase.
pub struct Crew {
    commands: Vec<Sender<Command>>,
    told: Receiver<Told>,
    threads: Vec<JoinHandle<()>>,
    done: Vec<Arc<Done>>,
}

impl Crew {
    /// Threads with a target each; a target stays on the thread that opened it.
    pub fn start<T, F>(plan: &Plan, threads: usize, open: F) -> Result<Self, CrewError>
    where
        T: Target,
        F: Fn(usize) -> Result<T, Failure> + Clone + Send + 'static,
    {
        let (teller, told) = channel();
        let (ready_sender, ready) = channel();
        let mut crew = Self { commands: Vec::new(), told, threads: Vec::new(), done: Vec::new() };
        for index in 0..threads {
            let (command_sender, commands) = channel();
            let done = Arc::<Done>::default();
            let (plan, open, ready, teller) = (plan.clone(), open.clone(), ready_sender.clone(), teller.clone());
            crew.commands.push(command_sender);
            crew.done.push(done.clone());
            let body = move || {
                let made = open(index).and_then(|mut target| plan.prepare(&mut target, index, threads).map(|()| target));
                match made {
                    Ok(target) => {
                        let member = Member::new(target, plan, (index, threads), done, teller.clone());
                        if ready.send(Ok(())).is_ok() {
                            drop(ready);
                            serve(member, index, &commands, &teller);
                        }
                    }
                    Err(failure) => drop(ready.send(Err(CrewError::Session { index, cause: failure.text }))),
                }
            };
            crew.threads.push(std::thread::Builder::new().name(format!("load-{index}")).spawn(body)?);
        }
        drop(ready_sender);
        for _ in 0..threads {
            ready.recv().map_err(|_| CrewError::Ended)??;
        }
        Ok(crew)
    }

    /// Runs a phase; the order says what each thread does. Threads with endless work are stopped when the others ended.
    pub fn run(&self, order: &Order, line: Option<Line>, progress: &Progress) -> Result<Measured, CrewError> {
        let work = &order.work;
        let phase = Arc::new(Phase::new(order.limits.operations, work.len(), order.pacing));
        let before = self.done();
        for (command, work) in self.commands.iter().zip(work) {
            let command_now = Command { phase: phase.clone(), work: *work, interim: line.is_some() };
            command.send(command_now).map_err(|_| CrewError::Ended)?;
        }
        let is_endless = |index: usize| matches!(work[index], Work::Endless(_));
        let all_endless = (0..work.len()).all(is_endless);
        let mut bound_left = (0..work.len()).filter(|index| !is_endless(*index)).count();
        let until = order.limits.duration.map(|duration| Instant::now() + duration);
        let mut interim = Interim::new(progress, line);
        let mut parts = Vec::with_capacity(work.len());
        let mut next_look = Instant::now() + LOOK_EVERY;
        while parts.len() < work.len() {
            match self.told.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok(Told::Interval(latencies)) => interim.add(&latencies),
                Ok(Told::Part(index, part)) => {
                    bound_left -= usize::from(!is_endless(index));
                    parts.push(*part);
                }
                Err(RecvTimeoutError::Timeout) if self.threads.iter().any(JoinHandle::is_finished) => {
                    return Err(CrewError::Ended);
                }
                Err(RecvTimeoutError::Timeout) => {
                    next_look = Instant::now() + LOOK_EVERY;
                    if let Some(until) = until {
                        next_look = next_look.min(until.max(Instant::now()));
                    }
                    if interim.look(self.done() - before, work.len() - parts.len()) {
                        phase.tick();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(CrewError::Ended),
            }
            let time_is_up = until.is_some_and(|until| Instant::now() >= until);
            if time_is_up || (bound_left == 0 && parts.len() < work.len() && !all_endless) {
                phase.stop();
                next_look = next_look.max(Instant::now() + LOOK_EVERY / 10);
            }
        }
        interim.look(self.done() - before, 0);
        let mut measured = Measured::of(&parts);
        measured.course = std::mem::take(&mut interim.course);
        Ok(measured)
    }

    /// Operations that ended so far, of all phases.
    pub fn done(&self) -> u64 {
        self.done.iter().map(|done| done.count()).sum()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.commands.clear();
        for thread in self.threads.drain(..) {
            // Its panic was told on stderr when it happened.
            let _ = thread.join();
        }
    }
}

fn serve<T: Target>(mut member: Member<T>, index: usize, commands: &Receiver<Command>, teller: &Sender<Told>) {
    while let Ok(Command { phase, work, interim }) = commands.recv() {
        let part = member.run(&phase, work, interim);
        if teller.send(Told::Part(index, Box::new(part))).is_err() {
            return;
        }
    }
}

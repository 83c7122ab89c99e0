//! The threads of a run: each opens its own session, then all go through the same phases.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sidewire::{Client, ClientStats};

use super::member::{Done, Member, Plan};
use super::phase::{Part, Phase, Work};
use super::stats_delta;
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::target::{SidewireSession, Target};

/// How often the main thread looks at the others.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why there are no threads to work with.
#[derive(Debug, thiserror::Error)]
pub enum CrewError {
    /// A thread could not open its session.
    #[error("thread {index} could not open its session: {cause}")]
    Session {
        /// The thread.
        index: usize,
        /// What the library said.
        cause: sidewire::Error,
    },
    /// The system gave no thread.
    #[error("no thread to be had: {0}")]
    Thread(#[from] std::io::Error),
    /// A thread ended that should not have.
    #[error("a thread of the load generator ended unexpectedly: this is a bug of kv-bench")]
    Ended,
}

/// When a phase ends: at the first of these.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Operations of all threads together.
    pub operations: Option<u64>,
    /// Time.
    pub duration: Option<Duration>,
}

/// What a phase brought, all threads together.
#[derive(Debug)]
pub struct Measured {
    /// Latencies and failures.
    pub recorder: Recorder,
    /// The client's own counts.
    pub stats: ClientStats,
    /// From the first operation's begin to the last one's end.
    pub elapsed: Duration,
    /// CPU time of the threads.
    pub cpu_ns: u64,
    /// Why some thread gave up, if one did.
    pub gave_up: Option<String>,
}

struct Command {
    phase: Arc<Phase>,
    work: Work,
}

/// Threads that wait for their next phase.
pub struct Crew {
    commands: Vec<Sender<Command>>,
    parts: Receiver<(usize, Part)>,
    threads: Vec<JoinHandle<()>>,
    done: Vec<Arc<Done>>,
}

impl Crew {
    /// Threads with a session of `client` each.
    pub fn with_sessions(client: &Client, plan: &Plan, threads: usize) -> Result<Self, CrewError> {
        let client = client.clone();
        Self::start(plan, threads, move |index| {
            client.session().map(SidewireSession::new).map_err(|cause| CrewError::Session { index, cause })
        })
    }

    /// Threads with a target each; a target stays on the thread that opened it.
    pub fn start<T, F>(plan: &Plan, threads: usize, open: F) -> Result<Self, CrewError>
    where
        T: Target,
        F: Fn(usize) -> Result<T, CrewError> + Clone + Send + 'static,
    {
        let (part_sender, parts) = channel();
        let (ready_sender, ready) = channel();
        let mut crew = Self { commands: Vec::new(), parts, threads: Vec::new(), done: Vec::new() };
        for index in 0..threads {
            let (command_sender, commands) = channel();
            let done = Arc::<Done>::default();
            let (plan, open, ready, parts) = (plan.clone(), open.clone(), ready_sender.clone(), part_sender.clone());
            crew.commands.push(command_sender);
            crew.done.push(done.clone());
            let body = move || match open(index) {
                Ok(target) => {
                    let member = Member::new(target, plan, index, done);
                    if ready.send(Ok(())).is_ok() {
                        drop(ready);
                        serve(member, index, &commands, &parts);
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            };
            crew.threads.push(std::thread::Builder::new().name(format!("load-{index}")).spawn(body)?);
        }
        drop(ready_sender);
        for _ in 0..threads {
            ready.recv().map_err(|_| CrewError::Ended)??;
        }
        Ok(crew)
    }

    /// Runs a phase; `work` says what each thread does. Threads with endless work are stopped when the others ended.
    pub fn run(&self, limits: Limits, work: &[Work], progress: &Progress) -> Result<Measured, CrewError> {
        let phase = Arc::new(Phase::new(limits.operations, work.len()));
        let before = self.done();
        for (command, work) in self.commands.iter().zip(work) {
            command.send(Command { phase: phase.clone(), work: *work }).map_err(|_| CrewError::Ended)?;
        }
        let is_endless = |index: usize| matches!(work[index], Work::Endless(_));
        let mut bound_left = (0..work.len()).filter(|index| !is_endless(*index)).count();
        let until = limits.duration.map(|duration| Instant::now() + duration);
        let mut parts = Vec::with_capacity(work.len());
        while parts.len() < work.len() {
            match self.parts.recv_timeout(LOOK_EVERY) {
                Ok((index, part)) => {
                    bound_left -= usize::from(!is_endless(index));
                    parts.push(part);
                }
                Err(RecvTimeoutError::Timeout) if self.threads.iter().any(JoinHandle::is_finished) => {
                    return Err(CrewError::Ended);
                }
                Err(RecvTimeoutError::Timeout) => progress.set(self.done() - before),
                Err(RecvTimeoutError::Disconnected) => return Err(CrewError::Ended),
            }
            let time_is_up = until.is_some_and(|until| Instant::now() >= until);
            if time_is_up
                || (bound_left == 0 && parts.len() < work.len() && work.iter().any(|work| !matches!(work, Work::Endless(_))))
            {
                phase.stop();
            }
        }
        progress.set(self.done() - before);
        Ok(together(&parts))
    }

    fn done(&self) -> u64 {
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

fn serve<T: Target>(mut member: Member<T>, index: usize, commands: &Receiver<Command>, parts: &Sender<(usize, Part)>) {
    while let Ok(Command { phase, work }) = commands.recv() {
        let part = member.run(&phase, work);
        if parts.send((index, part)).is_err() {
            return;
        }
    }
}

fn together(parts: &[Part]) -> Measured {
    let mut all = Measured {
        recorder: Recorder::default(),
        stats: ClientStats::default(),
        elapsed: Duration::ZERO,
        cpu_ns: 0,
        gave_up: None,
    };
    for part in parts {
        all.recorder.merge(&part.recorder);
        all.stats = stats_delta::sum(all.stats, part.stats);
        all.cpu_ns += part.cpu_ns;
        all.gave_up = all.gave_up.or_else(|| part.gave_up.clone());
    }
    let began = parts.iter().map(|part| part.began).min();
    let ended = parts.iter().map(|part| part.ended).max();
    if let (Some(began), Some(ended)) = (began, ended) {
        all.elapsed = ended - began;
    }
    all
}

//! One schedule, from its plan to a verdict.

use crate::client::{Book, Notes, Worker, attach};
use crate::cluster::{LEASE, Line};
use crate::keys::Keys;
use crate::plan::{Fault, MILLISECOND, Plan, What};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use sidewire_common::fabric::sim::{ProcessId, World};
use sidewire_tests::history::lives::{check_all, split};
use sidewire_tests::history::{Limits, Outcome};
use sidewire_tests::schedules;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Time for a server to start and for all clients to have finished; the longest that a fault lasts is far shorter.
const START_MAX: u64 = 1_000 * MILLISECOND;
const RUN_MAX: u64 = 120_000 * MILLISECOND;
/// By how much a call may be late besides a tenth of its deadline: the slowness of a simulated host.
const SLOWNESS: u64 = 60 * MILLISECOND;
/// The shard clock and that of a client agree within this.
const EXPIRY_BAND: u64 = 8 * MILLISECOND;

/// What a schedule came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    /// Calls that were made.
    pub calls: usize,
    /// Calls of which nobody knows.
    pub unknown: usize,
    /// Events of the world.
    pub events: u64,
    /// The world's fingerprint.
    pub fingerprint: u64,
    /// Lives of the server.
    pub lives: usize,
    /// Segments that were split.
    pub splits: u64,
}

impl schedules::Figures for Figures {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.events += other.events;
        self.fingerprint ^= other.fingerprint;
        self.lives += other.lives;
        self.splits += other.splits;
    }

    fn identity(&self) -> (u64, u64) {
        (self.fingerprint, self.events)
    }
}

#[derive(Clone, Copy)]
struct Client {
    process: ProcessId,
    /// Its number in the history; a session counts a thousand more each.
    number: u32,
    sessions: u32,
}

/// What the director knows.
struct Stage {
    line: Line,
    book: Book,
    keys: Arc<Keys>,
    plan: Plan,
    clients: Mutex<Vec<Client>>,
    /// Number of the next client; one that takes another's place is another.
    next: Mutex<u32>,
    /// When clients died.
    ended: Mutex<HashMap<u32, u64>>,
    /// When processes were stopped, and for how long.
    stops: Mutex<Vec<(u64, u64)>>,
    /// When the server was.
    server_stops: Mutex<Vec<(u64, u64)>>,
    splits: Mutex<u64>,
}

/// Runs a schedule.
///
/// # Errors
/// What was wrong, for people.
pub fn run(plan: &Plan) -> Result<Figures, String> {
    let world = World::new(plan.seed);
    world.set_stragglers(plan.straggler_one_in, plan.straggler_max);
    let stage = Arc::new(Stage {
        line: Line::default(),
        book: Book::default(),
        keys: Arc::new(Keys::new(plan.values)),
        plan: plan.clone(),
        clients: Mutex::default(),
        next: Mutex::new(0),
        ended: Mutex::default(),
        stops: Mutex::default(),
        server_stops: Mutex::default(),
        splits: Mutex::new(0),
    });
    stage.line.start_server(&world, plan.shape);
    if !world.run(START_MAX, || stage.line.server().is_some()) {
        return Err("the server did not start".into());
    }
    for (index, &sessions) in plan.sessions.iter().enumerate() {
        Stage::start_client(&stage, &world, index, sessions);
    }
    for fault in &plan.faults {
        let (stage, fault) = (Arc::clone(&stage), *fault);
        world.after(fault.at, move |world| Stage::strike(&stage, world, fault));
    }
    let verdict = stage.finish(&world);
    stage.note_splits();
    verdict?;
    let (fingerprint, events) = world.fingerprint();
    stage.check(events, fingerprint)
}

impl Stage {
    fn start_client(stage: &Arc<Self>, world: &World, index: usize, sessions: u32) {
        let number = {
            let mut next = stage.next.lock();
            *next += 1;
            *next
        };
        let process = world.process(&format!("client {number}"));
        let mut clients = stage.clients.lock();
        if index < clients.len() {
            clients[index] = Client { process, number, sessions };
        } else {
            clients.push(Client { process, number, sessions });
        }
        stage.book.lock().open.extend((0..sessions).map(|session| number + session * 1000));
        let there = Arc::clone(stage);
        let fills = if index == 0 { stage.plan.fills } else { 0 };
        let seed = stage.plan.seed ^ u64::from(number) << 32;
        world.spawn(process, "main", move || there.be_client(number, sessions, fills, seed));
    }

    /// The main thread of a client.
    fn be_client(self: &Arc<Self>, number: u32, sessions: u32, fills: u32, seed: u64) {
        let client = attach(&self.line, self.plan.deadline);
        for session in 1..sessions {
            let (there, client) = (Arc::clone(self), client.clone());
            let work = move || {
                // Each session is a client of the history.
                let rng = SmallRng::seed_from_u64(seed ^ u64::from(session));
                let number = number + session * 1000;
                Worker::new(client, number, Arc::clone(&there.book), Arc::clone(&there.keys), rng).run(there.plan.habits());
            };
            drop(sidewire_common::host::spawn("session", work));
        }
        let rng = SmallRng::seed_from_u64(seed);
        let mut worker = Worker::new(client, number, Arc::clone(&self.book), Arc::clone(&self.keys), rng);
        if fills > 0
            && let Some(core) = self.line.core()
        {
            let seed = core.store.hash_seed();
            drop(core);
            worker.fill(seed, fills);
        }
        worker.run(self.plan.habits());
    }

    fn strike(stage: &Arc<Self>, world: &World, fault: Fault) {
        let process = |client: usize| stage.clients.lock().get(client).map(|client| client.process);
        let server = stage.line.server();
        match fault.what {
            What::PauseServer { nanos } => {
                if let Some(server) = server {
                    stage.stops.lock().push((world.now(), nanos));
                    stage.server_stops.lock().push((world.now(), nanos));
                    world.pause(server, nanos);
                }
            }
            What::PauseClient { client, nanos } => {
                if let Some(process) = process(client) {
                    stage.stops.lock().push((world.now(), nanos));
                    world.pause(process, nanos);
                }
            }
            What::KillClient { client } => Self::replace_client(stage, world, client),
            What::RestartServer { after } => {
                stage.note_splits();
                stage.line.kill_server(world);
                // The next life is not stopped.
                let now = world.now();
                stage.server_stops.lock().iter_mut().for_each(|(at, nanos)| *nanos = now.saturating_sub(*at).min(*nanos));
                let there = Arc::clone(stage);
                world.after(after, move |world| there.line.start_server(world, there.plan.shape));
            }
            What::Cut { client, nanos } => {
                if let (Some(process), Some(server)) = (process(client), server) {
                    world.cut(process, server, nanos);
                }
            }
            What::Break { client } => {
                if let Some(process) = process(client) {
                    world.break_one(process);
                }
            }
            What::Trap { client } => {
                if let Some(process) = process(client) {
                    world.trap(process);
                }
            }
            What::TrapLoopback => {
                if let Some(server) = server {
                    world.trap(server);
                }
            }
            What::BreakLoopback => {
                if let Some(server) = server {
                    world.break_one(server);
                }
            }
        }
    }

    fn replace_client(stage: &Arc<Self>, world: &World, index: usize) {
        let Some(Client { process, number, sessions }) = stage.clients.lock().get(index).copied() else { return };
        world.kill(process);
        let mut book = stage.book.lock();
        for session in 0..sessions {
            stage.ended.lock().insert(number + session * 1000, world.now());
            book.died(number + session * 1000);
        }
        drop(book);
        Self::start_client(stage, world, index, sessions);
    }

    /// Waits until all clients have done their work.
    fn finish(&self, world: &World) -> Result<(), String> {
        let done = || self.book.lock().open.is_empty();
        if world.run(RUN_MAX, done) { Ok(()) } else { Err(format!("stuck: threads {:?}", world.threads())) }
    }

    fn note_splits(&self) {
        if let Some(core) = self.line.core() {
            let splits = core.workers.metrics().iter().map(|m| m.splits.load(std::sync::atomic::Ordering::Relaxed));
            *self.splits.lock() += splits.sum::<u64>();
        }
    }

    fn check(&self, events: u64, fingerprint: u64) -> Result<Figures, String> {
        let book = self.book.lock();
        self.check_deadlines(&book)?;
        self.check_lease(&book)?;
        book.absurd.clone().map_or(Ok(()), Err)?;
        let lives = split(&book.calls, &self.ended.lock());
        let limits = Limits { expiry_band: EXPIRY_BAND, ..Limits::default() };
        let figures = check_all(&lives, &limits)?;
        let unknown = figures.iter().map(|f| f.unknown).sum();
        let splits = *self.splits.lock();
        Ok(Figures { calls: book.calls.len(), unknown, events, fingerprint, lives: lives.len(), splits })
    }

    /// A server that is stopped answers no beat: what is read there counts for a lease, and no longer.
    fn check_lease(&self, book: &Notes) -> Result<(), String> {
        for &(at, nanos) in self.server_stops.lock().iter() {
            let (from, to) = (at + LEASE.as_nanos() as u64, at + nanos);
            let believed = book.calls.iter().find(|call| {
                let learnt = !matches!(call.event.outcome, Outcome::Unknown | Outcome::NotExecuted | Outcome::Each(_));
                let while_stopped = call.event.returned.is_some_and(|returned| (from..to).contains(&returned));
                learnt && while_stopped && call.event.invoked > from && call.event.call.only_looks()
            });
            if let Some(call) = believed {
                return Err(format!("believed although no beat was answered since {at}: {:?}", call.event));
            }
        }
        Ok(())
    }

    /// Every call has ended within its deadline and a tenth; while processes are stopped time does not count.
    fn check_deadlines(&self, book: &Notes) -> Result<(), String> {
        let stops = self.stops.lock();
        let deadline = self.plan.deadline.as_nanos() as u64;
        for lived in &book.calls {
            let event = &lived.event;
            let Some(returned) = event.returned else { continue };
            let stopped: u64 =
                stops.iter().map(|&(at, nanos)| returned.min(at + nanos).saturating_sub(event.invoked.max(at))).sum();
            let took = returned - event.invoked;
            let limit = deadline + deadline / 10 + SLOWNESS + stopped;
            if took > limit {
                let took = Duration::from_nanos(took);
                return Err(format!("a call took {took:?}, {:?} of it stopped: {event:?}", Duration::from_nanos(stopped)));
            }
        }
        Ok(())
    }
}

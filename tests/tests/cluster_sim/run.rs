//! One schedule, from its seed to a verdict.

use crate::client::{Book, Habits, Worker, attach};
use crate::cluster::{LEASE, Line, Shape, node_name};
use crate::keys::Keys;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sidewire_common::cluster::plan::is_settled;
use sidewire_common::fabric::sim::World;
use sidewire_common::key::KeyHash;
use sidewire_tests::history::lives::{check_all, split};
use sidewire_tests::history::{Call, Limits};
use sidewire_tests::schedules;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;
/// Time for the cluster to form, and for all clients to have finished.
const START_MAX: u64 = 5_000 * MILLISECOND;
const RUN_MAX: u64 = 300_000 * MILLISECOND;
/// The shard clock and that of a client agree within this; successors' clocks differ by a little more.
const EXPIRY_BAND: u64 = 20 * MILLISECOND;
/// Deadline of each call.
const DEADLINE: Duration = Duration::from_millis(700);
/// Calls of a session between two pauses, and pauses at most.
const BURST: u32 = 6;
const BURSTS_MAX: u32 = 400;
/// Between two looks at whether the cluster has healed, before the next fault.
const LOOK: u64 = 20 * MILLISECOND;

/// What goes wrong with one server.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// It dies; another life begins after a while.
    Kill { after: u64 },
    /// It stands still.
    Pause { nanos: u64 },
    /// It reaches the map no more.
    CutOff { nanos: u64 },
    /// Nobody reaches the map any more.
    CutOffAll { nanos: u64 },
    /// It reaches another server no more.
    Cut { other: usize, nanos: u64 },
    /// One of its queue pairs fails.
    Break,
    /// An operator drains it, and thinks better of it.
    Drain { nanos: u64 },
    /// Again and again a leader names an heir for every shard, and the next one none.
    Waver { pause: u64 },
}

/// How often in one fault.
const WAVERS: u64 = 60;

/// A schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub shape: Shape,
    pub sessions: Vec<u32>,
    pub reads: u32,
    /// Faults one after the other, each once the cluster has healed: which server, what, and the pause before.
    pub faults: Vec<(usize, What, u64)>,
}

impl Plan {
    /// The schedule of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0xc105_7e55);
        let servers = 3;
        let shape = Shape { servers, replicas: rng.random_range(2..=3), workers: rng.random_range(1..=2) };
        let faults = (0..rng.random_range(1..=3)).map(|_| {
            let lease = LEASE.as_nanos() as u64;
            let what = match rng.random_range(0..14) {
                0..4 => What::Kill { after: rng.random_range(1..2 * lease) },
                4..7 => What::Pause { nanos: rng.random_range(lease / 10..4 * lease) },
                7 => What::CutOff { nanos: rng.random_range(lease / 2..4 * lease) },
                8 => What::Cut { other: rng.random_range(1..servers), nanos: rng.random_range(MILLISECOND..2 * lease) },
                9 => What::CutOffAll { nanos: rng.random_range(lease / 2..4 * lease) },
                10 => What::Break,
                11 => What::Drain { nanos: rng.random_range(0..lease) },
                _ => What::Waver { pause: rng.random_range(3 * MILLISECOND..10 * MILLISECOND) },
            };
            (rng.random_range(0..servers), what, rng.random_range(0..60 * MILLISECOND))
        });
        let faults = faults.collect();
        let sessions = (0..rng.random_range(1..=3)).map(|_| rng.random_range(1..=2)).collect();
        Self { seed, shape, sessions, reads: [0, 0, 40][rng.random_range(0..3)], faults }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{self:?}")
    }
}

/// What a schedule came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    pub calls: usize,
    pub unknown: usize,
    pub events: u64,
    pub fingerprint: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Changes of the map.
    pub swaps: u64,
    /// Simulated time of the calls, ms.
    pub millis: u64,
}

impl schedules::Figures for Figures {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.events += other.events;
        self.fingerprint ^= other.fingerprint;
        self.faults += other.faults;
        self.swaps += other.swaps;
        self.millis += other.millis;
    }

    fn identity(&self) -> (u64, u64) {
        (self.fingerprint, self.events)
    }
}

struct Stage {
    line: Line,
    book: Book,
    keys: Arc<Keys>,
    plan: Plan,
    struck: Mutex<usize>,
    /// Shards that were begun anew while the cluster formed, and held nothing.
    lost_before: Mutex<u64>,
}

/// Runs a schedule.
///
/// # Errors
/// What was wrong, for people.
pub fn run(plan: &Plan) -> Result<Figures, String> {
    let world = World::new(plan.seed);
    world.set_stragglers(300, 2 * MILLISECOND);
    let stage = Arc::new(Stage {
        line: Line::default(),
        book: Book::default(),
        keys: Arc::new(Keys::new(3)),
        plan: plan.clone(),
        struck: Mutex::default(),
        lost_before: Mutex::default(),
    });
    for node in 0..plan.shape.servers {
        stage.line.start_server(&world, plan.shape, node);
    }
    if !world.run(START_MAX, || stage.is_whole()) {
        return Err(format!("the cluster did not form: {:?}", stage.line.etcd.look()));
    }
    for (index, &sessions) in plan.sessions.iter().enumerate() {
        Stage::start_client(&stage, &world, index as u32 + 1, sessions);
    }
    let began = world.now();
    *stage.lost_before.lock() = stage.lost();
    let next = Arc::clone(&stage);
    world.after(plan.faults.first().map_or(0, |(.., pause)| *pause), move |world| Stage::strike(&next, world));
    let done = || stage.book.lock().open.is_empty();
    if !world.run(RUN_MAX, done) {
        return Err(format!("stuck: threads {:?}", world.threads()));
    }
    let millis = (world.now() - began) / MILLISECOND;
    let (fingerprint, events) = world.fingerprint();
    let shard = || stage.line.etcd.look().map(|(map, _)| KeyHash::of(b"{t}", map.hash_seed).shard());
    stage.check(events, fingerprint, millis).map_err(|error| format!("{error}\nof shard {:?}", shard()))
}

impl Stage {
    /// Every shard has its copies, and every node serves.
    fn is_whole(&self) -> bool {
        let up = (0..self.plan.shape.servers).all(|node| self.line.server(node).is_some());
        up && self
            .line
            .etcd
            .look()
            .is_some_and(|(map, live)| map.members.len() == self.plan.shape.servers && is_settled(&map, &live))
    }

    fn start_client(stage: &Arc<Self>, world: &World, number: u32, sessions: u32) {
        let process = world.process(&format!("client {number}"));
        stage.book.lock().open.extend((0..sessions).map(|session| number + session * 1000));
        let there = Arc::clone(stage);
        let seed = stage.plan.seed ^ u64::from(number) << 32;
        world.spawn(process, "main", move || there.be_client(number, sessions, seed));
    }

    fn be_client(self: &Arc<Self>, number: u32, sessions: u32, seed: u64) {
        let client = attach(&self.line, DEADLINE);
        let work = |client, number, seed| {
            let rng = SmallRng::seed_from_u64(seed);
            let there = Arc::clone(self);
            move || {
                let mut worker = Worker::new(client, number, Arc::clone(&there.book), Arc::clone(&there.keys), rng);
                worker.asks_guards = true;
                // Until all faults have happened and the last has been lived through, in bursts.
                for _ in 0..BURSTS_MAX {
                    let over = *there.struck.lock() >= there.plan.faults.len() && there.is_whole();
                    worker.run(Habits { calls: BURST, reads: there.plan.reads, slowly: false });
                    there.book.lock().open.insert(number);
                    if over {
                        break;
                    }
                    sidewire_common::host::sleep(Duration::from_millis(20));
                }
                there.book.lock().open.remove(&number);
            }
        };
        for session in 1..sessions {
            // Each session is a client of the history.
            let run = work(client.clone(), number + session * 1000, seed ^ u64::from(session));
            drop(sidewire_common::host::spawn("session", run));
        }
        work(client, number, seed)();
    }

    /// The next fault, if the cluster has healed from the last one; else it is looked again.
    fn strike(stage: &Arc<Self>, world: &World) {
        let at = *stage.struck.lock();
        let Some(&(node, what, _)) = stage.plan.faults.get(at) else { return };
        let again = Arc::clone(stage);
        if !stage.is_whole() {
            if std::env::var_os("SIM_LOG").is_some() {
                println!("not whole {:?}", stage.line.etcd.look());
            }
            return world.after(LOOK, move |world| Self::strike(&again, world));
        }
        *stage.struck.lock() += 1;
        stage.hit(world, node, what);
        let pause = stage.plan.faults.get(at + 1).map_or(0, |(.., pause)| *pause);
        // Whatever it was, it must have been noticed before the next.
        let noticed = 2 * LEASE.as_nanos() as u64;
        world.after(noticed + pause, move |world| Self::strike(&again, world));
    }

    fn hit(self: &Arc<Self>, world: &World, node: usize, what: What) {
        let Some(process) = self.line.server(node) else { return };
        match what {
            What::Kill { after } => {
                self.line.kill_server(world, node);
                let there = Arc::clone(self);
                world.after(after, move |world| {
                    let _ = there.line.start_server(world, there.plan.shape, node);
                });
            }
            What::Pause { nanos } => world.pause(process, nanos),
            What::CutOff { nanos } => self.cut_off(world, node, nanos),
            What::CutOffAll { nanos } => (0..self.plan.shape.servers).for_each(|node| self.cut_off(world, node, nanos)),
            What::Cut { other, nanos } => {
                if let Some(other) = self.line.server((node + other) % self.plan.shape.servers) {
                    world.cut(process, other, nanos);
                }
            }
            What::Break => drop(world.break_one(process)),
            What::Waver { pause } => {
                for time in 0..WAVERS {
                    let etcd = self.line.etcd.clone();
                    world.after(time * pause, move |_| etcd.name_heirs());
                }
            }
            What::Drain { nanos } => {
                self.line.etcd.drain(&node_name(node), true);
                let there = Arc::clone(self);
                world.after(nanos, move |_| there.line.etcd.drain(&node_name(node), false));
            }
        }
    }

    fn cut_off(self: &Arc<Self>, world: &World, node: usize, nanos: u64) {
        self.line.etcd.cut(node, true);
        let there = Arc::clone(self);
        world.after(nanos, move |_| there.line.etcd.cut(node, false));
    }

    fn lost(&self) -> u64 {
        self.line.etcd.look().map_or(0, |(map, _)| map.lost)
    }

    fn check(&self, events: u64, fingerprint: u64, millis: u64) -> Result<Figures, String> {
        let lost = self.lost() - *self.lost_before.lock();
        if lost > 0 {
            return Err(format!("{lost} shards were begun anew"));
        }
        let mut calls = {
            let book = self.book.lock();
            book.absurd.clone().map_or(Ok(()), Err)?;
            book.calls.clone()
        };
        // One history: nothing ends with one server.
        // The token of a free lock is its next holder's affair: a new primary begins above all that were granted.
        calls.retain(|call| !matches!(call.event.call, Call::LockState { .. }));
        calls.iter_mut().for_each(|call| (call.life, call.until) = (1, call.until.map(|_| 1)));
        let limits = Limits { expiry_band: EXPIRY_BAND, ..Limits::default() };
        let figures = check_all(&split(&calls, &HashMap::new()), &limits)?;
        let unknown = figures.iter().map(|f| f.unknown).sum();
        let (faults, swaps) = (*self.struck.lock() as u64, self.line.etcd.swaps());
        Ok(Figures { calls: calls.len(), unknown, events, fingerprint, faults, swaps, millis })
    }
}

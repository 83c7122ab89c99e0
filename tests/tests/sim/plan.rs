//! What a seed stands for: who does what, and what goes wrong.

use crate::client::Habits;
use crate::cluster::{LEASE, Shape};
use crate::keys::FILLS_SLOWLY;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::time::Duration;

/// A fault, at a moment of the schedule.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Nanoseconds after the clients have begun.
    pub at: u64,
    /// What goes wrong.
    pub what: What,
}

/// What goes wrong. Clients are counted from 0; times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The server's process is stopped for a while.
    PauseServer { nanos: u64 },
    /// A client's process is stopped for a while.
    PauseClient { client: usize, nanos: u64 },
    /// A client dies; another takes its place.
    KillClient { client: usize },
    /// The server dies; another life of it begins after a while.
    RestartServer { after: u64 },
    /// There is no way between a client and the server for a while.
    Cut { client: usize, nanos: u64 },
    /// One of a client's queue pairs fails.
    Break { client: usize },
    /// The server's way to its own cells fails.
    BreakLoopback,
    /// A client's next atomic or write is done, and its queue pair fails before it is answered.
    Trap { client: usize },
    /// The same for the server's next operation on a cell.
    TrapLoopback,
}

/// A schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the world.
    pub seed: u64,
    /// The server.
    pub shape: Shape,
    /// Sessions of each client.
    pub sessions: Vec<u32>,
    /// Calls of each session.
    pub calls: u32,
    /// Whether so many keys are added meanwhile that their segment splits (1), and splits again (2), and again and again
    /// over so long a time that segments are used anew (3).
    pub fills: u32,
    /// Keys that hold values: few are hot.
    pub values: u32,
    /// Of 100 calls so many only look at values, at least.
    pub reads: u32,
    /// Deadline of each call: longer than the lease, or so short that calls end while it lasts.
    pub deadline: Duration,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// One completion in so many straggles.
    pub straggler_one_in: u32,
    /// The longest that one takes.
    pub straggler_max: u64,
}

/// Nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// Deadlines of calls.
const DEADLINE_LONG: Duration = Duration::from_millis(700);
const DEADLINE_SHORT: Duration = Duration::from_millis(90);
/// Time in which faults happen.
const FAULTS_WITHIN: u64 = 12 * MILLISECOND;

impl Plan {
    /// The schedule of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0x0005_1de0_0a1e);
        let clients = rng.random_range(1..=3);
        let sessions = (0..clients).map(|_| rng.random_range(1..=2)).collect();
        let count = if rng.random_ratio(1, 3) { 0 } else { rng.random_range(1..=4) };
        let mut faults: Vec<Fault> = (0..count).map(|_| fault(&mut rng, clients)).collect();
        // Clients that stutter hold on to what they knew while the index changes under them.
        let stutters = if rng.random_ratio(1, 2) { rng.random_range(1..12) } else { 0 };
        // In a life's first lease no lock is granted: some faults come when locks are held.
        if rng.random_ratio(1, 3) {
            faults.iter_mut().for_each(|fault| fault.at += LEASE.as_nanos() as u64);
        }
        faults.extend((0..stutters).map(|_| stutter(&mut rng, clients)));
        let fills = [0, 0, 0, 0, 0, 1, 2, FILLS_SLOWLY][rng.random_range(0..8)];
        if fills == 2 {
            // A client that is stopped over two splits knows segments that serve others by then.
            faults.extend((0..rng.random_range(1..8)).map(|_| long_stutter(&mut rng, clients)));
        }
        faults.sort_by_key(|fault| fault.at);
        let straggler_max = match rng.random_range(0..8) {
            _ if fills == FILLS_SLOWLY => 400 * MILLISECOND,
            0 | 1 => 40 * MILLISECOND,
            _ => 2 * MILLISECOND,
        };
        Self {
            seed,
            shape: Shape { workers: rng.random_range(1..=2) },
            sessions,
            calls: rng.random_range(20..=50),
            fills,
            values: [1, 1, 2, 5][rng.random_range(0..4)],
            reads: [0, 0, 40, 75][rng.random_range(0..4)],
            deadline: if rng.random_ratio(1, 3) { DEADLINE_SHORT } else { DEADLINE_LONG },
            faults,
            straggler_one_in: if rng.random_ratio(1, 4) { 25 } else { 400 },
            straggler_max,
        }
    }

    /// What each session does.
    pub fn habits(&self) -> Habits {
        Habits { calls: self.calls, reads: self.reads, slowly: self.fills == FILLS_SLOWLY }
    }

    /// Smaller ones that may show the same.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller: Vec<Self> = (0..self.faults.len())
            .map(|out| {
                let mut plan = self.clone();
                plan.faults.remove(out);
                plan
            })
            .collect();
        if self.calls > 4 {
            smaller.push(Self { calls: self.calls / 2, ..self.clone() });
            smaller.push(Self { calls: self.calls - 2, ..self.clone() });
        }
        if self.fills > 0 {
            smaller.push(Self { fills: self.fills - 1, ..self.clone() });
        }
        if self.sessions.len() > 1 {
            let sessions = self.sessions[..self.sessions.len() - 1].to_vec();
            smaller.push(Self { sessions, ..self.clone() });
        }
        smaller
    }
}

fn stutter(rng: &mut SmallRng, clients: usize) -> Fault {
    let what = What::PauseClient { client: rng.random_range(0..clients), nanos: rng.random_range(20_000..MILLISECOND) };
    Fault { at: rng.random_range(0..2 * MILLISECOND), what }
}

fn long_stutter(rng: &mut SmallRng, clients: usize) -> Fault {
    let nanos = rng.random_range(MILLISECOND / 4..4 * MILLISECOND);
    Fault { at: rng.random_range(0..4 * MILLISECOND), what: What::PauseClient { client: rng.random_range(0..clients), nanos } }
}

fn fault(rng: &mut SmallRng, clients: usize) -> Fault {
    let at = rng.random_range(0..FAULTS_WITHIN);
    let client = rng.random_range(0..clients);
    // Shorter than a lease, or longer.
    let nanos = if rng.random_ratio(1, 2) {
        rng.random_range(MILLISECOND..80 * MILLISECOND)
    } else {
        rng.random_range(250 * MILLISECOND..900 * MILLISECOND)
    };
    let what = match rng.random_range(0..17) {
        0 | 1 => What::PauseServer { nanos },
        2 | 3 => What::PauseClient { client, nanos },
        4 | 5 => What::KillClient { client },
        6 | 7 => What::RestartServer { after: rng.random_range(0..50 * MILLISECOND) },
        // For longer than a call may take and what it leaves behind, too.
        8 | 9 => What::Cut { client, nanos: nanos * [1, 1, 3][rng.random_range(0..3)] },
        10 | 11 => What::Break { client },
        12 => What::BreakLoopback,
        13 => What::Trap { client },
        _ => What::TrapLoopback,
    };
    Fault { at, what }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, shape, sessions, calls, fills, values, reads, deadline, faults, straggler_one_in, straggler_max } = self;
        writeln!(
            f,
            "seed {seed}: {shape:?}, sessions {sessions:?}, {calls} calls each on {values} values, {reads} % reads, deadline {deadline:?}, fills {fills}, stragglers 1 in {straggler_one_in} up to {straggler_max} ns"
        )?;
        faults.iter().try_for_each(|fault| writeln!(f, "  at {:>9} ns {:?}", fault.at, fault.what))
    }
}

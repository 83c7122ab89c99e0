//! All that a world is made of, and how code inside finds it.

use super::actor::Actor;
use super::agenda::{Agenda, Event};
use super::chance::Dice;
use super::endpoint::QueuePair;
use super::queue::PortState;
use super::region::Region;
use super::world::World;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// A process of the world.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) dead: bool,
    /// Its threads do not run before this moment.
    pub(super) paused_until: u64,
    /// Its `CLOCK_BOOTTIME` at the beginning of the world.
    pub(super) clock_offset: u64,
    /// How much its clock runs fast (or slow), millionths.
    pub(super) drift_ppm: i64,
    /// Its stores are visible at once: it is still starting.
    pub(super) quiet: bool,
}

impl Process {
    /// Its clock at the moment `now`.
    pub(super) fn clock(&self, now: u64) -> u64 {
        let drift = i128::from(now) * i128::from(self.drift_ppm) / 1_000_000;
        let reading = i128::from(self.clock_offset) + i128::from(now) + drift;
        u64::try_from(reading).unwrap_or(0)
    }
}

/// What the director does at a moment.
pub(super) type Act = Box<dyn FnOnce(&World)>;

/// Everything.
pub(super) struct State {
    pub(super) now: u64,
    pub(super) dice: Dice,
    pub(super) agenda: Agenda,
    pub(super) processes: Vec<Process>,
    pub(super) actors: Vec<Actor>,
    /// The thread that runs.
    pub(super) current: Option<u32>,
    pub(super) ports: BTreeMap<u32, PortState>,
    pub(super) pairs: BTreeMap<u32, QueuePair>,
    pub(super) regions: BTreeMap<u32, Region>,
    pub(super) next_port: u32,
    pub(super) next_pair: u32,
    pub(super) next_region: u32,
    /// Pairs of processes without a way between them, until this moment.
    pub(super) partitions: BTreeMap<(u32, u32), u64>,
    /// Processes of which a pair fails with the next request that changes anything.
    pub(super) traps: BTreeSet<u32>,
    pub(super) acts: BTreeMap<u64, Act>,
    pub(super) next_act: u64,
    /// Sums up all that has happened: two runs of one seed must agree.
    pub(super) trace: DefaultHasher,
    pub(super) events: u64,
    /// Words that a copy of an excluded store would overtake, kept to save the allocation.
    pub(super) held: BTreeSet<(u32, usize)>,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: 0,
            dice: Dice::new(seed),
            agenda: Agenda::default(),
            processes: Vec::new(),
            actors: Vec::new(),
            current: None,
            ports: BTreeMap::new(),
            pairs: BTreeMap::new(),
            regions: BTreeMap::new(),
            next_port: 1,
            next_pair: 1,
            next_region: 1,
            partitions: BTreeMap::new(),
            traps: BTreeSet::new(),
            acts: BTreeMap::new(),
            next_act: 0,
            trace: DefaultHasher::new(),
            events: 0,
            held: BTreeSet::new(),
        }
    }

    /// Adds an event `after` nanoseconds from now.
    pub(super) fn later(&mut self, after: u64, event: Event) {
        self.agenda.add(self.now.saturating_add(after), event);
    }

    pub(super) fn process_of(&self, thread: u32) -> u32 {
        self.actors[thread as usize].process
    }

    /// The process whose code runs, and whether it is dead: then only its destructors run.
    pub(super) fn current_process(&self) -> Option<(u32, bool)> {
        let process = self.process_of(self.current?);
        Some((process, self.processes[process as usize].dead))
    }

    /// Whether there is no way between two processes now.
    pub(super) fn is_cut(&self, one: u32, other: u32) -> bool {
        let between = (one.min(other), one.max(other));
        self.partitions.get(&between).is_some_and(|&until| self.now < until)
    }

    pub(super) fn note(&mut self, event: Event) {
        self.events += 1;
        (self.now, event).hash(&mut self.trace);
    }

    pub(super) fn fingerprint(&self) -> u64 {
        self.trace.finish()
    }
}

thread_local! {
    static WORLD: RefCell<Option<Rc<RefCell<State>>>> = const { RefCell::new(None) };
}

/// Makes a world the one of this thread; with `None` there is none any more.
pub(super) fn enter(state: Option<Rc<RefCell<State>>>) {
    WORLD.with(|world| *world.borrow_mut() = state);
}

/// Looks at the world of this thread. Nothing that belongs to the code under test may be dropped within.
pub(super) fn with<T>(look: impl FnOnce(&mut State) -> T) -> Option<T> {
    let world = WORLD.try_with(|world| world.borrow().clone()).ok()??;
    let mut state = world.borrow_mut();
    Some(look(&mut state))
}

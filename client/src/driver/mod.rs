//! The driver of a session: posts what machines ask for, polls, and feeds machines what has come.
//!
//! ```text
//!   turn:  events ─► requests ─► reads, one doorbell ─► poll ─► each completion to its machine ─► what that asked for
//! ```
//! | file | what it does |
//! | --- | --- |
//! | `feed` | runs machines and turns what they ask into work |
//! | `completions` | sorts what was polled |
//! | `requests` | sends requests, takes acks, resolves open writes after a broken connection |
//! | `pack` | requests that wait together share a message |
//! | `message` | posts a message for a worker |
//! | `writes` | begins writes: the one copy of key and value |
//! | `large` | long values in parts, long records in pieces |
//! | `raw` | raw verbs for benchmarks |
//! | `link` | opens what a session needs of an attachment, and each endpoint |
//! | `lane` | when an endpoint that broke is opened again |
//! | `mend` | closes and reopens endpoints |
//! | `moving` | moves the session to another attachment |
//! | `leaving` | operations that go to another server, or come from one |
//! | `waiting` | spins, sleeps, and ends what has had its time |

mod clocks;
mod completions;
mod feed;
mod lane;
mod large;
mod leaving;
mod link;
mod mend;
mod message;
mod moving;
mod pack;
mod raw;
mod requests;
mod waiting;
mod writes;

pub(crate) use large::Pieces;
pub(crate) use leaving::Emigrant;
pub(crate) use writes::WriteSpec;

use crate::attached::Attached;
use crate::epoch::Pinned;
use crate::error::Error;
use crate::in_flight::{Machine, OPERATIONS_MAX, Op, Ops, PostedWork, Sink};
use crate::locate::CellCache;
use crate::op::{Ask, Done, Get, Input, Taken};
use crate::regions::RegionTable;
use crate::route::Way;
use crate::server::Server;
use crate::slab::SlabKey;
use crate::stats::SessionStats;
use lane::Lane;
use requests::WriterSlot;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{Completion, Port, Waker, WorkRequest};
use sidewire_common::memory::Buffers;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The state of a session.
pub(crate) struct Driver {
    server: Arc<Server>,
    attached: Arc<Attached>,
    /// Which attachment that is.
    life: u64,
    /// Epoch of the cluster's map by which operations begin; 0 when the server is alone.
    map_epoch: u32,
    /// False from the end of the attachment until the session has moved to another.
    alive: bool,
    /// An operation was begun whose clock has not started.
    unclocked: bool,
    /// When moving to another attachment is tried again.
    move_at: BootInstant,
    session: u32,
    waker: u64,
    regions: Arc<RegionTable>,
    regions_epoch: u64,
    record_bytes_max: usize,
    pinned: Pinned,
    cells: CellCache,
    buffers: Buffers,
    reader: Lane,
    writers: Vec<WriterSlot>,
    /// Requests in all queues.
    queued: usize,
    port: Box<dyn Port>,
    ops: Ops,
    posted: PostedWork,
    chain: Vec<WorkRequest<'static>>,
    /// Holds one request while it is posted.
    single: Vec<WorkRequest<'static>>,
    /// Work requests that the read endpoint takes, besides the chain.
    room: usize,
    /// Asked for, waiting for room.
    waiting: VecDeque<(SlabKey, Ask)>,
    asks: Vec<Ask>,
    events: VecDeque<(SlabKey, Input)>,
    delayed: Vec<(BootInstant, SlabKey)>,
    /// Operations to begin anew once the read endpoint is there.
    restarts: Vec<SlabKey>,
    /// Locks to be given back once the writes that carry their tokens have ended.
    unlocks: Vec<(Vec<u8>, Taken, Way)>,
    /// Submitted operations that have results.
    finished: VecDeque<SlabKey>,
    submitted: usize,
    /// Operations that go to another server.
    emigrants: VecDeque<Emigrant>,
    /// Longest time for opening an endpoint, if others wait for the session too.
    patience: Option<Duration>,
    /// What a call waits for; `None`: for whatever ends.
    awaited: Option<SlabKey>,
    deadlines_at: BootInstant,
    completions: Vec<Completion>,
    stats: Arc<SessionStats>,
}

impl Driver {
    /// What is attached to now.
    pub fn attached(&self) -> &Arc<Attached> {
        &self.attached
    }

    /// Wakes the session's port.
    pub fn waker(&self) -> Waker {
        self.port.waker()
    }

    /// This session's counts.
    pub fn stats(&self) -> &Arc<SessionStats> {
        &self.stats
    }

    /// Submitted operations that have not been polled.
    pub fn submitted(&self) -> usize {
        self.submitted
    }

    /// Begins an operation; `turn` brings it on.
    ///
    /// # Errors
    /// When too much is in flight.
    #[inline]
    pub fn begin(&mut self, machine: Machine, key: &[u8], way: Way, deadline: Duration, sink: Sink) -> Result<SlabKey, Error> {
        let (name, _) = self.slot(key, way, deadline, sink)?;
        if let Some(op) = self.ops.find(name) {
            op.machine = machine;
        }
        self.feed(name, Input::Resume);
        Ok(name)
    }

    /// Begins a Get, in the memory of an earlier one.
    ///
    /// # Errors
    /// As [`Driver::begin`].
    #[inline]
    pub fn begin_get(&mut self, key: &[u8], way: Way, deadline: Duration, sink: Sink) -> Result<SlabKey, Error> {
        let (name, op) = self.slot(key, way, deadline, sink)?;
        match &mut op.machine {
            Machine::Get(get) => get.reset(),
            other => *other = Machine::Get(Get::default()),
        }
        self.feed(name, Input::Resume);
        Ok(name)
    }

    #[inline]
    fn slot(&mut self, key: &[u8], way: Way, deadline: Duration, sink: Sink) -> Result<(SlabKey, &mut Op), Error> {
        if self.ops.len() >= OPERATIONS_MAX {
            return Err(Error::Full);
        }
        if matches!(sink, Sink::Submitted(_)) {
            self.submitted += 1;
        }
        self.unclocked = true;
        let (name, op) = self.ops.take(Op::new);
        op.begin(key, way, deadline, sink);
        Ok((name, op))
    }

    /// One round: posts what is asked for, polls, and feeds what has come. True when anything has come.
    #[inline]
    pub fn turn(&mut self) -> bool {
        if !self.alive || self.attached.has_ended() {
            self.move_on();
            if !self.alive {
                return false;
            }
        }
        if self.reader.is_closed() {
            self.mend_reader();
        }
        if self.writers.iter().any(|w| w.broken || w.books.has_busy()) {
            self.mend_writers();
        }
        if !self.restarts.is_empty() {
            self.restart_if_possible();
        }
        if !self.unlocks.is_empty() {
            self.unlock_now();
        }
        self.push();
        let came = self.poll();
        if !self.delayed.is_empty() {
            self.wake_delayed();
        }
        self.push();
        came
    }

    /// Posts all that is asked for.
    #[inline]
    fn push(&mut self) {
        while let Some((name, input)) = self.events.pop_front() {
            self.feed(name, input);
        }
        if self.queued > 0 {
            self.pump();
        }
        if !self.chain.is_empty() || !self.waiting.is_empty() {
            self.flush();
        }
    }

    /// The result of an operation that a call waits for, if it has ended.
    #[inline]
    pub fn take(&mut self, name: SlabKey) -> Option<Result<Done, Error>> {
        let op = self.ops.find(name)?;
        let result = op.result.take()?;
        op.sink = Sink::Nobody;
        self.settle(name);
        Some(result)
    }

    /// The next submitted operation that has ended, by its name outside.
    pub fn take_finished(&mut self) -> Option<(u64, Result<Done, Error>)> {
        let name = self.finished.pop_front()?;
        self.submitted -= 1;
        let Sink::Submitted(id) = self.ops.find(name)?.sink else { return None };
        let result = self.take(name)?;
        Some((id, result))
    }

    /// Whether a submitted operation has ended.
    pub fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Whether the session is bound to an attachment that has not ended.
    pub fn is_alive(&self) -> bool {
        self.alive && !self.attached.has_ended()
    }

    /// Whether nothing is to be done here.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ops.len() == 0 && self.posted.len() == 0 && self.unlocks.is_empty() && self.emigrants.is_empty()
    }

    /// Operations begin by the map of this epoch from here on.
    pub fn enter_map(&mut self, epoch: u32) {
        self.map_epoch = epoch;
    }

    /// How long opening an endpoint may hold up others.
    pub fn set_patience(&mut self, limit: Option<Duration>) {
        self.patience = limit;
    }

    /// Time until the server grants locks.
    pub fn locks_open_in(&self) -> Duration {
        self.attached.terms.locks_open_at.since(BootInstant::now())
    }

    /// Ends the operation's claims as far as nothing of it is in flight any more.
    #[inline]
    fn settle(&mut self, name: SlabKey) {
        let Some(op) = self.ops.find(name) else { return };
        if op.posted > 0 || !op.has_ended() || op.must_run {
            return;
        }
        if let Some(epoch) = op.pinned.take() {
            self.pinned.leave(epoch);
        }
        if op.sink == Sink::Nobody {
            op.image = None;
            if matches!(op.machine, Machine::Large(_)) {
                op.machine = Machine::Get(Get::default());
            }
            self.ops.release(name);
        }
    }
}

//! What a session has in flight: operations, and the work that was posted for them.

use crate::driver::Pieces;
use crate::error::Error;
use crate::op::{Counter, Done, Get, Lock, PutLarge, ReadTag, WriteOp};
use crate::route::{Wander, Way};
use crate::slab::{Slab, SlabKey};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::Reign;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Ack;
use sidewire_common::layout::packed::{PACK_BYTES_MAX, REQUESTS_MAX};
use sidewire_common::layout::request::Request;
use sidewire_common::memory::Buffer;
use std::collections::VecDeque;
use std::time::Duration;

/// Operations of one session in flight at once.
pub(crate) const OPERATIONS_MAX: usize = 4096;

/// A state machine of one of the kinds.
pub(crate) enum Machine {
    Get(Get),
    Counter(Counter),
    Lock(Lock),
    Write(WriteOp),
    /// A Put whose value comes in parts.
    Large(Box<PutLarge>),
    /// Raw verbs: completions still to come.
    Raw(u32),
}

impl Machine {
    /// Its name in messages to people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::Counter(m) => m.name(),
            Self::Lock(m) => m.name(),
            Self::Write(m) => m.name(),
            Self::Large(_) => "put",
            Self::Raw(_) => "raw verb",
        }
    }

    /// Whether its result rests on memory that was read, and so on the lease.
    #[inline]
    pub fn reads(&self) -> bool {
        matches!(self, Self::Get(_) | Self::Counter(_) | Self::Lock(_))
    }

    /// Whether it may begin anew elsewhere: nothing that it has posted changes anything.
    pub fn may_leave(&self) -> bool {
        match self {
            Self::Get(_) | Self::Write(_) => true,
            Self::Large(m) => !m.may_be_stored(),
            Self::Counter(m) => !m.may_have_counted(),
            Self::Lock(m) => m.may_leave(),
            Self::Raw(_) => false,
        }
    }

    /// Whether it cannot be sent without the bytes that it began with.
    pub fn needs_image(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    /// Bytes of the value that it writes.
    pub fn value_bytes(&self) -> usize {
        match self {
            Self::Write(m) => m.value_bytes(),
            Self::Large(m) => m.value_bytes(),
            _ => 0,
        }
    }

    /// How it has ended, by an ack that came over another way.
    pub fn settled(&self, ack: &Ack) -> Result<Done, Error> {
        match self {
            Self::Write(m) => m.settled(ack),
            Self::Large(m) => m.settled(ack),
            Self::Counter(m) => m.settled(ack),
            _ => Err(Error::Indeterminate { operation: self.name() }),
        }
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        match self {
            Self::Get(m) => m.seen(),
            Self::Counter(m) => m.seen(),
            Self::Lock(m) => m.seen(),
            Self::Write(m) => m.seen(),
            Self::Large(m) => m.seen(),
            Self::Raw(n) => format!("waiting for {n} completions"),
        }
    }
}

/// Where an operation's result goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sink {
    /// A call waits for it.
    Call,
    /// It was submitted under this name and will be polled for.
    Submitted(u64),
    /// Nobody: its deadline has passed.
    Nobody,
}

/// An operation.
pub(crate) struct Op {
    pub machine: Machine,
    pub key: Vec<u8>,
    pub hash: KeyHash,
    /// The reign of its shard by which it began here; 0 when the server is alone.
    pub reign: Reign,
    /// The epoch it is pinned to, if it is.
    pub pinned: Option<u64>,
    /// Posted work that has not ended; the slot is kept until it has.
    pub posted: u32,
    /// Worker and sequence of the request that is unanswered.
    pub request: Option<(u32, u64)>,
    /// A request waits for ring space or a credit.
    pub queued: bool,
    /// Header, key, fencing lock's key and value, between sendings; and how many bytes.
    pub image: Option<(Buffer, usize)>,
    pub fence_token: u64,
    /// The request, as it was last sent.
    pub wire: Option<Request>,
    /// When the driver first had to wait for it.
    pub since: Option<BootInstant>,
    pub deadline: Duration,
    /// Failed attempts to attach anew when it found no server.
    pub attempts_before: Option<u64>,
    pub sink: Sink,
    /// It must begin anew once the read endpoint is there again.
    pub restart: bool,
    /// It waits for a time to pass.
    pub paused: bool,
    /// Nobody waits for it, and yet it must run to its end.
    pub must_run: bool,
    /// Its way from server to server, if it had to leave one.
    pub wander: Option<Box<Wander>>,
    pub result: Option<Result<Done, Error>>,
}

impl Op {
    /// An empty slot.
    pub fn new() -> Self {
        Self {
            machine: Machine::Get(Get::default()),
            key: Vec::new(),
            hash: KeyHash::from_raw(0),
            reign: 0,
            pinned: None,
            posted: 0,
            request: None,
            queued: false,
            image: None,
            fence_token: 0,
            wire: None,
            since: None,
            deadline: Duration::ZERO,
            attempts_before: None,
            sink: Sink::Nobody,
            restart: false,
            paused: false,
            must_run: false,
            wander: None,
            result: None,
        }
    }

    /// Makes the slot that of a new operation.
    #[inline]
    pub fn begin(&mut self, key: &[u8], way: Way, deadline: Duration, sink: Sink) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.hash = way.hash;
        self.reign = way.reign;
        self.pinned = None;
        self.posted = 0;
        self.request = None;
        self.queued = false;
        self.image = None;
        self.fence_token = 0;
        self.wire = None;
        self.since = None;
        self.deadline = deadline;
        self.attempts_before = None;
        self.sink = sink;
        self.restart = false;
        self.paused = false;
        self.must_run = false;
        self.wander = None;
        self.result = None;
    }

    /// Whether it has brought a result.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.result.is_some() || matches!(self.sink, Sink::Nobody)
    }
}

/// Why work was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A Read for a machine, of this many bytes.
    Read { tag: ReadTag, bytes: usize },
    /// A piece of a Read for a machine.
    Piece { tag: ReadTag, pieces: Pieces },
    /// A Read of a cell's word.
    CellRead,
    /// An atomic on a cell.
    CellAtomic,
    /// A request to a worker.
    Request { worker: u32, sequence: u64 },
    /// Several requests to a worker, copied into one buffer.
    Pack { worker: u32 },
    /// A raw verb.
    Raw,
}

/// A work request that was posted and has not ended. Its buffer is the fabric's until then, whatever became of the
/// operation.
pub(crate) struct Posted {
    pub op: SlabKey,
    pub purpose: Purpose,
    pub buffer: Option<Buffer>,
}

/// All operations of a session.
pub(crate) type Ops = Slab<Op>;

/// All posted work of a session.
pub(crate) type PostedWork = Slab<Option<Posted>>;

/// A request that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub op: SlabKey,
    pub request: Request,
}

/// Requests to one worker that wait to be sent, in their order.
#[derive(Default)]
pub(crate) struct SendQueue {
    requests: VecDeque<Queued>,
    /// Bytes of all of them.
    bytes: usize,
}

impl SendQueue {
    /// Behind all others.
    pub fn push_back(&mut self, queued: Queued) {
        self.bytes += queued.request.total_bytes();
        self.requests.push_back(queued);
    }

    /// Before all others.
    pub fn push_front(&mut self, queued: Queued) {
        self.bytes += queued.request.total_bytes();
        self.requests.push_front(queued);
    }

    /// The next one, out of the queue.
    pub fn pop_front(&mut self) -> Option<Queued> {
        let queued = self.requests.pop_front()?;
        self.bytes -= queued.request.total_bytes();
        Some(queued)
    }

    /// The one at this place.
    pub fn at(&self, place: usize) -> Option<Queued> {
        self.requests.get(place).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.requests.iter()
    }

    /// Whether they fill a message, so that none more could share it.
    pub fn fills_a_message(&self) -> bool {
        self.requests.len() >= REQUESTS_MAX || self.bytes >= PACK_BYTES_MAX
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.bytes = 0;
    }
}

//! Operations as state machines without I/O: each eats completions and yields work; the driver posts and polls.

mod cell;
mod counter;
mod get;
mod lock;
mod put_large;
#[cfg(test)]
mod script;
mod write;

pub(crate) use counter::{Counter, CounterGoal};
pub(crate) use get::{Found, Get, Record};
pub(crate) use lock::{Lock, LockGoal, Taken};
pub(crate) use put_large::PutLarge;
pub(crate) use write::{Want, WriteOp};

use crate::error::Error;
use crate::lease::ShardClock;
use crate::locate::{CellCache, Directory, LocationCache};
use crate::lock_guard::{Held, LockView};
use crate::stats::SessionStats;
use crate::write::Write;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::Reign;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Ack;
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::Request;
use sidewire_common::memory::Buffer;
use std::time::Duration;

/// What a machine may look at while it thinks. All of it is memory of this process.
pub(crate) struct Context<'a> {
    /// The operation's key.
    pub key: &'a [u8],
    /// Its hash.
    pub hash: KeyHash,
    /// Reign of its shard; 0 when the server is alone.
    pub reign: Reign,
    /// No lock is granted before.
    pub locks_open_at: BootInstant,
    /// Layout epoch that the operation is pinned to.
    pub epoch: u64,
    /// Cached directory.
    pub directory: &'a Directory,
    /// Where shard 0's first directory entry is.
    pub directories: Place,
    /// Cached locations.
    pub locations: &'a LocationCache,
    /// Cells that the session has resolved.
    pub cells: &'a mut CellCache,
    /// The shard clock.
    pub clock: &'a ShardClock,
    /// Longest record that the server can hold, bytes.
    pub record_bytes_max: usize,
    /// Cells of the server.
    pub cell_count: u32,
    /// This client in lock words.
    pub holder: u32,
    /// Cells of which this client has a compare-and-swap in flight.
    pub lock_attempts: &'a LockAttempts,
    /// Counts.
    pub stats: &'a SessionStats,
    /// Work that the machine yields.
    pub asks: &'a mut Vec<Ask>,
}

pub(crate) use lock::LockAttempts;

/// Why something is read; comes back with the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// The record at a cached location.
    Cached,
    /// A part of a shard's directory, from this entry on.
    Shard(u32),
    /// A line of directory entries, from this one on.
    Line(u32),
    /// The home bucket.
    Home,
    /// The overflow bucket.
    Overflow,
    /// A record that a slot names.
    Slot,
    /// A superseded record's successor.
    Link,
}

/// Names a read within its operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadTag {
    /// Why.
    pub what: What,
    /// The machine's round: what comes late, for an earlier round, is dropped.
    pub round: u32,
    /// Where, for records.
    pub location: Location,
}

/// What is done to a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CellVerb {
    /// Read its word.
    Read,
    /// Add to it.
    Add(i64),
    /// Swap it.
    Swap {
        /// If it is this,
        expect: u64,
        /// it becomes this.
        swap: u64,
    },
}

/// Work that a machine yields.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Ask {
    /// Read remote memory.
    Read {
        /// Unit from which is counted.
        place: Place,
        /// Bytes behind it.
        offset: u64,
        /// Bytes to read.
        bytes: usize,
        /// For the machine.
        tag: ReadTag,
    },
    /// One verb on a cell.
    Cell {
        /// Which cell.
        index: u32,
        /// What is done.
        verb: CellVerb,
    },
    /// A request to the key's worker; the driver fills in the sequence.
    Request(Request),
}

/// What a machine eats.
pub(crate) enum Input {
    /// Start, or go on after a pause.
    Resume,
    /// Begin anew: the connection was rebuilt, or the server is another one now.
    Restart,
    /// A read has ended well; `bytes` of the buffer hold it.
    Read {
        /// Which.
        tag: ReadTag,
        /// The bytes.
        buffer: Buffer,
        /// How many.
        bytes: usize,
    },
    /// A read could not be asked for: its place is in no region that is known.
    Unknown {
        /// Which.
        tag: ReadTag,
    },
    /// The verb on the cell has ended well: the word before it.
    Cell {
        /// The word.
        old: u64,
    },
    /// The verb on the cell was posted and its completion is lost.
    CellLost,
    /// The request was answered.
    Ack(Ack),
    /// A part of a long value was answered, or its connection is gone; its buffer is back.
    Part(Ack),
}

/// What a machine does next.
#[derive(Debug)]
pub(crate) enum Step {
    /// It waits for what it asked for.
    Wait,
    /// It wants to be resumed after this time.
    Pause(Duration),
    /// It wants to be resumed when the read endpoint has been rebuilt.
    Reconnect,
    /// It has tried as often as it may.
    Exhausted,
    /// It has ended.
    Finished(Result<Done, Error>),
}

/// What an operation brought.
#[derive(Debug)]
pub(crate) enum Done {
    /// Of a Get.
    Found(Found),
    /// Of a write.
    Write(Write),
    /// Whether something was created.
    Created(bool),
    /// A sum or next number.
    Sum(i64),
    /// A counter's value, or a lock's state.
    Value(Option<i64>),
    /// A lock's state.
    View(Option<LockView>),
    /// A lock was taken, or is held by another.
    Lock(Result<Taken, LockView>),
    /// A lock was taken: what its guard needs.
    Locked(Box<Held>),
    /// A sum or next number that the worker told.
    Asked(i64),
    /// A lock was given back.
    Unlocked,
    /// Of raw verbs.
    Raw,
}

/// Checks that a record's kind is the wanted one.
pub(crate) fn check_kind(wanted: Kind, found: Kind) -> Result<(), Error> {
    if wanted == found { Ok(()) } else { Err(Error::WrongKind { wanted, found }) }
}

/// Now, for judging expiry.
#[inline]
pub(crate) fn now() -> BootInstant {
    BootInstant::now()
}

//! Reading a key: which bytes are believed.
//!
//! ```text
//!   cached location ─► record ─┬─ live ────────────────────────────► value
//!                              ├─ superseded ─► link ─┬─ live ─────► value
//!                              │                      ├─ pending on my version ─► my value
//!                              └─ anything else ──┐   └─ anything else ─┐
//!                                                 ▼                     ▼
//!   directory entry ─► home bucket ─► records that slots name ─► overflow bucket ─► its records
//!        ▲                    │                               │
//!        └──── moved ─────────┘        torn, pending, stale ──┴─► the bucket again
//! ```
//! *Absent* is said by the index alone: no slot with the fingerprint, or a deleted record reached through a slot
//! of this same attempt. A slot whose record is another key's may be a block that has changed hands since the slot
//! was read, so it counts as "not this key" only if two attempts in a row found the same whole records: versions
//! are never used twice, so those blocks were the other keys' at the moment the second bucket was read.

use super::{Ask, Context, Done, Input, ReadTag, Step, What};
use crate::lease::Expiry;
use crate::locate::Known;
use crate::retry::{ATTEMPTS_MAX, attempt_pause};
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::bucket::{BUCKET_BYTES, Bucket};
use sidewire_common::layout::directory::{DIRECTORY_BITS_MIN, DirectoryEntry, ENTRY_BYTES, entry_offset};
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::{Disbelief, HEADER_BYTES, Header, State, UNIT_BYTES, Version, Whole, examine};
use sidewire_common::layout::request::{Operation, Request};
use sidewire_common::layout::segment::{home_offset, overflow_offset};
use sidewire_common::memory::Buffer;

/// Bytes of a directory that one Read fetches.
const SHARD_READ_BYTES: usize = 32 << 10;
/// Directory entries of one 64-byte line.
const LINE_ENTRIES: u32 = (UNIT_BYTES / ENTRY_BYTES) as u32;
const _: () = assert!(1 << DIRECTORY_BITS_MIN >= LINE_ENTRIES);

/// A record that was believed.
pub(crate) struct Record {
    /// The bytes.
    pub buffer: Buffer,
    /// What is in them.
    pub whole: Whole,
    /// Milliseconds left, if it goes away by itself.
    pub expires_in_ms: Option<u64>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.whole.fmt(f)
    }
}

impl Record {
    /// The value's bytes.
    pub fn value(&self) -> &[u8] {
        &self.buffer.bytes()[self.whole.value_at..self.whole.value_at + self.whole.value_len]
    }
}

/// What a Get found.
#[derive(Debug)]
pub(crate) enum Found {
    /// The key holds nothing.
    Absent,
    /// The key's record.
    Record(Record),
}

/// Why an attempt through the index is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Torn,
    Stale,
    Moved,
    Pending,
    /// Slots named other keys' records: look twice.
    Others,
}

/// The machine.
#[derive(Default)]
pub(crate) struct Get {
    round: u32,
    attempt: u32,
    /// Reads of this round that are still to come.
    awaited: u32,
    segment: Option<Place>,
    /// The overflow bucket that the home bucket names, until it is read.
    overflow: Option<u32>,
    /// A superseded record of this key, while its successor is read.
    held: Option<(Record, Location)>,
    cause: Option<Cause>,
    /// Location and version of other keys' records in this attempt, and in the one before.
    others: Vec<(u64, u64)>,
    others_before: Option<Vec<(u64, u64)>>,
    /// The first record came from a cached location.
    cached: bool,
    /// An expiry that the worker is asked about.
    asked: bool,
    /// The version of a record whose time was over when it had been read.
    over: Option<Version>,
}

impl Get {
    /// Begins a new Get in the same machine, keeping what it has allocated.
    #[inline]
    pub fn reset(&mut self) {
        self.attempt = 0;
        self.awaited = 0;
        self.held = None;
        self.cause = None;
        self.others.clear();
        self.others_before = None;
        self.cached = false;
        self.asked = false;
        self.over = None;
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        let cause = self.cause.map_or(String::new(), |c| format!(", the last one {c:?}"));
        let asked = if self.asked { "the worker's word on the expiry, after " } else { "" };
        format!("waiting for {asked}{} reads after {} attempts through the index{cause}", self.awaited, self.attempt)
    }

    /// Eats what happened.
    #[inline]
    pub fn on(&mut self, input: Input, cx: &mut Context<'_>) -> Step {
        match input {
            Input::Resume if self.attempt == 0 => self.start(cx),
            Input::Resume => self.search(cx),
            Input::Restart => {
                self.reset();
                self.look_up(cx)
            }
            Input::Read { tag, .. } | Input::Unknown { tag } if tag.round != self.round => Step::Wait,
            Input::Read { tag, buffer, bytes } => self.on_read(tag, buffer, bytes, cx),
            Input::Unknown { tag } => self.on_unknown(tag, cx),
            Input::Ack(ack) => self.on_ack(ack, cx),
            Input::Cell { .. } | Input::CellLost | Input::Part(_) => Step::Wait,
        }
    }

    #[inline]
    fn start(&mut self, cx: &mut Context<'_>) -> Step {
        self.round = self.round.wrapping_add(1);
        if let Some(location) = cx.locations.lookup(cx.hash, cx.reign) {
            self.cached = true;
            self.ask_record(What::Cached, location, first_read_bytes(location, cx), cx);
            return Step::Wait;
        }
        self.look_up(cx)
    }

    fn ask(&mut self, place: Place, offset: u64, bytes: usize, tag: ReadTag, cx: &mut Context<'_>) {
        self.awaited += 1;
        cx.stats.reads.add(1);
        cx.asks.push(Ask::Read { place, offset, bytes, tag });
    }

    fn ask_record(&mut self, what: What, location: Location, bytes: usize, cx: &mut Context<'_>) {
        let tag = ReadTag { what, round: self.round, location };
        self.ask(location.place(), 0, bytes, tag, cx);
    }

    fn ask_index(&mut self, what: What, place: Place, offset: u64, bytes: usize, cx: &mut Context<'_>) {
        let tag = ReadTag { what, round: self.round, location: Location::EMPTY };
        self.ask(place, offset, bytes, tag, cx);
    }

    /// Another attempt through the index, after a pause if there were many.
    fn look_up(&mut self, cx: &mut Context<'_>) -> Step {
        self.attempt += 1;
        if self.attempt > ATTEMPTS_MAX {
            return Step::Exhausted;
        }
        match attempt_pause(self.attempt - 1) {
            pause if pause.is_zero() => self.search(cx),
            pause => Step::Pause(pause),
        }
    }

    fn search(&mut self, cx: &mut Context<'_>) -> Step {
        self.round = self.round.wrapping_add(1);
        self.awaited = 0;
        self.held = None;
        self.cause = None;
        self.overflow = None;
        match cx.directory.known(cx.hash, cx.reign, cx.epoch) {
            Known::Entry(entry) => self.ask_home(entry, cx),
            Known::Shard => self.ask_shard(cx),
            Known::Stale => {
                // A whole line of entries costs no more than one.
                let first = cx.hash.directory_index(cx.directory.bits()) & !(LINE_ENTRIES - 1);
                let offset = entry_offset(cx.hash.shard(), first, cx.directory.bits());
                self.ask_index(What::Line(first), cx.directories, offset, LINE_ENTRIES as usize * ENTRY_BYTES, cx);
            }
        }
        Step::Wait
    }

    fn ask_home(&mut self, entry: DirectoryEntry, cx: &mut Context<'_>) {
        self.segment = Some(entry.segment());
        self.ask_index(What::Home, entry.segment(), home_offset(cx.hash.home_bucket()), BUCKET_BYTES, cx);
    }

    fn ask_shard(&mut self, cx: &mut Context<'_>) {
        let entries = 1u32 << cx.directory.bits();
        let step = (SHARD_READ_BYTES / ENTRY_BYTES) as u32;
        let mut first = 0;
        while first < entries {
            let count = step.min(entries - first);
            let offset = entry_offset(cx.hash.shard(), first, cx.directory.bits());
            self.ask_index(What::Shard(first), cx.directories, offset, count as usize * ENTRY_BYTES, cx);
            first += count;
        }
    }

    #[inline]
    fn on_read(&mut self, tag: ReadTag, buffer: Buffer, bytes: usize, cx: &mut Context<'_>) -> Step {
        self.awaited -= 1;
        match tag.what {
            What::Cached | What::Slot | What::Link => self.on_record(tag, buffer, bytes, cx),
            What::Home | What::Overflow => self.on_bucket(tag.what, &buffer, cx),
            What::Shard(first) => {
                cx.directory.learned((cx.hash.shard(), cx.reign), first, &buffer.bytes()[..bytes], cx.epoch);
                if self.awaited > 0 {
                    return Step::Wait;
                }
                cx.directory.shard_loaded(cx.hash.shard(), cx.reign);
                self.on_directory(cx)
            }
            What::Line(first) => {
                cx.directory.learned((cx.hash.shard(), cx.reign), first, &buffer.bytes()[..bytes], cx.epoch);
                self.on_directory(cx)
            }
        }
    }

    fn on_directory(&mut self, cx: &mut Context<'_>) -> Step {
        match cx.directory.known(cx.hash, cx.reign, cx.epoch) {
            Known::Entry(entry) => {
                self.ask_home(entry, cx);
                Step::Wait
            }
            // Another session found it stale just now, or the entry was no entry.
            Known::Shard | Known::Stale => self.again(Cause::Moved, cx),
        }
    }

    fn on_bucket(&mut self, what: What, buffer: &Buffer, cx: &mut Context<'_>) -> Step {
        let Some(bytes) = buffer.bytes().first_chunk::<BUCKET_BYTES>() else { return self.again(Cause::Torn, cx) };
        let bucket = Bucket::new(bytes);
        let header = bucket.header();
        if !header.serves(cx.hash) {
            cx.directory.forget(cx.hash);
            return self.failed(Cause::Moved, cx);
        }
        for location in bucket.matches(cx.hash.fingerprint()) {
            self.ask_record(What::Slot, location, first_read_bytes(location, cx), cx);
        }
        if what == What::Home {
            // Most keys of a full home bucket are in it: the other bucket is read only if none of these is the key.
            self.overflow = header.overflow();
        }
        if self.awaited == 0 { self.conclude(cx) } else { Step::Wait }
    }

    #[inline]
    fn on_record(&mut self, tag: ReadTag, buffer: Buffer, bytes: usize, cx: &mut Context<'_>) -> Step {
        let read = &buffer.bytes()[..bytes];
        let place = tag.location.place();
        if tag.what == What::Link
            && let Some((mine, _)) = &self.held
            && let Some(head) = read.first_chunk::<8>()
            && State::from_raw(u64::from_le_bytes(*head)) == (State::Pending { replaces: Some(mine.whole.version) })
        {
            // The successor is not published: mine is still the value. Its body may not be whole yet.
            let (mine, at) = self.held.take().expect("looked at just now");
            return self.believe(mine, at, tag.what, cx);
        }
        match examine(read, place, cx.key) {
            Ok(whole) => self.judge(tag, Record { buffer, whole, expires_in_ms: None }, cx),
            Err(Disbelief::Longer { .. } | Disbelief::OtherKey) if longer(tag, read, cx).is_some() => {
                let record_bytes = longer(tag, read, cx).unwrap_or(bytes);
                self.ask_record(tag.what, tag.location, record_bytes.next_multiple_of(UNIT_BYTES), cx);
                Step::Wait
            }
            Err(Disbelief::OtherKey) => match other_version(read, place) {
                Some(version) if tag.what == What::Slot => {
                    self.others.push((tag.location.raw(), version));
                    if self.awaited == 0 { self.conclude(cx) } else { Step::Wait }
                }
                // A block of another life: the key's record is elsewhere by now.
                _ => self.disbelieve(tag.what, Cause::Stale, cx),
            },
            Err(_) => self.disbelieve(tag.what, Cause::Torn, cx),
        }
    }

    #[inline]
    fn judge(&mut self, tag: ReadTag, record: Record, cx: &mut Context<'_>) -> Step {
        match record.whole.state {
            State::Live(_) => self.believe(record, tag.location, tag.what, cx),
            State::Superseded { successor } if tag.what != What::Link && self.held.is_none() => {
                let link = Location::from_successor_tag(successor, cx.hash.fingerprint());
                if link.is_empty() {
                    return self.disbelieve(tag.what, Cause::Stale, cx);
                }
                self.held = Some((record, tag.location));
                let bytes = link.read_bytes().unwrap_or_else(|| (HEADER_BYTES + cx.key.len()).next_multiple_of(UNIT_BYTES));
                self.ask_record(What::Link, link, bytes, cx);
                Step::Wait
            }
            State::Deleted(_) if tag.what == What::Slot => Step::Finished(Ok(Done::Found(Found::Absent))),
            State::Superseded { .. } | State::Deleted(_) => self.disbelieve(tag.what, Cause::Stale, cx),
            State::Pending { .. } => self.disbelieve(tag.what, Cause::Pending, cx),
        }
    }

    /// The key's value is this record's, unless its time is over.
    #[inline]
    fn believe(&mut self, mut record: Record, at: Location, what: What, cx: &mut Context<'_>) -> Step {
        match what {
            What::Cached => {
                cx.stats.location_hits.add(1);
                cx.locations.proved_good(cx.hash, cx.reign);
            }
            _ if self.cached && self.attempt == 0 => {
                // Through the link of a cached record: one Read more than with a fresh location.
                cx.locations.proved_stale(cx.hash, cx.reign);
                cx.locations.learned(cx.hash, cx.reign, at);
            }
            _ => cx.locations.learned(cx.hash, cx.reign, at),
        }
        if record.whole.expiry_ms == 0 {
            return Step::Finished(Ok(Done::Found(Found::Record(record))));
        }
        match cx.clock.judge(record.whole.expiry_ms, super::now()) {
            // It may have been replaced before its time was over. Only a read that began after that can tell.
            Expiry::Over if self.over != Some(record.whole.version) => {
                self.over = Some(record.whole.version);
                self.disbelieve(what, Cause::Stale, cx)
            }
            Expiry::Over => Step::Finished(Ok(Done::Found(Found::Absent))),
            Expiry::Live { left_ms } => {
                record.expires_in_ms = Some(left_ms);
                Step::Finished(Ok(Done::Found(Found::Record(record))))
            }
            Expiry::Unsure => {
                record.expires_in_ms = Some(0);
                self.held = Some((record, at));
                self.asked = true;
                // What is still to come of this round is not wanted any more.
                self.round = self.round.wrapping_add(1);
                cx.asks.push(Ask::Request(Request::new(Operation::Expire, 0)));
                Step::Wait
            }
        }
    }

    fn on_ack(&mut self, ack: Ack, cx: &mut Context<'_>) -> Step {
        if !self.asked {
            return Step::Wait;
        }
        self.asked = false;
        match (ack.outcome, self.held.take()) {
            (Outcome::NotFound, _) => Step::Finished(Ok(Done::Found(Found::Absent))),
            (Outcome::Done | Outcome::Exists | Outcome::VersionMismatch, Some((record, _))) => {
                Step::Finished(Ok(Done::Found(Found::Record(record))))
            }
            _ => self.again(Cause::Stale, cx),
        }
    }

    fn on_unknown(&mut self, tag: ReadTag, cx: &mut Context<'_>) -> Step {
        self.awaited -= 1;
        match tag.what {
            What::Cached | What::Slot | What::Link => self.disbelieve(tag.what, Cause::Torn, cx),
            What::Home | What::Overflow | What::Line(_) | What::Shard(_) => {
                cx.directory.forget(cx.hash);
                self.failed(Cause::Moved, cx)
            }
        }
    }

    /// A record that does not answer. What came through the cache leads to the index.
    fn disbelieve(&mut self, what: What, cause: Cause, cx: &mut Context<'_>) -> Step {
        if self.attempt == 0 {
            count(cause, cx);
            cx.locations.proved_stale(cx.hash, cx.reign);
            self.held = None;
            return self.look_up(cx);
        }
        if what == What::Link {
            self.held = None;
        }
        self.failed(cause, cx)
    }

    /// This attempt cannot say *absent* any more; another of its reads may still find the record.
    fn failed(&mut self, cause: Cause, cx: &mut Context<'_>) -> Step {
        self.cause = Some(cause);
        if self.awaited == 0 { self.conclude(cx) } else { Step::Wait }
    }

    /// All reads of the attempt are in, and none of them was the answer.
    fn conclude(&mut self, cx: &mut Context<'_>) -> Step {
        if let Some(cause) = self.cause {
            return self.again(cause, cx);
        }
        if let (Some(overflow), Some(segment)) = (self.overflow.take(), self.segment) {
            self.ask_index(What::Overflow, segment, overflow_offset(overflow), BUCKET_BYTES, cx);
            return Step::Wait;
        }
        if self.others.is_empty() {
            return Step::Finished(Ok(Done::Found(Found::Absent)));
        }
        let mut others = std::mem::take(&mut self.others);
        others.sort_unstable();
        if self.others_before.as_ref() == Some(&others) {
            return Step::Finished(Ok(Done::Found(Found::Absent)));
        }
        self.others_before = Some(others);
        self.cause = Some(Cause::Others);
        self.look_up(cx)
    }

    fn again(&mut self, cause: Cause, cx: &mut Context<'_>) -> Step {
        count(cause, cx);
        self.cause = Some(cause);
        self.others.clear();
        self.others_before = None;
        self.look_up(cx)
    }
}

fn count(cause: Cause, cx: &Context<'_>) {
    match cause {
        Cause::Torn => cx.stats.retries_torn.add(1),
        Cause::Stale => cx.stats.retries_stale.add(1),
        Cause::Moved => cx.stats.retries_moved.add(1),
        Cause::Pending => cx.stats.retries_pending.add(1),
        Cause::Others => {}
    }
}

/// How much is read of a record at first. Of one longer than a location can say, the header tells the length.
fn first_read_bytes(location: Location, cx: &Context<'_>) -> usize {
    location.read_bytes().unwrap_or_else(|| (HEADER_BYTES + cx.key.len()).next_multiple_of(UNIT_BYTES))
}

/// How much must be read of a record whose location does not tell its length, when `read` is not all of it.
fn longer(tag: ReadTag, read: &[u8], cx: &Context<'_>) -> Option<usize> {
    let whole = Header::read(read.first_chunk::<HEADER_BYTES>()?).record_bytes();
    (tag.location.read_bytes().is_none() && whole > read.len() && whole <= cx.record_bytes_max).then_some(whole)
}

/// The version of another key's whole record in `read`.
fn other_version(read: &[u8], place: Place) -> Option<u64> {
    let header = Header::read(read.first_chunk::<HEADER_BYTES>()?);
    let key = read.get(HEADER_BYTES..HEADER_BYTES + usize::from(header.key_len))?;
    match examine(read, place, key) {
        Ok(whole) => Some(whole.version.raw()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests;

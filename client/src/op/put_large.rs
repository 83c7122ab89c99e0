//! Storing a long value: reserve memory, send the parts, commit.
//!
//! ```text
//!   Reserving ─ack─► Filling ─last part asked for─► Committing ─ack─► ended
//!       ▲               │ unreserved                    │ unreserved, busy
//!       └──── pause ◄── Gathering (until all parts are back) ◄──┘
//! ```
//! Nothing can be found before the commit, so all before it may be done again; a commit is asked after like any write.

use super::write::{WriteOp, busy_backoff};
use super::{Ask, Context, Done, Input, Step, Want};
use crate::error::Error;
use crate::parts::Parts;
use crate::retry::Backoff;
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::request::{Operation, Request};
use sidewire_common::memory::Buffer;

/// Parts of one value that are asked for and unanswered: enough that the ring is never empty, few enough that other
/// requests of the session get between them.
const PARTS_AHEAD: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    Reserving,
    Filling,
    Committing,
    /// It begins anew once all parts are back.
    Gathering,
}

/// The machine.
pub(crate) struct PutLarge {
    request: Request,
    /// How the commit's ack is read.
    write: WriteOp,
    parts: Parts,
    stage: Stage,
    /// The reservation.
    handle: u64,
    /// Parts asked for, sent and answered in this attempt.
    asked: usize,
    sent: usize,
    answered: usize,
    backoff: Backoff,
    busy: bool,
}

impl PutLarge {
    /// A machine for a Put with this request, whose value is in parts.
    pub fn new(request: Request, want: Want, parts: Parts) -> Self {
        let write = WriteOp::new(request, want);
        let stage = Stage::Idle;
        Self { request, write, parts, stage, handle: 0, asked: 0, sent: 0, answered: 0, backoff: busy_backoff(), busy: false }
    }

    /// Bytes of the value.
    pub fn value_bytes(&self) -> usize {
        self.parts.value_len()
    }

    /// Its parts.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Other buffers for the same value, at another server. It begins anew.
    pub fn set_parts(&mut self, parts: Parts) {
        self.parts = parts;
        self.stage = Stage::Idle;
    }

    /// Whether the value may be stored, or may have been: it was asked for.
    pub fn may_be_stored(&self) -> bool {
        self.stage == Stage::Committing
    }

    /// Whether the server's last word was that it is busy.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// How the commit has ended.
    pub fn settled(&self, ack: &Ack) -> Result<Done, Error> {
        self.write.settled(ack)
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        let busy = if self.busy { ", after the server was busy" } else { "" };
        match self.stage {
            Stage::Idle | Stage::Reserving | Stage::Gathering => format!("waiting for memory to be reserved{busy}"),
            Stage::Filling => format!("{} of {} parts are there{busy}", self.answered, self.parts.count()),
            Stage::Committing => "waiting for the worker's ack".into(),
        }
    }

    /// The next part to be sent for a reservation: its number, its buffer, and its bytes with the header.
    pub fn take_part(&mut self, handle: u64) -> Option<(usize, Buffer, usize)> {
        let is_now = matches!(self.stage, Stage::Filling | Stage::Committing) && handle == self.handle;
        let index = Some(self.sent).filter(|_| is_now)?;
        let buffer = self.parts.take(index)?;
        self.sent += 1;
        Some((index, buffer, sidewire_common::layout::request::HEADER_BYTES + self.parts.bytes_of(index)))
    }

    /// It could not be sent: it is the next one again.
    pub fn not_sent(&mut self, index: usize, buffer: Buffer) {
        self.parts.put_back(index, buffer);
        self.sent = index;
    }

    /// It was sent, and its buffer is back.
    pub fn put_back(&mut self, index: usize, buffer: Buffer) {
        self.parts.put_back(index, buffer);
    }

    /// Eats what happened.
    pub fn on(&mut self, input: Input, cx: &mut Context<'_>) -> Step {
        match (self.stage, input) {
            (Stage::Idle, Input::Resume | Input::Restart) => self.reserve(cx),
            (Stage::Reserving, Input::Ack(ack)) if ack.outcome == Outcome::Done => {
                self.handle = ack.figures[0];
                (self.asked, self.sent, self.answered) = (0, 0, 0);
                self.stage = Stage::Filling;
                self.ask_on(cx);
                Step::Wait
            }
            (Stage::Reserving | Stage::Committing, Input::Ack(ack))
                if matches!(ack.outcome, Outcome::Busy | Outcome::Unreserved) =>
            {
                self.begin_anew()
            }
            (Stage::Reserving, Input::Ack(ack)) => Step::Finished(self.settled(&ack)),
            (Stage::Committing, Input::Ack(ack)) => {
                self.write.note(&ack, cx);
                Step::Finished(self.settled(&ack))
            }
            (Stage::Filling, Input::Part(ack)) => match ack.outcome {
                Outcome::Done => {
                    self.answered += 1;
                    self.ask_on(cx);
                    Step::Wait
                }
                Outcome::Refused => Step::Finished(self.settled(&ack)),
                _ => self.begin_anew(),
            },
            (Stage::Gathering, Input::Part(_)) => self.begin_anew(),
            _ => Step::Wait,
        }
    }

    fn reserve(&mut self, cx: &mut Context<'_>) -> Step {
        self.stage = Stage::Reserving;
        let argument = self.parts.value_len() as i64;
        cx.asks.push(Ask::Request(Request { operation: Operation::Reserve, argument, ..self.request }));
        Step::Wait
    }

    /// Asks for the next parts; after the last one, for the commit.
    fn ask_on(&mut self, cx: &mut Context<'_>) {
        let before = cx.asks.len();
        let argument = self.handle as i64;
        while self.asked < self.parts.count() && self.asked - self.answered < PARTS_AHEAD {
            let value_len = self.parts.bytes_of(self.asked) as u32;
            cx.asks.push(Ask::Request(Request { argument, value_len, ..Request::new(Operation::Chunk, 0) }));
            self.asked += 1;
        }
        if self.asked == self.parts.count() {
            // Requests of one connection are taken in their order.
            self.stage = Stage::Committing;
            cx.asks.push(Ask::Request(Request { operation: Operation::Commit, argument, ..self.request }));
        }
        // The driver takes them from the end.
        cx.asks[before..].reverse();
    }

    /// The reservation is gone, or there was none.
    fn begin_anew(&mut self) -> Step {
        self.busy = true;
        if !self.parts.are_back() {
            self.stage = Stage::Gathering;
            return Step::Wait;
        }
        self.stage = Stage::Idle;
        Step::Pause(self.backoff.pause())
    }
}

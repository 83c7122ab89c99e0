//! One write endpoint's bookkeeping: sequences, credits, ring space, and what is known of each request.
//!
//! A request is *open* from its sending until its answer has come **and** its work request has ended: only then is
//! its buffer ours again. One that was copied into a message which several share waits for its answer alone. After a
//! broken connection the worker is asked after every open write by its sequence; those that were never done are sent
//! again, in their order.

use crate::slab::SlabKey;
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::limits::MESSAGE_CREDITS;
use sidewire_common::memory::Buffer;
use sidewire_common::staging_ring::{Ring, Span};
use std::collections::VecDeque;

/// Sequences between the oldest unresolved one and the next. The server keeps twice as many; the rest is for
/// questions after a broken connection.
const SEQUENCES_MAX: usize = 2 * MESSAGE_CREDITS as usize;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Errand {
    /// An operation's own request.
    Operation,
    /// A part of an operation's value, by its number.
    Part(u32),
    /// It asks after an earlier sequence.
    AskAfter(u64),
}

/// A request that was sent and is not resolved yet.
pub(crate) struct Open {
    /// The operation; `None` when it has gone.
    pub op: Option<SlabKey>,
    pub errand: Errand,
    pub fence_token: u64,
    /// The whole request, once its work request has ended; and how many bytes.
    pub image: Option<Buffer>,
    pub bytes: usize,
    span: Option<Span>,
    posted: bool,
    ack: Option<Ack>,
    resolved: bool,
    /// The worker has never seen it: it is to be sent again.
    never_done: bool,
}

/// A request whose outcome is known.
pub(crate) struct Resolved {
    pub op: Option<SlabKey>,
    pub ack: Ack,
    pub image: Option<Buffer>,
    pub bytes: usize,
    /// Which part of the operation's value it carried, if it did.
    pub part: Option<u32>,
}

impl Open {
    /// It is resolved by this.
    fn resolve(&mut self, ack: Ack) -> Resolved {
        self.resolved = true;
        let part = match self.errand {
            Errand::Part(index) => Some(index),
            Errand::Operation | Errand::AskAfter(_) => None,
        };
        Resolved { op: self.op.take(), ack, image: self.image.take(), bytes: self.bytes, part }
    }
}

/// What an answer brought.
pub(crate) enum Progress {
    /// Nothing that concerns anybody yet.
    Nothing,
    /// An operation's request is resolved.
    Resolved(Resolved),
}

/// Where the next request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub sequence: u64,
    pub resolved_below: u64,
    pub unit: u32,
}

/// The bookkeeping of one (session, worker).
pub(crate) struct Writer {
    ring: Ring,
    credits: u32,
    unanswered: u32,
    /// Sequence of the first entry of `open`.
    first: u64,
    open: VecDeque<Open>,
    /// Questions after open writes that are still unanswered.
    questions: u32,
    /// Open writes that the worker was still busy with when it was asked: to be asked after again.
    busy: Vec<u64>,
}

impl Writer {
    /// A writer that has sent nothing yet.
    pub fn new(staging_bytes: usize, credits: u32) -> Self {
        Self {
            ring: Ring::new(staging_bytes),
            credits,
            unanswered: 0,
            first: 1,
            open: VecDeque::new(),
            questions: 0,
            busy: Vec::new(),
        }
    }

    /// Whether operations may send now; not while open writes are being resolved.
    pub fn accepts(&self) -> bool {
        self.accepts_behind(0)
    }

    /// Whether they may send one more once so many have been sent that wait.
    pub fn accepts_behind(&self, waiting: usize) -> bool {
        self.questions == 0
            && self.busy.is_empty()
            && (self.unanswered as usize + waiting) < self.credits as usize
            && self.open.len() + waiting < SEQUENCES_MAX
    }

    /// Open writes that are to be asked after again.
    pub fn take_busy(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.busy)
    }

    /// Whether there are any.
    pub fn has_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Takes ring space without a request, for raw writes.
    pub fn take_space(&mut self, bytes: usize) -> Option<Span> {
        self.ring.take(bytes)
    }

    /// Gives it back.
    pub fn give_space_back(&mut self, span: Span) {
        self.ring.give_back(span);
    }

    /// Requests that are not resolved.
    pub fn open_count(&self) -> usize {
        self.open.iter().filter(|o| !o.resolved).count()
    }

    /// Whether an unresolved write carries this fencing token.
    pub fn carries(&self, token: u64) -> bool {
        self.open.iter().any(|o| !o.resolved && o.fence_token == token)
    }

    /// Takes credit, ring space and a sequence for a request, if there are credit and space.
    pub fn send(&mut self, op: Option<SlabKey>, errand: Errand, bytes: usize, fence_token: u64) -> Option<Ticket> {
        if self.unanswered >= self.credits {
            return None;
        }
        let span = self.ring.take(bytes)?;
        self.unanswered += 1;
        let sequence = self.first + self.open.len() as u64;
        if matches!(errand, Errand::AskAfter(_)) {
            self.questions += 1;
        }
        self.open.push_back(Open {
            op,
            errand,
            fence_token,
            image: None,
            bytes,
            span: Some(span),
            posted: true,
            ack: None,
            resolved: false,
            never_done: false,
        });
        Some(Ticket { sequence, resolved_below: self.first, unit: span.unit })
    }

    fn find(&mut self, sequence: u64) -> Option<&mut Open> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.open.get_mut(at)
    }

    /// The post was refused: the sequence was the last one and is taken back. Gives back the image that was kept for it.
    pub fn take_back(&mut self, sequence: u64) -> Option<Buffer> {
        if sequence + 1 != self.first + self.open.len() as u64 {
            return None;
        }
        let open = self.open.pop_back()?;
        self.unanswered -= 1;
        if let Some(span) = open.span {
            self.ring.give_back(span);
        }
        if matches!(open.errand, Errand::AskAfter(_)) {
            self.questions -= 1;
        }
        open.image
    }

    /// The request was copied into a message that it shares: its own image is nobody's but ours, whatever becomes of
    /// the message.
    pub fn copied(&mut self, sequence: u64, image: Option<Buffer>) {
        if let Some(open) = self.find(sequence) {
            (open.posted, open.image) = (false, image);
        }
    }

    /// A request's work request has ended and its buffer is back.
    pub fn on_posted(&mut self, sequence: u64, image: Buffer) -> Progress {
        let Some(open) = self.find(sequence) else { return Progress::Nothing };
        open.posted = false;
        open.image = Some(image);
        self.progress(sequence)
    }

    /// An answer has come. False when it answers nothing that was asked: the server's mistake.
    pub fn on_ack(&mut self, ack: Ack) -> (bool, Progress) {
        let Some(open) = self.find(ack.sequence).filter(|o| o.ack.is_none() && !o.resolved) else {
            return (false, Progress::Nothing);
        };
        open.ack = Some(ack);
        let span = open.span.take();
        if let Some(span) = span {
            self.unanswered -= 1;
            self.ring.give_back(span);
        }
        (true, self.progress(ack.sequence))
    }

    fn progress(&mut self, sequence: u64) -> Progress {
        let Some(open) = self.find(sequence) else { return Progress::Nothing };
        let (Some(ack), false) = (open.ack, open.posted) else { return Progress::Nothing };
        match open.errand {
            Errand::Operation | Errand::Part(_) => {
                let resolved = open.resolve(ack);
                self.trim();
                Progress::Resolved(resolved)
            }
            Errand::AskAfter(of) => {
                open.resolved = true;
                self.questions -= 1;
                let told = self.told(of, ack);
                self.trim();
                told
            }
        }
    }

    /// The worker has told the outcome of an open write.
    fn told(&mut self, of: u64, ack: Ack) -> Progress {
        let Some(open) = self.find(of).filter(|o| !o.resolved) else { return Progress::Nothing };
        if ack.outcome == Outcome::Busy {
            self.busy.push(of);
            return Progress::Nothing;
        }
        if ack.outcome == Outcome::NeverDone && open.op.is_some() {
            open.never_done = true;
            return Progress::Nothing;
        }
        Progress::Resolved(open.resolve(Ack { sequence: of, ..ack }))
    }

    fn trim(&mut self) {
        while self.open.front().is_some_and(|o| o.resolved && !o.posted) {
            self.open.pop_front();
            self.first += 1;
        }
    }

    /// Its operation has gone: the answer concerns nobody.
    pub fn forget(&mut self, sequence: u64) {
        if let Some(open) = self.find(sequence) {
            open.op = None;
        }
    }

    /// The connection is a new one with an empty ring, and all work of the old one has ended. Tells what must be
    /// asked after, in order; answers that had come before count.
    pub fn reconnected(&mut self, staging_bytes: usize) -> (Vec<u64>, Vec<Resolved>) {
        self.ring = Ring::new(staging_bytes);
        self.unanswered = 0;
        self.questions = 0;
        self.busy.clear();
        let (mut questions, mut resolved) = (Vec::new(), Vec::new());
        for (at, open) in self.open.iter_mut().enumerate() {
            (open.span, open.posted) = (None, false);
            match (open.ack, open.errand) {
                _ if open.resolved => {}
                (Some(ack), Errand::Operation) => resolved.push(open.resolve(ack)),
                // What it was a part of went with the connection.
                (_, Errand::Part(_)) => {
                    let sequence = self.first + at as u64;
                    resolved.push(open.resolve(Ack { sequence, outcome: Outcome::Unreserved, detail: 0, figures: [0; 2] }));
                }
                // A question of the broken connection; it is asked again under a new sequence.
                (_, Errand::AskAfter(_)) => open.resolved = true,
                (None, Errand::Operation) => questions.push(self.first + at as u64),
            }
        }
        self.trim();
        (questions, resolved)
    }

    /// Writes that were never done and must be sent again, once every question is answered. They are resolved here:
    /// what is sent again has a new sequence.
    pub fn take_never_done(&mut self) -> Vec<(SlabKey, Option<Buffer>, usize)> {
        if self.questions > 0 || !self.busy.is_empty() {
            return Vec::new();
        }
        let mut again = Vec::new();
        for open in self.open.iter_mut().filter(|o| o.never_done && !o.resolved) {
            open.resolved = true;
            again.extend(open.op.take().map(|op| (op, open.image.take(), open.bytes)));
        }
        if !again.is_empty() {
            self.trim();
        }
        again
    }

    /// Parts of values that were sent and are not resolved, once all work has ended.
    pub fn take_parts(&mut self) -> Vec<(SlabKey, u32, Buffer)> {
        let part = |open: &mut Open| match open.errand {
            Errand::Part(index) if !open.resolved => Some((open.op?, index, open.image.take()?)),
            _ => None,
        };
        self.open.iter_mut().filter_map(part).collect()
    }

    /// Operations whose requests are open.
    pub fn operations(&self) -> Vec<SlabKey> {
        self.open.iter().filter(|o| !o.resolved).filter_map(|o| o.op).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(sequence: u64, outcome: Outcome) -> Ack {
        Ack { sequence, outcome, detail: 0, figures: [7, 0] }
    }

    fn op(n: u64) -> Option<SlabKey> {
        Some(SlabKey::from_raw(n))
    }

    /// Marks a request's work as ended without a real buffer.
    fn end_work(writer: &mut Writer, sequence: u64) -> Progress {
        writer.find(sequence).unwrap().posted = false;
        writer.progress(sequence)
    }

    #[test]
    fn a_request_is_resolved_once_answered_and_ended_in_either_order() {
        let mut writer = Writer::new(4096, 4);
        let one = writer.send(op(1), Errand::Operation, 100, 0).unwrap();
        let two = writer.send(op(2), Errand::Operation, 100, 9).unwrap();
        assert_eq!((one.sequence, two.sequence, two.unit), (1, 2, 2));
        assert!(writer.carries(9));
        assert!(matches!(writer.on_ack(ack(2, Outcome::Done)), (true, Progress::Nothing)));
        assert!(matches!(end_work(&mut writer, 2), Progress::Resolved(r) if r.op == op(2)));
        assert!(!writer.carries(9));
        assert!(matches!(end_work(&mut writer, 1), Progress::Nothing));
        let next = writer.send(op(3), Errand::Operation, 64, 0).unwrap();
        assert_eq!((next.sequence, next.resolved_below), (3, 1));
        assert!(matches!(writer.on_ack(ack(1, Outcome::Done)), (true, Progress::Resolved(r)) if r.op == op(1)));
        assert_eq!(writer.send(op(4), Errand::Operation, 64, 0).unwrap().resolved_below, 3);
        assert!(!writer.on_ack(ack(1, Outcome::Done)).0, "an answer to nothing is the server's mistake");
    }

    #[test]
    fn credits_and_space_are_bounds() {
        let mut writer = Writer::new(4096, 2);
        assert!(writer.send(op(1), Errand::Operation, 5000, 0).is_none());
        writer.send(op(1), Errand::Operation, 64, 0).unwrap();
        let last = writer.send(op(2), Errand::Operation, 64, 0).unwrap();
        assert!(writer.send(op(3), Errand::Operation, 64, 0).is_none() && !writer.accepts());
        writer.take_back(last.sequence);
        assert_eq!(writer.send(op(3), Errand::Operation, 64, 0).unwrap().sequence, 2);
    }

    #[test]
    fn a_copied_request_waits_for_its_answer_alone_and_is_taken_back_as_any() {
        let mut writer = Writer::new(4096, 4);
        let one = writer.send(op(1), Errand::Operation, 100, 0).unwrap();
        let two = writer.send(op(2), Errand::Operation, 100, 0).unwrap();
        writer.copied(one.sequence, None);
        writer.copied(two.sequence, None);
        assert!(matches!(writer.on_ack(ack(1, Outcome::Done)), (true, Progress::Resolved(r)) if r.op == op(1)));
        assert!(writer.accepts_behind(2) && !writer.accepts_behind(3));
        writer.take_back(two.sequence);
        assert!(writer.accepts_behind(3));
        assert_eq!(writer.send(op(3), Errand::Operation, 64, 0).unwrap().sequence, two.sequence);
    }

    #[test]
    fn after_a_broken_connection_every_open_write_is_asked_after_and_only_undone_ones_are_sent_again() {
        let mut writer = Writer::new(4096, 8);
        for n in 1..=4 {
            writer.send(op(n), Errand::Operation, 64, 0).unwrap();
        }
        // The answer to 1 had come, the caller of 4 has given up.
        writer.on_ack(ack(1, Outcome::Done));
        writer.forget(4);
        let (questions, resolved) = writer.reconnected(4096);
        assert_eq!(questions, [2, 3, 4]);
        assert_eq!(resolved.iter().map(|r| r.op).collect::<Vec<_>>(), [op(1)]);
        for of in questions {
            let ticket = writer.send(None, Errand::AskAfter(of), 64, 0).unwrap();
            end_work(&mut writer, ticket.sequence);
        }
        assert!(!writer.accepts(), "new writes wait until the old ones are resolved");
        assert!(matches!(writer.on_ack(ack(5, Outcome::Done)).1, Progress::Resolved(r) if r.op == op(2) && r.ack.sequence == 2));
        // The worker is still at it: asked again later.
        assert!(matches!(writer.on_ack(ack(6, Outcome::Busy)).1, Progress::Nothing));
        assert_eq!(writer.take_busy(), [3]);
        let ticket = writer.send(None, Errand::AskAfter(3), 64, 0).unwrap();
        end_work(&mut writer, ticket.sequence);
        assert!(matches!(writer.on_ack(ack(8, Outcome::NeverDone)).1, Progress::Nothing));
        assert!(writer.take_never_done().is_empty());
        assert!(matches!(writer.on_ack(ack(7, Outcome::NeverDone)).1, Progress::Resolved(r) if r.op.is_none()));
        let again: Vec<_> = writer.take_never_done().into_iter().map(|(op, ..)| op).collect();
        assert_eq!(again, [SlabKey::from_raw(3)]);
        assert!(writer.accepts());
        assert_eq!(writer.send(op(3), Errand::Operation, 64, 0).unwrap().resolved_below, 9);
    }
}

//! Requests: sent to the key's worker, answered by acks; and resolved after a broken connection.

use super::Driver;
use super::lane::Lane;
use super::message::Message;
use crate::error::Error;
use crate::in_flight::{Purpose, Queued, SendQueue};
use crate::op::Input;
use crate::route::{Cause, Wander};
use crate::slab::SlabKey;
use crate::writer::{Errand, Progress, Resolved, Ticket, Writer};
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{EndpointId, RemoteRegion};
use sidewire_common::layout::ack::{self, Ack, Outcome};
use sidewire_common::layout::request::{HEADER_BYTES, Operation, Request};
use sidewire_common::limits::MESSAGE_BYTES;
use sidewire_common::memory::Buffer;
use std::time::Duration;

/// Pause before the worker is asked again after a write that it was busy with.
const ASK_PAUSE: Duration = Duration::from_millis(1);

/// One worker's write endpoint.
pub(crate) struct WriterSlot {
    pub lane: Lane,
    pub staging: Option<RemoteRegion>,
    pub books: Writer,
    pub queue: SendQueue,
    /// Its endpoint has failed; open writes are to be resolved on the next one.
    pub broken: bool,
    pub ask_at: BootInstant,
}

impl Driver {
    /// A machine wants a request sent.
    pub(super) fn enqueue(&mut self, name: SlabKey, request: Request) {
        let Some(op) = self.ops.find(name) else { return };
        let worker = self.attached.terms.worker_of(op.hash);
        op.queued = true;
        op.request = None;
        // A request with an image of its own tells its lengths; any other is about the operation's key alone.
        let key_len = if op.image.is_some() { request.key_len } else { op.key.len() as u16 };
        let request = Request { key_len, ..request };
        op.wire = Some(request);
        self.writers[worker].queue.push_back(Queued { op: name, request });
        self.queued += 1;
    }

    /// Sends what is queued, as far as credits and ring space go.
    pub(super) fn pump(&mut self) {
        for worker in 0..self.writers.len() {
            self.pump_to(worker);
        }
    }

    /// The same of one worker's queue.
    pub(super) fn pump_to(&mut self, worker: usize) {
        while self.writers[worker].queue.len() > 0 && self.send_next(worker) {}
    }

    /// Sends the next message of a worker's queue. False when it must wait.
    fn send_next(&mut self, worker: usize) -> bool {
        let Some(next) = self.writers[worker].queue.at(0) else { return false };
        if !self.is_wanted(next) {
            self.sent(worker, 1);
            return true;
        }
        if !self.mend_writer(worker) {
            return false;
        }
        // Opening an endpoint takes time: the request may have had all of its own.
        let Some(next) = self.writers[worker].queue.at(0).filter(|&next| self.is_wanted(next)) else { return true };
        let together = self.packable(worker);
        let sent = match next.request.operation {
            Operation::Chunk => Ok(usize::from(self.send_part(worker, next))),
            _ if together > 1 => self.send_packed(worker, together),
            _ => self.send(worker, next).map(usize::from),
        };
        match sent {
            Ok(0) => false,
            Ok(count) => {
                self.sent(worker, count);
                true
            }
            Err(error) => {
                self.finish(next.op, Err(error));
                self.sent(worker, 1);
                true
            }
        }
    }

    /// The first `count` of a queue are done with.
    fn sent(&mut self, worker: usize, count: usize) {
        for _ in 0..count {
            self.writers[worker].queue.pop_front();
        }
        self.queued -= count;
    }

    /// Whether a queued request is still to be sent.
    pub(super) fn is_wanted(&self, queued: Queued) -> bool {
        let is_part = queued.request.operation == Operation::Chunk;
        self.ops.get(queued.op).is_some_and(|op| (op.queued || is_part) && (!op.has_ended() || op.must_run))
    }

    /// Whether a worker's endpoint takes one more message, and there is a credit for it.
    pub(super) fn may_send_to(&self, worker: usize) -> bool {
        let slot = &self.writers[worker];
        slot.books.accepts() && slot.lane.endpoint.is_some_and(|endpoint| self.port.room(endpoint) > 0)
    }

    /// Sends one request. False when it must wait.
    pub(super) fn send(&mut self, worker: usize, next: Queued) -> Result<bool, Error> {
        if !self.may_send_to(worker) {
            return Ok(false);
        }
        let total = next.request.total_bytes();
        let Some(op) = self.ops.find(next.op) else { return Ok(true) };
        let fence_token = op.fence_token;
        let (image, bytes) = match op.image.take() {
            Some(image) => image,
            None => {
                let mut image = self.buffers.take(total)?;
                image.bytes_mut()[HEADER_BYTES..HEADER_BYTES + op.key.len()].copy_from_slice(&op.key);
                (image, total)
            }
        };
        let Some(ticket) = self.writers[worker].books.send(Some(next.op), Errand::Operation, bytes, fence_token) else {
            op.image = Some((image, bytes));
            return Ok(false);
        };
        op.queued = false;
        op.request = Some((worker as u32, ticket.sequence));
        if let Err(image) = self.post_request(worker, next.op, next.request, ticket, image, bytes) {
            if let Some(op) = self.ops.find(next.op) {
                op.image = Some((image, bytes));
                op.queued = true;
                op.request = None;
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Writes the header and posts. Gives the buffer back when the endpoint refuses.
    pub(super) fn post_request(
        &mut self,
        worker: usize,
        op: SlabKey,
        request: Request,
        ticket: Ticket,
        mut image: Buffer,
        bytes: usize,
    ) -> Result<(), Buffer> {
        let header = Request { sequence: ticket.sequence, resolved_below: ticket.resolved_below, ..request };
        image.bytes_mut()[..HEADER_BYTES].copy_from_slice(&header.encode());
        let purpose = Purpose::Request { worker: worker as u32, sequence: ticket.sequence };
        let message = Message { op, purpose, buffer: image, bytes, unit: ticket.unit, sequence: ticket.sequence };
        let posted = self.post_message(worker, message);
        match &posted {
            Ok(()) => self.stats.requests.add(1),
            Err(_) => drop(self.writers[worker].books.take_back(ticket.sequence)),
        }
        posted
    }

    /// A request's work request has ended.
    pub(super) fn on_request_posted(&mut self, worker: u32, sequence: u64, image: Buffer) {
        let Some(slot) = self.writers.get_mut(worker as usize) else { return };
        let progress = slot.books.on_posted(sequence, image);
        self.on_progress(worker as usize, progress);
    }

    /// A message of acks.
    pub(super) fn on_message(&mut self, endpoint: EndpointId, slot: u32) {
        let Some(worker) = self.writers.iter().position(|w| w.lane.endpoint == Some(endpoint)) else { return };
        let mut message = [0; MESSAGE_BYTES];
        let length = match self.port.take_message(endpoint, slot, &mut message) {
            Ok(length) => length,
            Err(error) => {
                tracing::warn!(%error, worker, "an ack could not be fetched");
                return self.break_writer(worker);
            }
        };
        match ack::decode(&message[..length]) {
            Ok(acks) => {
                self.writers[worker].lane.answered();
                for ack in acks {
                    let (known, progress) = self.writers[worker].books.on_ack(ack);
                    if !known {
                        tracing::warn!(worker, sequence = ack.sequence, "an ack answers nothing that was asked");
                    }
                    self.on_progress(worker, progress);
                }
            }
            Err(error) => {
                tracing::warn!(%error, worker, "the worker's message is no ack");
                self.break_writer(worker);
            }
        }
    }

    fn on_progress(&mut self, worker: usize, progress: Progress) {
        if let Progress::Resolved(resolved) = progress {
            self.on_resolved(resolved);
        }
        self.send_again(worker);
    }

    fn on_resolved(&mut self, resolved: Resolved) {
        let Some(name) = resolved.op else { return };
        if let Some(index) = resolved.part {
            return self.on_part(name, index, resolved);
        }
        let Some(op) = self.ops.find(name) else { return };
        if op.request.is_none_or(|(_, sequence)| sequence != resolved.ack.sequence) {
            return;
        }
        op.image = resolved.image.map(|image| (image, resolved.bytes));
        if self.server.shared.membership.is_some() {
            return self.on_ack_in_cluster(name, resolved.ack);
        }
        op.request = None;
        self.feed(name, Input::Ack(resolved.ack));
    }

    /// A server that is replaced does not know it yet: its word counts only while the lease that it gave holds.
    fn on_ack_in_cluster(&mut self, name: SlabKey, ack: Ack) {
        let is_believed = self.attached.lease.valid_at(BootInstant::now());
        let Some(op) = self.ops.find(name) else { return };
        if ack.outcome == Outcome::WrongPrimary {
            op.request = None;
            let epoch = u32::try_from(ack.figures[0]).unwrap_or(0);
            return self.emigrate(name, Cause::WrongPrimary(epoch));
        }
        if !is_believed {
            op.wander.get_or_insert_with(|| Box::new(Wander::new())).held_ack = Some(ack);
            self.server.shared.suspect();
            return self.restart_later(name);
        }
        op.request = None;
        self.feed(name, Input::Ack(ack));
    }

    /// Writes that the worker has never seen go to the front of the queue, in their order.
    fn send_again(&mut self, worker: usize) {
        for (name, image, bytes) in self.writers[worker].books.take_never_done().into_iter().rev() {
            let Some(op) = self.ops.find(name) else { continue };
            let Some(request) = op.wire else { continue };
            op.image = image.map(|image| (image, bytes));
            op.request = None;
            op.queued = true;
            self.writers[worker].queue.push_front(Queued { op: name, request });
            self.queued += 1;
        }
    }

    /// Asks the worker after every open write of the connection that broke.
    pub(super) fn resolve_open(&mut self, worker: usize) {
        let staging_bytes = self.attached.terms.staging_bytes;
        let (questions, resolved) = self.writers[worker].books.reconnected(staging_bytes);
        for resolved in resolved {
            self.on_resolved(resolved);
        }
        self.ask_after(worker, questions);
    }

    /// Asks again after writes that the worker was busy with.
    pub(super) fn ask_again(&mut self) {
        let now = BootInstant::now();
        for worker in 0..self.writers.len() {
            let slot = &mut self.writers[worker];
            if slot.lane.endpoint.is_some() && slot.books.has_busy() && now >= slot.ask_at {
                slot.ask_at = now.plus(ASK_PAUSE);
                let questions = slot.books.take_busy();
                self.ask_after(worker, questions);
            }
        }
    }

    fn ask_after(&mut self, worker: usize, questions: Vec<u64>) {
        for of in questions {
            let request = Request { argument: of as i64, ..Request::new(Operation::Resolve, 0) };
            let Some(ticket) = self.writers[worker].books.send(None, Errand::AskAfter(of), HEADER_BYTES, 0) else { continue };
            let Ok(image) = self.buffers.take(HEADER_BYTES) else {
                self.writers[worker].books.take_back(ticket.sequence);
                continue;
            };
            if self.post_request(worker, SlabKey::NOBODY, request, ticket, image, HEADER_BYTES).is_err() {
                return;
            }
        }
    }

    /// Whether an unresolved write carries this fencing token.
    pub fn carries(&self, token: u64) -> bool {
        self.writers.iter().any(|w| w.books.carries(token))
            || self.writers.iter().flat_map(|w| w.queue.iter()).any(|q| q.request.fence_token == token)
    }
}

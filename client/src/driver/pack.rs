//! Packing: requests that wait together are copied into one message.
//!
//! Nothing waits for company: what is packed was queued already, since it was submitted with others or found no
//! credit, ring space or connection.

use super::Driver;
use super::message::Message;
use crate::error::Error;
use crate::in_flight::Purpose;
use crate::slab::SlabKey;
use crate::writer::Errand;
use sidewire_common::layout::packed::{PACK_BYTES_MAX, REQUESTS_MAX, next_at};
use sidewire_common::layout::record::UNIT_BYTES;
use sidewire_common::layout::request::{HEADER_BYTES, Operation, Request};
use sidewire_common::memory::Buffer;

/// A message that is being made.
struct Pack {
    buffer: Buffer,
    /// Sequence and unit in the ring of its first request.
    first: (u64, u32),
    count: usize,
    bytes: usize,
}

impl Driver {
    /// How many of the first in a worker's queue may share a message.
    pub(super) fn packable(&self, worker: usize) -> usize {
        if !self.server.shared.packs {
            return 1;
        }
        let mut end = 0;
        let fits = |queued: &&crate::in_flight::Queued| {
            end = next_at(end) + queued.request.total_bytes();
            // Parts of long values travel alone, each from its own buffer.
            let is_part = queued.request.operation == Operation::Chunk;
            end <= PACK_BYTES_MAX && !is_part && self.is_wanted(**queued)
        };
        self.writers[worker].queue.iter().take(REQUESTS_MAX).take_while(fits).count()
    }

    /// Sends the first `count` of a worker's queue in one message, or as many as there are credits and ring space in one
    /// piece for. Tells how many; none when they must wait.
    ///
    /// # Errors
    /// When no buffer is to be had, not even for the first alone.
    pub(super) fn send_packed(&mut self, worker: usize, count: usize) -> Result<usize, Error> {
        if !self.may_send_to(worker) {
            return Ok(0);
        }
        let slot = &self.writers[worker];
        let end = slot.queue.iter().take(count).fold(0, |end, queued| next_at(end) + queued.request.total_bytes());
        let Some(first) = slot.queue.at(0) else { return Ok(0) };
        // The first has its own buffer, so that it can go alone when there is none for all.
        let Ok(buffer) = self.buffers.take(end) else { return self.send(worker, first).map(usize::from) };
        let mut pack = Pack { buffer, first: (0, 0), count: 0, bytes: 0 };
        while pack.count < count && self.lay(worker, &mut pack) {}
        if pack.count == 0 {
            return Ok(0);
        }
        let Pack { buffer, first: (sequence, unit), count, bytes } = pack;
        let purpose = Purpose::Pack { worker: worker as u32 };
        let message = Message { op: SlabKey::NOBODY, purpose, buffer, bytes, unit, sequence };
        if self.post_message(worker, message).is_err() {
            self.unlay(worker, sequence, count);
            return Ok(0);
        }
        self.stats.requests.add(count as u64);
        Ok(count)
    }

    /// Copies the next queued request into the message, if there is a credit for it, and space in the ring behind
    /// the one before.
    fn lay(&mut self, worker: usize, pack: &mut Pack) -> bool {
        let slot = &mut self.writers[worker];
        let Some(queued) = slot.queue.at(pack.count).filter(|_| slot.books.accepts()) else { return false };
        let Some(op) = self.ops.find(queued.op) else { return false };
        let bytes = queued.request.total_bytes();
        let Some(ticket) = slot.books.send(Some(queued.op), Errand::Operation, bytes, op.fence_token) else { return false };
        let at = next_at(pack.bytes);
        if pack.count == 0 {
            pack.first = (ticket.sequence, ticket.unit);
        } else if ticket.unit as usize != pack.first.1 as usize + at / UNIT_BYTES {
            slot.books.take_back(ticket.sequence);
            return false;
        }
        let header = Request { sequence: ticket.sequence, resolved_below: ticket.resolved_below, ..queued.request };
        let into = &mut pack.buffer.bytes_mut()[at..at + bytes];
        into[..HEADER_BYTES].copy_from_slice(&header.encode());
        let image = op.image.take().map(|(image, _)| image);
        match &image {
            Some(image) => into[HEADER_BYTES..].copy_from_slice(&image.bytes()[HEADER_BYTES..bytes]),
            None => into[HEADER_BYTES..HEADER_BYTES + op.key.len()].copy_from_slice(&op.key),
        }
        slot.books.copied(ticket.sequence, image);
        op.queued = false;
        op.request = Some((worker as u32, ticket.sequence));
        pack.count += 1;
        pack.bytes = at + bytes;
        true
    }

    /// The message was not posted: its requests wait again.
    fn unlay(&mut self, worker: usize, sequence: u64, count: usize) {
        for nth in (0..count).rev() {
            let slot = &mut self.writers[worker];
            let image = slot.books.take_back(sequence + nth as u64);
            let Some(queued) = slot.queue.at(nth) else { continue };
            if let Some(op) = self.ops.find(queued.op) {
                op.image = image.map(|image| (image, queued.request.total_bytes()));
                op.queued = true;
                op.request = None;
            }
        }
    }
}

//! Long values: their parts on the way to a worker, and the pieces in which long records are read.

use super::Driver;
use crate::error::Error;
use crate::in_flight::{Machine, Posted, Purpose, Queued};
use crate::op::{Input, PutLarge, ReadTag};
use crate::parts::Parts;
use crate::slab::SlabKey;
use crate::writer::{Errand, Resolved};
use sidewire_common::fabric::{EndpointId, RemoteAddr, Verb, WorkId, WorkRequest};
use sidewire_common::layout::request::Request;
use sidewire_common::memory::Buffer;

/// Bytes of one Read: longer records are read in pieces, one after the other. Below the longest message of every device
/// (8 MiB on Soft-RoCE).
pub(super) const PIECE_BYTES: usize = 4 << 20;

/// A Read of which some pieces are still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pieces {
    from: RemoteAddr,
    /// Bytes that are there when the posted piece is.
    until: usize,
    bytes: usize,
}

impl Driver {
    /// A machine wants its next part sent.
    pub(super) fn enqueue_part(&mut self, name: SlabKey, request: Request) {
        let Some(op) = self.ops.get(name) else { return };
        let worker = self.attached.terms.worker_of(op.hash);
        self.writers[worker].queue.push_back(Queued { op: name, request });
        self.queued += 1;
    }

    /// Sends a part. False when it must wait.
    pub(super) fn send_part(&mut self, worker: usize, next: Queued) -> bool {
        if !self.may_send_to(worker) {
            return false;
        }
        let Some(machine) = self.large(next.op) else { return true };
        // One of an earlier attempt concerns nobody.
        let Some((index, image, bytes)) = machine.take_part(next.request.argument as u64) else { return true };
        let ticket = self.writers[worker].books.send(Some(next.op), Errand::Part(index as u32), bytes, 0);
        let image = match ticket {
            None => image,
            Some(ticket) => match self.post_request(worker, next.op, next.request, ticket, image, bytes) {
                Ok(()) => return true,
                Err(image) => image,
            },
        };
        if let Some(machine) = self.large(next.op) {
            machine.not_sent(index, image);
        }
        false
    }

    fn large(&mut self, name: SlabKey) -> Option<&mut PutLarge> {
        match &mut self.ops.find(name)?.machine {
            Machine::Large(machine) => Some(machine),
            _ => None,
        }
    }

    /// A part was answered, or its connection has ended, and its buffer is back.
    pub(super) fn on_part(&mut self, name: SlabKey, index: u32, resolved: Resolved) {
        let Some(machine) = self.large(name) else { return };
        if let Some(image) = resolved.image {
            machine.put_back(index as usize, image);
        }
        self.feed(name, Input::Part(resolved.ack));
    }

    /// Parts of unfinished values go back to their machines: the connections have ended for good.
    pub(super) fn take_parts_back(&mut self) {
        for worker in 0..self.writers.len() {
            for (name, index, image) in self.writers[worker].books.take_parts() {
                if let Some(machine) = self.large(name) {
                    machine.put_back(index as usize, image);
                }
            }
        }
    }

    /// The values of unfinished writes are cut anew, for another server and out of buffers of its fabric.
    pub(super) fn cut_anew(&mut self) {
        for name in self.ops.keys() {
            let (limit, part_max) = (self.attached.terms.value_bytes_max, self.attached.terms.request_value_bytes_max);
            let Some(machine) = self.large(name) else { continue };
            let bytes = machine.value_bytes();
            let value = machine.parts().value();
            let cut = match value {
                // Some of its bytes were still the fabric's when the server went.
                None => Err(Error::LeaseLapsed),
                Some(_) if bytes > limit => Err(Error::ValueTooLong { bytes, limit }),
                Some(value) => Parts::cut(&value, part_max, &mut self.buffers).map_err(Error::from),
            };
            match (cut, self.large(name)) {
                (Ok(parts), Some(machine)) => machine.set_parts(parts),
                (Err(error), _) => self.finish(name, Err(error)),
                (Ok(_), None) => {}
            }
        }
    }

    /// Reads the next piece of a long record into its place in the buffer.
    fn read_piece(&mut self, name: SlabKey, tag: ReadTag, pieces: Pieces, mut buffer: Buffer) {
        let (at, until) = (pieces.until, pieces.bytes.min(pieces.until + PIECE_BYTES));
        let (work, slot) = self.posted.take(|| None);
        let id = WorkId(work.raw());
        let into = buffer.lend(at..until, id);
        let from = RemoteAddr { addr: pieces.from.addr + at as u64, ..pieces.from };
        *slot =
            Some(Posted { op: name, purpose: Purpose::Piece { tag, pieces: Pieces { until, ..pieces } }, buffer: Some(buffer) });
        self.chain.push(WorkRequest { id, verb: Verb::Read { into, from } });
        self.chained(name);
    }

    /// Begins to read a long record.
    pub(super) fn read_long(&mut self, name: SlabKey, tag: ReadTag, from: RemoteAddr, bytes: usize, buffer: Buffer) {
        self.read_piece(name, tag, Pieces { from, until: 0, bytes }, buffer);
    }

    /// A piece is there: the next one follows in its place, or the record is whole.
    pub(super) fn on_piece(&mut self, name: SlabKey, endpoint: EndpointId, tag: ReadTag, pieces: Pieces, buffer: Buffer) {
        if pieces.until == pieces.bytes {
            return self.feed(name, Input::Read { tag, buffer, bytes: pieces.bytes });
        }
        if self.reader.endpoint != Some(endpoint) {
            return self.restart_later(name);
        }
        // The one that has ended has made room.
        self.room += 1;
        self.read_piece(name, tag, pieces, buffer);
    }
}

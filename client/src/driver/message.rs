//! A message for a worker: one Write-with-Immediate into its staging ring.

use super::Driver;
use crate::in_flight::{Posted, Purpose};
use crate::slab::SlabKey;
use sidewire_common::fabric::{Verb, WorkId, WorkRequest};
use sidewire_common::layout::record::UNIT_BYTES;
use sidewire_common::layout::request::immediate;
use sidewire_common::memory::Buffer;

/// What is to be written: the first `bytes` bytes of the buffer.
pub(super) struct Message {
    /// Whose message it is; [`SlabKey::NOBODY`] for those of several.
    pub op: SlabKey,
    pub purpose: Purpose,
    pub buffer: Buffer,
    pub bytes: usize,
    /// Where in the ring its first request goes, 64-byte units.
    pub unit: u32,
    /// Sequence of that request.
    pub sequence: u64,
}

impl Driver {
    /// Posts a message. When there is no endpoint, or it refuses and is given up for that, the buffer comes back.
    pub(super) fn post_message(&mut self, worker: usize, message: Message) -> Result<(), Buffer> {
        let Message { op, purpose, mut buffer, bytes, unit, sequence } = message;
        let slot = &self.writers[worker];
        let at = u64::from(unit) * UNIT_BYTES as u64;
        let place = slot.lane.endpoint.zip(slot.staging.and_then(|staging| staging.at(at, bytes as u64)));
        let Some((endpoint, to)) = place else { return Err(buffer) };
        let (work, entry) = self.posted.take(|| None);
        let id = WorkId(work.raw());
        let from = buffer.lend(0..bytes, id);
        *entry = Some(Posted { op, purpose, buffer: Some(buffer) });
        self.single.push(WorkRequest { id, verb: Verb::WriteImm { from, to, imm: immediate(unit, sequence) } });
        let Err(error) = self.port.post(endpoint, &mut self.single) else {
            self.stats.messages.add(1);
            return Ok(());
        };
        self.single.clear();
        tracing::debug!(%error, worker, "a message was refused");
        let posted = self.posted.find(work).and_then(Option::take);
        self.posted.release(work);
        let mut buffer = posted.and_then(|posted| posted.buffer).expect("it was put there just now");
        buffer.give_back(id);
        self.break_writer(worker);
        Err(buffer)
    }
}

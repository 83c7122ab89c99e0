//! Sorting what was polled.

use super::Driver;
use crate::in_flight::{Machine, Posted, Purpose};
use crate::op::{Done, Input};
use crate::slab::SlabKey;
use sidewire_common::fabric::{Completion, EndpointId, Event, Status, WorkId};
use sidewire_common::layout::wire::u64_at;

impl Driver {
    /// Polls once and feeds what has come. True when anything has.
    #[inline]
    pub(super) fn poll(&mut self) -> bool {
        let mut completions = std::mem::take(&mut self.completions);
        self.port.poll(&mut completions);
        let came = !completions.is_empty();
        if came {
            for completion in &completions {
                self.on_completion(completion);
            }
            completions.clear();
            self.room = self.reader.endpoint.map_or(0, |e| self.port.room(e)).saturating_sub(self.chain.len());
        }
        self.completions = completions;
        came
    }

    #[inline]
    fn on_completion(&mut self, completion: &Completion) {
        match completion.event {
            Event::Done { id, status, old } => self.on_done(completion.endpoint, id, status, old),
            Event::Message { slot } => self.on_message(completion.endpoint, slot),
            Event::Broken => self.on_broken(completion.endpoint),
            Event::Written { .. } => tracing::warn!("the server wrote into a client, which no server does"),
        }
    }

    #[inline]
    fn on_done(&mut self, endpoint: EndpointId, id: WorkId, status: Status, old: u64) {
        let work = SlabKey::from_raw(id.0);
        let Some(Posted { op: name, purpose, buffer, .. }) = self.posted.find(work).and_then(Option::take) else { return };
        self.posted.release(work);
        let buffer = buffer.map(|mut buffer| {
            buffer.give_back(id);
            buffer
        });
        if !status.is_ok() {
            self.on_failed(endpoint, status);
        } else if self.reader.endpoint == Some(endpoint) {
            self.reader.answered();
        }
        if let Purpose::Request { worker, sequence } = purpose {
            if let Some(image) = buffer {
                self.on_request_posted(worker, sequence, image);
            }
            return;
        }
        if let Purpose::Pack { .. } = purpose {
            return;
        }
        let Some(op) = self.ops.find(name) else { return };
        op.posted -= 1;
        if op.has_ended() && !op.must_run {
            // Its time was over before: nobody wants the bytes, and the buffer is free again.
            return self.settle(name);
        }
        match (purpose, buffer) {
            (Purpose::Read { tag, bytes }, Some(buffer)) if status.is_ok() => self.feed(name, Input::Read { tag, buffer, bytes }),
            (Purpose::Piece { tag, pieces }, Some(buffer)) if status.is_ok() => {
                self.on_piece(name, endpoint, tag, pieces, buffer);
            }
            (Purpose::CellRead, Some(buffer)) if status.is_ok() => {
                let old = u64_at(buffer.bytes(), 0);
                drop(buffer);
                self.feed(name, Input::Cell { old });
            }
            (Purpose::CellAtomic, _) if status.is_ok() => self.feed(name, Input::Cell { old }),
            (Purpose::CellRead | Purpose::CellAtomic, _) => self.feed(name, Input::CellLost),
            (Purpose::Raw, _) => self.on_raw(name, status),
            _ => self.restart_later(name),
        }
    }

    fn on_raw(&mut self, name: SlabKey, status: Status) {
        let Some(op) = self.ops.find(name) else { return };
        let Machine::Raw(left) = &mut op.machine else { return };
        *left = left.saturating_sub(1);
        if !status.is_ok() {
            let error = self.server.shared.gone_error();
            self.finish(name, Err(error));
        } else if *left == 0 {
            self.finish(name, Ok(Done::Raw));
        }
    }

    #[cold]
    fn on_failed(&mut self, endpoint: EndpointId, status: Status) {
        if status != Status::Flushed {
            tracing::debug!(?endpoint, ?status, "work has failed");
        }
        self.on_broken(endpoint);
    }

    #[cold]
    fn on_broken(&mut self, endpoint: EndpointId) {
        if self.reader.endpoint == Some(endpoint) {
            self.break_reader();
        } else if let Some(worker) = self.writers.iter().position(|w| w.lane.endpoint == Some(endpoint)) {
            self.break_writer(worker);
        }
    }
}

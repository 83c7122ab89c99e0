//! Beginning writes: what is asked, and the one copy of key and value.

use super::Driver;
use crate::error::Error;
use crate::in_flight::{Machine, Sink};
use crate::op::{Input, PutLarge, Want, WriteOp};
use crate::parts::Parts;
use crate::route::Way;
use crate::slab::SlabKey;
use crate::write::WriteOptions;
use sidewire_common::key;
use sidewire_common::layout::lock_word::TOKEN_MAX;
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::{Operation, Request};
use sidewire_common::limits::TTL_MS_MAX;
use sidewire_common::memory::{Buffer, Buffers};
use std::time::Duration;

/// A write, as a call asks for it.
pub(crate) struct WriteSpec<'a> {
    request: Request,
    want: Want,
    fence_key: &'a [u8],
    value: &'a [u8],
}

impl<'a> WriteSpec<'a> {
    fn new(request: Request, want: Want) -> Self {
        Self { request, want, fence_key: &[], value: &[] }
    }

    fn with(mut self, options: &WriteOptions<'a>) -> Result<Self, Error> {
        self.request.condition = options.condition;
        if let Some(ttl) = options.ttl {
            let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            if ttl_ms == 0 || ttl_ms > TTL_MS_MAX {
                return Err(Error::Refused { field: "time to live", value: ttl_ms, limit: TTL_MS_MAX });
            }
            self.request.ttl_ms = ttl_ms;
        }
        if let Some((key, token)) = options.fence {
            key::check(key)?;
            if token == 0 || token > TOKEN_MAX {
                return Err(Error::Refused { field: "fencing token", value: token, limit: TOKEN_MAX });
            }
            self.request.fence_token = token;
            self.fence_key = key;
        }
        Ok(self)
    }

    /// Store a value.
    pub fn put(value: &'a [u8], options: &WriteOptions<'a>) -> Result<Self, Error> {
        let spec = Self::new(Request::new(Operation::Put, 0), Want::Write).with(options)?;
        Ok(Self { value, ..spec })
    }

    /// Delete a key.
    pub fn delete(options: &WriteOptions<'a>) -> Result<Self, Error> {
        Self::new(Request::new(Operation::Delete, 0), Want::Write).with(options)
    }

    /// Create a counter or sequence.
    pub fn create(kind: Kind, initial: i64) -> Self {
        Self::new(Request { kind, argument: initial, ..Request::new(Operation::Put, 0) }, Want::Created)
    }

    /// Add to a counter by the worker.
    pub fn add(delta: i64) -> Self {
        Self::new(Request { argument: delta, ..Request::new(Operation::Add, 0) }, Want::Sum(delta))
    }

    /// Free a lock, whoever holds it.
    pub fn break_lock() -> Self {
        Self::new(Request::new(Operation::BreakLock, 0), Want::Broken)
    }

    /// The request for a key.
    fn request_for(&self, key: &[u8]) -> Request {
        Request {
            key_len: key.len() as u16,
            fence_key_len: self.fence_key.len() as u16,
            value_len: self.value.len() as u32,
            ..self.request
        }
    }

    /// Copies key, fencing lock's key and value to where the request has them.
    fn lay(&self, request: &Request, key: &[u8], bytes: &mut [u8]) {
        let (fence_at, value_at) = (request.fence_key_at(), request.value_at());
        bytes[fence_at - key.len()..fence_at].copy_from_slice(key);
        bytes[fence_at..value_at].copy_from_slice(self.fence_key);
        bytes[value_at..request.total_bytes()].copy_from_slice(self.value);
    }

    /// The same for a write that has no server yet: its machine, its bytes and its fencing token.
    pub fn unsent(&self, key: &[u8]) -> (Machine, Vec<u8>, u64) {
        let request = self.request_for(key);
        let mut bytes = vec![0; request.total_bytes()];
        self.lay(&request, key, &mut bytes);
        (Machine::Write(WriteOp::new(request, self.want)), bytes, request.fence_token)
    }
}

/// A request's bytes, and how many they are.
type Image = (Buffer, usize);

impl WriteSpec<'_> {
    /// All but the value.
    pub(super) fn without_value(&self) -> Self {
        Self { value: &[], ..*self }
    }

    /// The request for a key, and its bytes: key and value are copied once, into the buffer they are sent from.
    pub(super) fn laid(&self, key: &[u8], buffers: &mut Buffers) -> Result<(Request, Image), Error> {
        let request = self.request_for(key);
        let total = request.total_bytes();
        let mut image = buffers.take(total)?;
        self.lay(&request, key, image.bytes_mut());
        Ok((request, (image, total)))
    }
}

impl Driver {
    /// Begins a write. A value that is too long for one request is copied once, into its parts.
    ///
    /// # Errors
    /// As [`Driver::begin`], and when the value is too long or no buffer is to be had.
    pub fn begin_write(
        &mut self,
        key: &[u8],
        write: &WriteSpec<'_>,
        way: Way,
        deadline: Duration,
        sink: Sink,
    ) -> Result<SlabKey, Error> {
        let limit = self.attached.terms.value_bytes_max;
        if write.value.len() > limit {
            return Err(Error::ValueTooLong { bytes: write.value.len(), limit });
        }
        let (machine, request, image) = if write.value.len() > self.attached.terms.lone_value_bytes_max() {
            let parts = Parts::cut(write.value, self.attached.terms.request_value_bytes_max, &mut self.buffers)?;
            let (request, image) = write.without_value().laid(key, &mut self.buffers)?;
            (Machine::Large(Box::new(PutLarge::new(request, write.want, parts))), request, image)
        } else {
            let (request, image) = write.laid(key, &mut self.buffers)?;
            (Machine::Write(WriteOp::new(request, write.want)), request, image)
        };
        let (name, op) = self.slot(key, way, deadline, sink)?;
        op.machine = machine;
        op.image = Some(image);
        op.fence_token = request.fence_token;
        self.feed(name, Input::Resume);
        Ok(name)
    }

    /// As `begin_write`, unless too many writes wait for ring space or a credit already.
    ///
    /// It is sent with the next turn, together with what is submitted until then; when that fills a message, at once.
    ///
    /// # Errors
    /// [`Error::Full`] then, and as `begin_write`.
    pub fn submit_write(
        &mut self,
        key: &[u8],
        write: &WriteSpec<'_>,
        way: Way,
        deadline: Duration,
        sink: Sink,
    ) -> Result<SlabKey, Error> {
        if !self.alive {
            return self.begin_write(key, write, way, deadline, sink);
        }
        let worker = self.attached.terms.worker_of(way.hash);
        if !self.takes_request(worker) {
            return Err(Error::Full);
        }
        let name = self.begin_write(key, write, way, deadline, sink)?;
        let is_alone = !self.server.shared.packs;
        if is_alone || self.writers.get(worker).is_some_and(|slot| slot.queue.fills_a_message()) {
            self.pump_to(worker);
        }
        Ok(name)
    }

    /// Whether one more request may wait for this worker.
    fn takes_request(&self, worker: usize) -> bool {
        let Some(slot) = self.writers.get(worker) else { return true };
        let waiting = slot.queue.len();
        if waiting == 0 {
            return slot.books.accepts() || slot.lane.is_closed();
        }
        self.server.shared.packs && !slot.queue.fills_a_message() && slot.books.accepts_behind(waiting)
    }
}

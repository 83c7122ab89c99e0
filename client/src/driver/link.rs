//! Endpoints: opened, closed, opened again.

use super::Driver;
use super::requests::WriterSlot;
use crate::attached::Attached;
use crate::control::{ControlError, Failure};
use crate::error::Error;
use crate::in_flight::{Purpose, SendQueue};
use crate::locate::CellCache;
use crate::op::Input;
use crate::retry::Backoff;
use crate::server::Server;
use crate::shared::Shared;
use crate::slab::Slab;
use crate::writer::Writer;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{EndpointId, EndpointSpec, Event, Port, PortSpec, RemoteRegion, Role, Verb, WorkId, WorkRequest};
use sidewire_common::layout::descriptor::DESCRIPTOR_BYTES;
use sidewire_common::layout::location::Place;
use sidewire_common::limits::READ_DEPTH;
use sidewire_common::memory::Buffers;
use sidewire_proto::convert::UsedRegion;
use sidewire_proto::{convert, v1};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Pauses between attempts to open an endpoint again.
const REOPEN_PAUSE_FIRST: Duration = Duration::from_millis(1);
const REOPEN_PAUSE_MAX: Duration = Duration::from_millis(250);
/// Longest time that the first Read of a new connection may take.
const FIRST_READ_LIMIT: Duration = Duration::from_secs(3);

/// The read endpoint.
pub(super) struct Reader {
    pub endpoint: Option<EndpointId>,
    pub open_at: BootInstant,
    pub backoff: Backoff,
    /// Whether a work request has ended well on it: from then on it is opened again at once should it break.
    pub has_answered: bool,
}

impl Reader {
    /// One that was just connected.
    pub fn connected(endpoint: EndpointId) -> Self {
        Self { endpoint: Some(endpoint), open_at: BootInstant::now(), backoff: backoff(), has_answered: true }
    }

    /// A work request has ended well.
    #[inline]
    pub fn answered(&mut self) {
        if !self.has_answered {
            (self.has_answered, self.backoff) = (true, backoff());
        }
    }

    /// Whether it must be opened again.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.endpoint.is_none()
    }
}

pub(super) fn backoff() -> Backoff {
    Backoff::new(REOPEN_PAUSE_FIRST, REOPEN_PAUSE_MAX)
}

/// What a session needs of one attachment.
pub(super) struct Link {
    pub port: Box<dyn Port>,
    pub session: u32,
    pub buffers: Buffers,
    pub reader: EndpointId,
}

impl Link {
    /// Makes a port, connects the read endpoint, and reads the descriptor, which proves that keys and addresses
    /// are those of the life that was attached to.
    pub fn open(shared: &Shared, attached: &Attached, limit: Duration) -> Result<Self, Error> {
        let started = BootInstant::now();
        let session = attached.next_session();
        let writers = attached.terms.worker_count;
        let completions = READ_DEPTH + writers * 3 * attached.terms.credits;
        let mut port = attached.fabric.port(PortSpec { name: format!("session {session}"), completions })?;
        let reader = open_reader(&mut *port, shared, attached, session, limit).map_err(|e| e.into_error(shared.server()))?;
        let mut buffers = Buffers::new(Arc::clone(&attached.fabric));
        let left = limit.saturating_sub(BootInstant::now().since(started));
        check_descriptor(&mut *port, reader, &mut buffers, attached, left.min(FIRST_READ_LIMIT))?;
        Ok(Self { port, session, buffers, reader })
    }
}

fn check_descriptor(
    port: &mut dyn Port,
    reader: EndpointId,
    buffers: &mut Buffers,
    attached: &Attached,
    limit: Duration,
) -> Result<(), Error> {
    let first = Place { chunk: 0, unit: 0 };
    let from = attached.regions().at(first, 0, DESCRIPTOR_BYTES as u64);
    let from = from.ok_or_else(|| Error::Layout { reason: "chunk 0 is too short for a descriptor".into() })?;
    let mut buffer = buffers.take(DESCRIPTOR_BYTES)?;
    let id = WorkId(u64::MAX);
    let into = buffer.lend(0..DESCRIPTOR_BYTES, id);
    let mut chain = vec![WorkRequest { id, verb: Verb::Read { into, from } }];
    let failed = |what: String| Error::Layout { reason: format!("the first Read, of the store descriptor, {what}") };
    if let Err(error) = port.post(reader, &mut chain) {
        buffer.give_back(id);
        return Err(failed(error.to_string()));
    }
    let started = BootInstant::now();
    let mut completions = Vec::new();
    loop {
        port.poll(&mut completions);
        for completion in completions.drain(..) {
            if let Event::Done { id: done, status, .. } = completion.event
                && done == id
            {
                buffer.give_back(id);
                if !status.is_ok() {
                    return Err(failed(format!("failed: {status:?}")));
                }
                let line = buffer.bytes().first_chunk::<DESCRIPTOR_BYTES>();
                let line = line.ok_or_else(|| failed("is short".into()))?;
                return attached.terms.descriptor().check(line).map_err(|e| Error::Layout { reason: e.to_string() });
            }
        }
        let waited = BootInstant::now().since(started);
        if waited >= limit {
            port.close(reader);
            return Err(failed(format!("did not end within {limit:?}")));
        }
        port.sleep(limit.saturating_sub(waited).min(Duration::from_millis(100)))?;
    }
}

fn open_reader(
    port: &mut dyn Port,
    shared: &Shared,
    attached: &Attached,
    session: u32,
    limit: Duration,
) -> Result<EndpointId, ControlError> {
    let spec = EndpointSpec { role: Role::Reader, send_depth: READ_DEPTH, recv_depth: 0 };
    let wanted = Wanted { session, role: v1::open_endpoint_request::Role::Reader, worker: 0 };
    open_endpoint(port, shared, attached, &spec, wanted, limit).map(|(endpoint, _)| endpoint)
}

struct Wanted {
    session: u32,
    role: v1::open_endpoint_request::Role,
    worker: u32,
}

fn open_endpoint(
    port: &mut dyn Port,
    shared: &Shared,
    attached: &Attached,
    spec: &EndpointSpec,
    wanted: Wanted,
    limit: Duration,
) -> Result<(EndpointId, Option<RemoteRegion>), ControlError> {
    let started = BootInstant::now();
    let opened = port.open(spec)?;
    let request = v1::OpenEndpointRequest {
        client_id: attached.terms.client.to_bytes().to_vec(),
        incarnation: attached.terms.incarnation.0,
        session: wanted.session,
        role: wanted.role.into(),
        worker: wanted.worker,
        peer: convert::peer_to_wire(&opened.info),
    };
    let connected = shared.control.open_endpoint(limit, request).and_then(|reply| {
        let refuse = |reason: String| ControlError { failure: Failure::Refused, reason };
        let peer = convert::peer(reply.peer).map_err(|e| refuse(e.to_string()))?;
        let staging = reply.staging.map(UsedRegion::try_from).transpose().map_err(|e| refuse(e.to_string()))?;
        port.set_patience(limit.saturating_sub(BootInstant::now().since(started)));
        port.connect(opened.endpoint, &peer)?;
        Ok(staging.map(|s| s.region))
    });
    match connected {
        Ok(staging) => Ok((opened.endpoint, staging)),
        Err(error) => {
            port.close(opened.endpoint);
            Err(error)
        }
    }
}

impl Driver {
    /// Opens endpoints on the attachment to a server, within `limit`.
    ///
    /// # Errors
    /// When there is none, the server refuses, or the fabric is short of something.
    pub fn open(server: Arc<Server>, limit: Duration) -> Result<Self, Error> {
        let shared = Arc::clone(&server.shared);
        let started = BootInstant::now();
        if shared.gone().is_some() && !shared.wait_attached(limit) {
            return Err(shared.gone_error());
        }
        let left = limit.saturating_sub(BootInstant::now().since(started));
        let life = shared.life();
        let attached = shared.attached().ok_or_else(|| shared.gone_error())?;
        let Link { port, session, buffers, reader } = Link::open(&shared, &attached, left)?;
        let now = BootInstant::now();
        let epoch = attached.gate.current();
        Ok(Self {
            life,
            alive: true,
            move_at: now,
            session,
            waker: shared.remember_session(port.waker()),
            regions: attached.regions(),
            regions_epoch: epoch,
            record_bytes_max: attached.terms.record_bytes_max(),
            pinned: attached.gate.session(),
            cells: CellCache::default(),
            buffers,
            reader: Reader::connected(reader),
            writers: writers(&attached),
            queued: 0,
            room: port.room(reader),
            port,
            ops: Slab::default(),
            posted: Slab::default(),
            chain: Vec::new(),
            single: Vec::new(),
            unclocked: false,
            waiting: VecDeque::new(),
            asks: Vec::new(),
            events: VecDeque::new(),
            delayed: Vec::new(),
            restarts: Vec::new(),
            unlocks: Vec::new(),
            finished: VecDeque::new(),
            submitted: 0,
            deadlines_at: now,
            completions: Vec::new(),
            map_epoch: 0,
            emigrants: VecDeque::new(),
            patience: None,
            awaited: None,
            stats: shared.begin_stats(),
            attached,
            server,
        })
    }

    /// The read endpoint has failed: its work comes back as flushed, and is begun anew on the next one.
    pub(super) fn break_reader(&mut self) {
        let Some(endpoint) = self.reader.endpoint.take() else { return };
        self.port.close(endpoint);
        // Not at once if the last one has not brought a single answer: what broke it would break the next as well.
        if !std::mem::take(&mut self.reader.has_answered) {
            self.reader.open_at = BootInstant::now().plus(self.reader.backoff.pause());
        }
        self.room = 0;
        self.take_chain_back();
        self.server.shared.suspect();
    }

    /// Opens the read endpoint again, when it is time.
    #[cold]
    pub(super) fn mend_reader(&mut self) {
        let now = BootInstant::now();
        if now < self.reader.open_at {
            return;
        }
        let Some(limit) = self.may_block() else { return };
        match open_reader(&mut *self.port, &self.server.shared, &self.attached, self.session, limit) {
            Ok(endpoint) => {
                self.reader.endpoint = Some(endpoint);
                self.room = self.port.room(endpoint);
            }
            Err(error) => {
                tracing::debug!(reason = error.reason, "the read endpoint could not be opened again");
                self.suspect(&error);
                self.reader.open_at = BootInstant::now().plus(self.reader.backoff.pause());
            }
        }
    }

    /// Operations that waited for the read endpoint, or for the lease, begin anew.
    pub(super) fn restart_if_possible(&mut self) {
        if self.reader.endpoint.is_none() || !self.attached.lease.valid_at(BootInstant::now()) {
            return;
        }
        for name in std::mem::take(&mut self.restarts) {
            if let Some(op) = self.ops.find(name) {
                op.restart = false;
                let input = match op.wander.as_mut().and_then(|wander| wander.held_ack.take()) {
                    Some(ack) => {
                        op.request = None;
                        Input::Ack(ack)
                    }
                    None => Input::Restart,
                };
                self.events.push_back((name, input));
            }
        }
    }

    /// A write endpoint has failed; what is open on it will be resolved on the next one.
    pub(super) fn break_writer(&mut self, worker: usize) {
        let slot = &mut self.writers[worker];
        let Some(endpoint) = slot.endpoint.take() else { return };
        slot.staging = None;
        slot.broken = true;
        if !std::mem::take(&mut slot.has_answered) {
            slot.open_at = BootInstant::now().plus(slot.backoff.pause());
        }
        self.port.close(endpoint);
        self.server.shared.suspect();
    }

    /// Whether the write endpoint can be used; opens it if it is time.
    pub(super) fn mend_writer(&mut self, worker: usize) -> bool {
        if self.writers[worker].endpoint.is_some() {
            return true;
        }
        let now = BootInstant::now();
        if now < self.writers[worker].open_at || self.has_posted_requests(worker) {
            return false;
        }
        let Some(limit) = self.may_block() else { return false };
        let credits = self.attached.terms.credits;
        // A work request may end after its request was answered, so there can be more of them than credits.
        let spec = EndpointSpec { role: Role::Writer, send_depth: 2 * credits, recv_depth: credits };
        let wanted = Wanted { session: self.session, role: v1::open_endpoint_request::Role::Writer, worker: worker as u32 };
        let opened = open_endpoint(&mut *self.port, &self.server.shared, &self.attached, &spec, wanted, limit);
        let wanted_bytes = self.attached.terms.staging_bytes as u64;
        let slot = &mut self.writers[worker];
        match opened {
            Ok((endpoint, Some(staging))) if staging.bytes >= wanted_bytes => {
                (slot.endpoint, slot.staging) = (Some(endpoint), Some(staging));
                if std::mem::take(&mut slot.broken) {
                    self.resolve_open(worker);
                }
                self.writers[worker].endpoint.is_some()
            }
            Ok((endpoint, _)) => {
                tracing::warn!(worker, "the server told a staging ring that is shorter than agreed, or none");
                self.port.close(endpoint);
                slot.open_at = now.plus(slot.backoff.pause());
                false
            }
            Err(error) => {
                tracing::debug!(reason = error.reason, worker, "a write endpoint could not be opened");
                slot.open_at = BootInstant::now().plus(slot.backoff.pause());
                self.suspect(&error);
                false
            }
        }
    }

    /// The server could not be reached, or has said that it does not know this client any more.
    fn suspect(&self, error: &ControlError) {
        match error.failure {
            Failure::Lapsed => self.server.shared.lapsed(self.life),
            Failure::Unreachable | Failure::Refused => self.server.shared.suspect(),
        }
    }

    /// Whether work of a closed write endpoint has still to come back.
    fn has_posted_requests(&mut self, worker: usize) -> bool {
        let of = worker as u32;
        self.posted.keys().into_iter().any(|name| {
            let posted = self.posted.find(name).and_then(|p| p.as_ref());
            posted
                .is_some_and(|p| matches!(p.purpose, Purpose::Request { worker, .. } | Purpose::Pack { worker } if worker == of))
        })
    }

    /// Write endpoints with open writes are opened again even if nothing new is to be sent.
    pub(super) fn mend_writers(&mut self) {
        for worker in 0..self.writers.len() {
            if self.writers[worker].broken && self.writers[worker].books.open_count() > 0 {
                self.mend_writer(worker);
            }
        }
        self.ask_again();
    }
}

/// Writers that have sent nothing yet.
pub(super) fn writers(attached: &Attached) -> Vec<WriterSlot> {
    let slot = |_| WriterSlot {
        endpoint: None,
        staging: None,
        books: Writer::new(attached.terms.staging_bytes, attached.terms.credits),
        queue: SendQueue::default(),
        broken: false,
        open_at: BootInstant::from_nanos(0),
        ask_at: BootInstant::from_nanos(0),
        backoff: backoff(),
        has_answered: true,
    };
    (0..attached.terms.worker_count).map(slot).collect()
}

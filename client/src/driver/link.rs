//! Endpoints: opened, closed, opened again.

use super::Driver;
use super::lane::Lane;
use super::requests::WriterSlot;
use crate::attached::Attached;
use crate::control::{ControlError, Failure};
use crate::error::Error;
use crate::in_flight::SendQueue;
use crate::locate::CellCache;
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

/// Longest time that the first Read of a new connection may take.
const FIRST_READ_LIMIT: Duration = Duration::from_secs(3);

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

pub(super) fn open_reader(
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

pub(super) struct Wanted {
    pub session: u32,
    pub role: v1::open_endpoint_request::Role,
    pub worker: u32,
}

pub(super) fn open_endpoint(
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
            reader: Lane::connected(reader),
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
}

/// Writers that have sent nothing yet.
pub(super) fn writers(attached: &Attached) -> Vec<WriterSlot> {
    let slot = |_| WriterSlot {
        lane: Lane::closed(),
        staging: None,
        books: Writer::new(attached.terms.staging_bytes, attached.terms.credits),
        queue: SendQueue::default(),
        broken: false,
        ask_at: BootInstant::from_nanos(0),
    };
    (0..attached.terms.worker_count).map(slot).collect()
}

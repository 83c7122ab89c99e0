//! The loop of a worker.

use super::connection::{Connections, SessionKey};
use super::deferred::Deferrals;
use super::exactly_once::Window;
use super::expiry::Expiries;
use super::replica::Replication;
use super::reserve::Reservations;
use super::{Command, Memory};
use crate::fast_map::FastMap;
use crate::heap::{Heap, HeapError};
use crate::metrics::{WorkerMetrics, count};
use crate::refusals::Cause;
use crate::shard::Index;
use crate::store::{StartError, Store};
use crossbeam::channel::{Receiver, Sender};
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{Completion, EndpointId, Event, Port, PortSpec, Spin, Wake, Waker};
use sidewire_common::host;
use sidewire_common::id::ClientId;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::record::Version;
use sidewire_common::limits::MESSAGE_CREDITS;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep of an idle worker.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How long a stopping worker goes on finishing what it accepted.
const FINISH_MAX: Duration = Duration::from_secs(2);
/// Completions outstanding over all endpoints of a worker; rxe allows 32,767.
const COMPLETIONS_MAX: u32 = 32_000;
/// Atomics on cells that a worker has in flight.
pub(super) const LOOPBACK_DEPTH: u32 = MESSAGE_CREDITS;

/// A worker. Lives on its own thread.
pub(super) struct Worker {
    pub number: u32,
    pub store: Arc<Store>,
    pub port: Box<dyn Port>,
    /// The way to the executor of atomics; `None` from when it broke until it could be opened again.
    pub loopback: Option<EndpointId>,
    /// Not before this is it tried to open it again.
    pub loopback_at: BootInstant,
    pub memory: Memory,
    pub index: Index,
    pub heap: Heap,
    pub connections: Connections,
    pub windows: FastMap<SessionKey, Window>,
    pub deferrals: Deferrals,
    pub reservations: Reservations,
    pub expiries: Expiries,
    pub metrics: Arc<WorkerMetrics>,
    /// Endpoints with acks to send.
    pub acks_due: VecDeque<EndpointId>,
    /// Clients that are being expelled, told when nothing of theirs is left.
    pub expelling: Vec<(ClientId, Sender<()>)>,
    /// Fencing tokens of new locks begin above this.
    pub token_floor: u64,
    pub replication: Replication,
    pub scratch: Scratch,
    /// Offences of peers that the port told of and that were counted.
    pub offences: u64,
    inbox: Receiver<Command>,
    completions: Vec<Completion>,
    version: u64,
    next_work: u64,
    pub stopping: bool,
}

/// Buffers that are used again and again.
#[derive(Default)]
pub(super) struct Scratch {
    pub key: Vec<u8>,
    pub fence_key: Vec<u8>,
    pub value: Vec<u8>,
    pub image: Vec<u8>,
    pub ahead: Vec<KeyHash>,
}

impl Worker {
    pub(super) fn new(
        number: u32,
        store: Arc<Store>,
        inbox: Receiver<Command>,
        metrics: Arc<WorkerMetrics>,
    ) -> Result<Self, StartError> {
        let mut port = store.fabric().port(PortSpec { name: format!("worker-{number}"), completions: COMPLETIONS_MAX })?;
        let loopback = port.loopback(LOOPBACK_DEPTH)?;
        let mut memory = Memory::new(Arc::clone(store.pools()));
        let index = Index::new(&store, &mut memory, number).map_err(|error: HeapError| StartError::Setting {
            setting: "chunk",
            value: format!("{error:?}"),
            expected: "large enough for the first segment of each shard".into(),
        })?;
        metrics.thread.store(rustix::thread::gettid().as_raw_nonzero().get() as u64, Ordering::Relaxed);
        metrics.segments.store(index.figures().0 as i64, Ordering::Relaxed);
        Ok(Self {
            number,
            heap: Heap::new(Arc::clone(store.pools()), store.settings().worker_count),
            port,
            loopback: Some(loopback),
            loopback_at: BootInstant::now(),
            memory,
            index,
            connections: Connections::default(),
            windows: FastMap::default(),
            deferrals: Deferrals::default(),
            reservations: Reservations::default(),
            expiries: Expiries::default(),
            metrics,
            acks_due: VecDeque::new(),
            expelling: Vec::new(),
            token_floor: crate::cells::token_floor_now(),
            replication: Replication::default(),
            scratch: Scratch::default(),
            offences: 0,
            inbox,
            completions: Vec::new(),
            // Random, so that a version of an earlier life meets no condition in this one.
            version: u64::from(host::random::<u32>()) << 8,
            next_work: 1,
            stopping: false,
            store,
        })
    }

    pub(super) fn waker(&self) -> Waker {
        self.port.waker()
    }

    /// The next version: unique in the server, rising in each shard.
    pub(super) fn next_version(&mut self) -> Version {
        self.version += 1;
        let workers = u64::from(self.store.settings().worker_count);
        let reign = (self.store.incarnation().0 as u16 & 0x3fff).max(1);
        Version::new(reign, (self.version * workers + u64::from(self.number)) & ((1 << 48) - 1))
    }

    /// A version of another server: later ones of this one are above it.
    pub(super) fn version_seen(&mut self, version: Version) {
        let workers = u64::from(self.store.settings().worker_count);
        self.version = self.version.max(version.counter() / workers);
    }

    pub(super) fn next_work(&mut self) -> u64 {
        self.next_work += 1;
        self.next_work
    }

    pub(super) fn run(&mut self) {
        let mut spin = Spin::new(self.store.settings().spin);
        let mut finish_until: Option<BootInstant> = None;
        loop {
            let busy = self.turn();
            if self.stopping {
                let until = *finish_until.get_or_insert_with(|| BootInstant::now().plus(FINISH_MAX));
                let finished = !busy && self.deferrals.is_empty() && self.acks_due.is_empty() && self.replication.is_idle();
                if finished || BootInstant::now() >= until {
                    return;
                }
            }
            if busy {
                spin.busy();
            } else if spin.idle() {
                self.sleep();
                spin.busy();
            }
        }
    }

    /// One turn; false when there was nothing to do.
    fn turn(&mut self) -> bool {
        let mut busy = false;
        while let Ok(command) = self.inbox.try_recv() {
            self.obey(command);
            busy = true;
        }
        let mut completions = std::mem::take(&mut self.completions);
        busy |= self.port.poll(&mut completions) > 0;
        self.look_ahead(&completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        busy |= self.post_deferred();
        busy |= self.expire();
        self.end_reservations();
        busy |= self.replicate();
        self.send_acks();
        self.tell_expelled();
        busy
    }

    fn complete(&mut self, completion: Completion) {
        if let Event::Done { id, .. } = completion.event
            && self.entry_posted(id)
        {
            return;
        }
        if self.replication.is_link(completion.endpoint) {
            return match completion.event {
                Event::Message { slot } => self.link_message(completion.endpoint, slot),
                Event::Broken => self.link_broke(completion.endpoint),
                Event::Done { .. } | Event::Written { .. } => {}
            };
        }
        match completion.event {
            Event::Written { imm, bytes } => self.on_written(completion.endpoint, imm, bytes),
            // Of a loopback endpoint that was closed too: what was open on it comes back as flushed. Sends of acks have
            // ids of their own.
            Event::Done { id, status, old } => self.on_cell(id, status, old),
            // No client of ours sends messages here.
            Event::Message { .. } => self.violation(completion.endpoint, Cause::Message, "a message on a write endpoint"),
            Event::Broken if self.loopback == Some(completion.endpoint) => self.loopback_broke(),
            Event::Broken => self.broken(completion.endpoint),
        }
    }

    fn sleep(&mut self) {
        let until_expiry = self.expiries.next_in(self.store.clock_ms());
        let until_end = self.reservations.next_in(BootInstant::now());
        let timeout = until_expiry.unwrap_or(SLEEP_MAX).min(until_end.unwrap_or(SLEEP_MAX)).min(SLEEP_MAX);
        let timeout = timeout.min(self.replication_naps());
        match self.port.sleep(timeout) {
            Ok(Wake::TimedOut) => {}
            Ok(_) => count(&self.metrics.wakeups),
            Err(error) => {
                tracing::error!(%error, "a worker cannot sleep");
                host::sleep(Duration::from_millis(1));
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::OpenWriter { client, holder, session, peer, reply } => {
                let _ = reply.try_send(self.open_writer((client, session), holder, &peer));
            }
            Command::OpenReader { client, session, peer, reply } => {
                let _ = reply.try_send(self.open_reader((client, session), &peer));
            }
            Command::CloseSession { client, session, reply } => {
                self.close_session(client, session);
                let _ = reply.try_send(());
            }
            Command::Expel { client, reply } => self.expel(client, reply),
            Command::Scan { cursor, prefix, values, reply } => {
                let _ = reply.try_send(self.scan(cursor, &prefix, values));
            }
            Command::Map { map, me } => self.follow(map, me),
            Command::LinkAnswered { member, to_worker, endpoint, answer } => {
                self.link_answered((member, to_worker), endpoint, answer);
            }
            Command::OpenPeer { member, worker, peer, reply } => {
                let _ = reply.try_send(self.open_peer(member, worker, &peer));
            }
            Command::Resolve { client, session, sequence, shard, reply } => {
                let _ = reply.try_send(self.resolve_origin(client, session, sequence, shard));
            }
            Command::Stop => self.stopping = true,
        }
    }
}

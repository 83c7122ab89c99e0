//! A client: one process's attachments to one server or to the servers of a cluster.

use crate::address::Address;
use crate::admin::Admin;
use crate::async_client::AsyncClient;
use crate::attach::{self, Wishes};
use crate::cluster::{Manner, Members};
use crate::control::{Background, Control, Plane};
use crate::error::Error;
use crate::server::{Server, end_all};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::{AllStats, ClientStats};
use parking_lot::Mutex;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_common::fabric::{AtomicExecutor, FabricKind};
use sidewire_common::id::Incarnation;
use sidewire_common::limits::DEADLINE_MS_DEFAULT;
use sidewire_proto::cluster_map;
use std::sync::Arc;
use std::time::Duration;

/// Entries of the location cache unless set otherwise.
const LOCATION_CACHE_ENTRIES_DEFAULT: usize = 1 << 21;
/// How long a call polls before it sleeps, unless set otherwise.
const SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// How long detaching may take, if the deadline is longer.
const DETACH_LIMIT: Duration = Duration::from_secs(2);

/// Pause between two looks at whether a heartbeat was answered.
const BEAT_PAUSE: Duration = Duration::from_micros(200);

/// What a client is attached to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// The server's address.
    pub server: String,
    /// The fabric in use.
    pub fabric: FabricKind,
    /// This end's device; empty on `shm`.
    pub device: String,
    /// This end's GID; empty on `shm`.
    pub gid: String,
    /// Its place in the device's table.
    pub gid_index: u32,
    /// Reads and atomics that this end can have in flight towards a peer.
    pub read_depth: u32,
    /// Active path MTU, bytes; 0 on `shm`.
    pub mtu_bytes: u32,
    /// Who executes atomics.
    pub atomics: AtomicExecutor,
    /// The server's life.
    pub incarnation: Incarnation,
    /// The lease.
    pub lease: Duration,
    /// This client's number in lock words.
    pub holder_id: u32,
    /// Workers of the server.
    pub worker_count: u32,
    /// Longest value that the server takes.
    pub value_bytes_max: u64,
    /// Layout epoch reached.
    pub epoch: u64,
}

/// How a client is made.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    pub(crate) servers: Vec<String>,
    pub(crate) deadline: Duration,
    pub(crate) fabric: Option<FabricKind>,
    pub(crate) device: Option<String>,
    pub(crate) program: Option<String>,
    pub(crate) location_cache_entries: usize,
    pub(crate) spin: Duration,
    pub(crate) packs: bool,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            deadline: Duration::from_millis(DEADLINE_MS_DEFAULT),
            fabric: None,
            device: None,
            program: None,
            location_cache_entries: LOCATION_CACHE_ENTRIES_DEFAULT,
            spin: SPIN_DEFAULT,
            packs: true,
        }
    }
}

impl ClientBuilder {
    /// The server: `host:port` or `kv://host:port`; several, with commas between them, as by
    /// [`servers`](Self::servers).
    #[must_use]
    pub fn server(self, address: impl AsRef<str>) -> Self {
        self.servers(address.as_ref().split(','))
    }

    /// Servers, of which the first that answers is asked.
    #[must_use]
    pub fn servers<S: AsRef<str>>(mut self, addresses: impl IntoIterator<Item = S>) -> Self {
        self.servers = addresses.into_iter().map(|address| address.as_ref().trim().to_owned()).collect();
        self
    }

    /// Deadline of every call, 5 s unless set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Refuse any other fabric than this one; `None` takes what the server runs.
    #[must_use]
    pub fn fabric(mut self, fabric: Option<FabricKind>) -> Self {
        self.fabric = fabric;
        self
    }

    /// The RDMA device to use; the one that carries the address towards the server unless set.
    #[must_use]
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.device = Some(device.into());
        self
    }

    /// The name under which the server's operator sees this client; the executable's unless set.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Entries of the cache of locations, rounded up to a power of two; 0 turns it off.
    #[must_use]
    pub fn location_cache_entries(mut self, entries: usize) -> Self {
        self.location_cache_entries = entries;
        self
    }

    /// How long a call polls before it sleeps, 50 µs unless set.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// Whether writes that wait together share a message, which they do unless told not to. Submitted ones then go out
    /// with the next `poll` or `wait`; without, each at once in a message of its own.
    #[must_use]
    pub fn pack_writes(mut self, packs: bool) -> Self {
        self.packs = packs;
        self
    }

    /// Attaches.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses, or runs a fabric that cannot be had here.
    pub fn connect(self) -> Result<Client, Error> {
        self.connect_over(Plane::start()?)
    }

    /// Attaches over these control planes.
    pub(crate) fn connect_over(self, plane: Plane) -> Result<Client, Error> {
        let controls = self.servers.iter().map(|server| plane.server(Address::parse(server)?));
        let controls = controls.collect::<Result<Vec<_>, Error>>()?;
        let program = self.program.unwrap_or_else(executable_name);
        let wishes =
            Wishes { fabric: self.fabric, device: self.device, program, location_cache_entries: self.location_cache_entries };
        let manner = Manner { plane, wishes, deadline: self.deadline, spin: self.spin, packs: self.packs, stats: Arc::default() };
        let started = BootInstant::now();
        let left = || self.deadline.saturating_sub(BootInstant::now().since(started));
        let mut last = Error::Address { address: String::new(), reason: "no server was named".into() };
        let mut untried = controls.len() as u32;
        for control in &controls {
            // One that does not answer leaves time for the others.
            let limit = left() / untried;
            untried -= 1;
            let begun = match control.map(limit) {
                Ok(None) => alone(control.clone(), &manner, limit).map(Reach::Alone),
                Ok(Some(told)) => {
                    let wrong = |e| Error::Layout { reason: format!("the map of the cluster: {e}") };
                    let map = cluster_map::from_wire(told).map_err(wrong)?;
                    cluster(map, &manner, &controls, control, left()).map(Reach::Cluster)
                }
                Err(error) => Err(error.into_error(control.name())),
            };
            match begun {
                Ok(reach) => match Client::of(reach, manner.clone()) {
                    Some(client) => return Ok(client),
                    None => last = Error::LeaseLapsed,
                },
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Attaches to a server that runs alone.
fn alone(control: Control, manner: &Manner, limit: Duration) -> Result<Arc<Server>, Error> {
    let started = BootInstant::now();
    let attached = attach::attach(&control, &manner.wishes, None, limit)?;
    let shared = Arc::new(Shared::new(control, manner, Some(attached), None));
    Server::begin(shared, limit.saturating_sub(BootInstant::now().since(started)))
}

/// Attaches to the first member that can be had: the one that told the map before all others.
fn cluster(
    map: ClusterMap,
    manner: &Manner,
    seeds: &[Control],
    told_by: &Control,
    limit: Duration,
) -> Result<Arc<Members>, Error> {
    let started = BootInstant::now();
    let mut ids: Vec<MemberId> = map.members.keys().copied().collect();
    ids.sort_by_key(|id| map.members[id].address != told_by.name());
    let mut last = Error::Control { server: told_by.name().into(), reason: "the cluster has no members yet".into() };
    let members = Members::new(map, manner.clone(), seeds.to_vec());
    let mut untried = ids.len() as u32;
    for id in ids {
        let left = limit.saturating_sub(BootInstant::now().since(started)) / untried;
        untried -= 1;
        let membership = members.membership(id);
        let joined = members.control(id).and_then(|control| attach::attach(&control, &manner.wishes, membership.as_ref(), left));
        match joined.and_then(|attached| members.joined(id, attached, left)) {
            Ok(()) => {
                manner.plane.watch(Arc::downgrade(&members));
                return Ok(members);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn executable_name() -> String {
    let path = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = path.as_deref().and_then(std::path::Path::file_name);
    name.map_or_else(|| "unknown".into(), |n| n.to_string_lossy().into_owned())
}

/// What a client reaches.
pub(crate) enum Reach {
    /// A server that runs alone.
    Alone(Arc<Server>),
    /// The members of a cluster.
    Cluster(Arc<Members>),
}

/// The attachments' owner: when the last handle or session is gone, the client detaches.
pub(crate) struct Inner {
    pub reach: Reach,
    pub deadline: Duration,
    pub spin: Duration,
    pub stats: Arc<AllStats>,
    plane: Plane,
    /// What was attached to when that was last asked: all members may have left the map since.
    last: Mutex<Attachment>,
}

impl Inner {
    /// The servers that are in use.
    fn servers(&self) -> Vec<Arc<Server>> {
        match &self.reach {
            Reach::Alone(server) => vec![Arc::clone(server)],
            Reach::Cluster(members) => members.all(),
        }
    }

    /// The server alone, or the first member that is attached, else the first that ever was.
    fn first(&self) -> Option<Arc<Server>> {
        let servers = self.servers();
        let attached = servers.iter().find(|server| server.shared.is_attached());
        attached.or_else(|| servers.iter().find(|server| server.shared.attached().is_some())).cloned()
    }

    /// Runtime of the control planes, for work in the background.
    pub fn runtime(&self) -> &Arc<Background> {
        self.plane.runtime()
    }

    /// Its servers' addresses, for people.
    pub fn name(&self) -> String {
        self.servers().iter().map(|server| server.shared.server().to_owned()).collect::<Vec<_>>().join(",")
    }

    /// Ends the heartbeats and detaches, once.
    fn end(&self) -> Result<(), Error> {
        if let Reach::Cluster(members) = &self.reach {
            members.stop();
        }
        end_all(&self.servers(), DETACH_LIMIT.min(self.deadline))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::debug!(%error, "could not detach; the server sweeps when the lease runs out");
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

/// One process's attachments to a server, or to the servers of a cluster; its clones share them.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

impl Client {
    /// Attaches to the first server of `servers` that answers, and to its cluster if it is in one.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`], of the last one tried.
    pub fn connect<S: AsRef<str>>(servers: &[S]) -> Result<Self, Error> {
        Self::builder().servers(servers).connect()
    }

    /// `None` when the attachment has ended already.
    fn of(reach: Reach, manner: Manner) -> Option<Self> {
        let Manner { plane, deadline, spin, stats, .. } = manner;
        let last = match &reach {
            Reach::Alone(server) => attachment(server),
            Reach::Cluster(members) => members.all().iter().find_map(|server| attachment(server)),
        };
        Some(Self { inner: Arc::new(Inner { reach, deadline, spin, stats, plane, last: Mutex::new(last?) }) })
    }

    /// A client to be configured.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Opens endpoints for the calling thread.
    ///
    /// # Errors
    /// When the server refuses, or the fabric is short of something.
    pub fn session(&self) -> Result<Session, Error> {
        Session::open(Arc::clone(&self.inner))
    }

    /// A handle for asynchronous code, with a thread of its own behind it.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    pub fn async_client(&self) -> Result<AsyncClient, Error> {
        AsyncClient::start(Arc::clone(&self.inner))
    }

    /// Sums over all sessions, ended ones included.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.inner.stats.sum()
    }

    /// What the client is attached to: the server, or the first member of the cluster. What it was attached to last,
    /// when that is none now.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        let mut last = self.inner.last.lock();
        if let Some(now) = self.inner.first().and_then(|server| attachment(&server)) {
            *last = now;
        }
        last.clone()
    }

    /// What the client is attached to by now: each member of the cluster that somebody has needed.
    #[must_use]
    pub fn attachments(&self) -> Vec<Attachment> {
        self.inner.servers().iter().filter(|server| server.shared.is_attached()).filter_map(|server| attachment(server)).collect()
    }

    /// The epoch of the cluster's map by which operations begin now; `None` when the server runs alone.
    #[must_use]
    pub fn map_epoch(&self) -> Option<u32> {
        match &self.inner.reach {
            Reach::Alone(_) => None,
            Reach::Cluster(members) => Some(members.map.epoch()),
        }
    }

    /// Has a heartbeat sent, and waits until one is answered: at most `limit`.
    ///
    /// # Errors
    /// [`Error::Deadline`] when none is.
    pub fn beat(&self, limit: Duration) -> Result<(), Error> {
        let started = BootInstant::now();
        if let Some(server) = self.inner.first() {
            let before = server.shared.beats_answered();
            server.shared.suspect();
            while BootInstant::now().since(started) < limit {
                if server.shared.beats_answered() > before {
                    return Ok(());
                }
                sidewire_common::host::sleep(BEAT_PAUSE);
            }
        }
        let seen = "no heartbeat was answered".into();
        Err(Error::Deadline { operation: "heartbeat", after: limit, seen })
    }

    /// The administration of the server, or of the first member of the cluster, with this client's deadline.
    #[must_use]
    pub fn admin(&self) -> Admin {
        let control = match &self.inner.reach {
            Reach::Alone(server) => server.shared.control.clone(),
            Reach::Cluster(members) => {
                let first = self.inner.first().map(|server| server.shared.control.clone());
                first.unwrap_or_else(|| members.seed())
            }
        };
        Admin::of(control, self.inner.deadline)
    }

    /// Gives back all that the client holds at the server. Dropping the last clone does the same, best effort.
    ///
    /// # Errors
    /// When the server does not answer; its sweep then does it when the lease runs out.
    pub fn detach(self) -> Result<(), Error> {
        self.inner.end()
    }
}

fn attachment(server: &Server) -> Option<Attachment> {
    let attached = server.shared.attached()?;
    let (terms, info) = (&attached.terms, attached.fabric.info());
    Some(Attachment {
        server: server.shared.server().into(),
        fabric: info.kind,
        device: info.device.clone(),
        gid: info.gid.clone(),
        gid_index: info.gid_index,
        read_depth: info.read_depth,
        mtu_bytes: info.mtu_bytes,
        atomics: terms.atomics,
        incarnation: terms.incarnation,
        lease: terms.lease,
        holder_id: terms.holder_id,
        worker_count: terms.worker_count,
        value_bytes_max: terms.value_bytes_max as u64,
        epoch: attached.gate.current(),
    })
}

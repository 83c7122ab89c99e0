//! A client: one process's attachment to one server.

use crate::address::Address;
use crate::admin::Admin;
use crate::async_client::AsyncClient;
use crate::attach::{self, Wishes};
use crate::control::Plane;
use crate::error::Error;
use crate::heartbeat::{self, Heartbeat};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::ClientStats;
use parking_lot::Mutex;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{AtomicExecutor, FabricKind};
use sidewire_common::id::Incarnation;
use sidewire_common::limits::DEADLINE_MS_DEFAULT;
use sidewire_proto::v1;
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
        let started = BootInstant::now();
        let mut last = Error::Address { address: String::new(), reason: "no server was named".into() };
        let mut untried = controls.len() as u32;
        for control in controls {
            // One that does not answer leaves time for the others.
            let limit = self.deadline.saturating_sub(BootInstant::now().since(started)) / untried;
            untried -= 1;
            match attach::attach(&control, &wishes, limit) {
                Ok(attached) => {
                    let shared = Arc::new(Shared::new(control, wishes, self.deadline, self.spin, Arc::new(attached)));
                    return Client::begin(shared, self.deadline.saturating_sub(BootInstant::now().since(started)));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn executable_name() -> String {
    let path = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = path.as_deref().and_then(std::path::Path::file_name);
    name.map_or_else(|| "unknown".into(), |n| n.to_string_lossy().into_owned())
}

/// The attachment's owner: when the last handle or session is gone, the client detaches.
#[derive(Debug)]
pub(crate) struct Inner {
    pub shared: Arc<Shared>,
    heartbeat: Mutex<Option<Heartbeat>>,
}

impl Inner {
    /// Ends the heartbeat and detaches, once.
    fn end(&self) -> Result<(), Error> {
        let Some(heartbeat) = self.heartbeat.lock().take() else { return Ok(()) };
        let started = BootInstant::now();
        let limit = DETACH_LIMIT.min(self.shared.deadline);
        self.shared.stop();
        let attached = self.shared.attached();
        // Before the heartbeat's endpoint goes: the server takes a farewell for what it is.
        let detached = if attached.has_ended() {
            Ok(())
        } else {
            let (client_id, incarnation) = (attached.terms.client.to_bytes().to_vec(), attached.terms.incarnation.0);
            let request = v1::DetachRequest { client_id, incarnation };
            self.shared.control.detach(limit, request).map_err(|e| e.into_error(self.shared.server()))
        };
        self.shared.ended("the client has detached");
        self.shared.wake_heartbeat();
        heartbeat.end(limit.saturating_sub(BootInstant::now().since(started)));
        detached
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::debug!(%error, "could not detach; the server sweeps when the lease runs out");
        }
    }
}

/// One process's attachment to one server; its clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

impl Client {
    /// Attaches to the first server of `servers` that answers.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`], of the last one tried.
    pub fn connect<S: AsRef<str>>(servers: &[S]) -> Result<Self, Error> {
        Self::builder().servers(servers).connect()
    }

    /// Starts the heartbeat of an attachment.
    pub(crate) fn begin(shared: Arc<Shared>, limit: Duration) -> Result<Self, Error> {
        let inner = Arc::new(Inner { shared: Arc::clone(&shared), heartbeat: Mutex::new(None) });
        let heartbeat = heartbeat::start(shared, limit)?;
        *inner.heartbeat.lock() = Some(heartbeat);
        Ok(Self { inner })
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
        self.inner.shared.stats.sum()
    }

    /// What the client is attached to.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        let attached = self.inner.shared.attached();
        let (terms, info) = (&attached.terms, attached.fabric.info());
        Attachment {
            server: self.inner.shared.server().into(),
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
        }
    }

    /// Has a heartbeat sent, and waits until one is answered: at most `limit`.
    ///
    /// # Errors
    /// [`Error::Deadline`] when none is.
    pub fn beat(&self, limit: Duration) -> Result<(), Error> {
        let shared = &self.inner.shared;
        let started = BootInstant::now();
        let before = shared.beats_answered();
        shared.suspect();
        while BootInstant::now().since(started) < limit {
            if shared.beats_answered() > before {
                return Ok(());
            }
            sidewire_common::host::sleep(BEAT_PAUSE);
        }
        let seen = "no heartbeat was answered".into();
        Err(Error::Deadline { operation: "heartbeat", after: limit, seen })
    }

    /// The server's administration, with this client's deadline.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::of(self.inner.shared.control.clone(), self.inner.shared.deadline)
    }

    /// Gives back all that the client holds at the server. Dropping the last clone does the same, best effort.
    ///
    /// # Errors
    /// When the server does not answer; its sweep then does it when the lease runs out.
    pub fn detach(self) -> Result<(), Error> {
        self.inner.end()
    }
}

//! The server's side: it owns all memory and lends it out.

use super::bell::Sleeper;
use super::core::Core;
use super::door::Door;
use super::endpoint::{Endpoint, Posts, State};
use super::guest::GuestSide;
use super::handing::reopen_read_only;
use super::lanes::Lanes;
use super::ledger::{Handover, Ledger};
use super::port::{ShmPort, Side};
use super::shape::{RING_ENTRIES_MAX, SLEEPER, Shape};
use super::table::{STAGING_BIT, Table};
use super::wire::Welcome;
use super::{FabricError, call_failed, handshake, info, unsupported};
use crate::fabric::{
    Access, EndpointId, EndpointSpec, Fabric, FabricInfo, Opened, PeerInfo, Port, PortSpec, Registered, RemoteAddr, RemoteRegion,
    Role, ShmTicket, Staging,
};
use crate::id::ClientId;
use crate::limits::STAGING_BYTES_MAX;
use crate::memory::{HugepageMode, Mapping, PAGE_BYTES, PageKind, Seals, View};
use rustix::fs::SealFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The server's side.
pub struct Host {
    info: FabricInfo,
    shared: Arc<Shared>,
    door: Door,
}

/// What its ports need of it.
struct Shared {
    table: Arc<Table>,
    ledger: Arc<Ledger>,
    door: String,
    stagings: AtomicU32,
}

/// Ends a registration.
struct Registration {
    table: Arc<Table>,
    rkey: u32,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.table.end(self.rkey);
    }
}

impl Host {
    /// Starts it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start() -> Result<Self, FabricError> {
        let (table, ledger) = (Arc::new(Table::new()), Arc::new(Ledger::default()));
        let door = Door::open(Arc::clone(&ledger), Arc::clone(&table))?;
        let shared = Shared { table, ledger, door: door.name().to_owned(), stagings: AtomicU32::new(0) };
        Ok(Self { info: info(), shared: Arc::new(shared), door })
    }
}

impl Fabric for Host {
    fn info(&self) -> &FabricInfo {
        &self.info
    }

    /// The end of a registration ends what can be asked for; who has mapped the region already keeps it.
    fn register(&self, map: &Arc<Mapping>, access: Access) -> Result<Registered, FabricError> {
        let bytes = map.len() as u64;
        if access == Access::Local {
            let remote = RemoteRegion { base: RemoteAddr { addr: 0, rkey: 0 }, bytes, atomic: false };
            return Ok(Registered::new(remote, 0, Arc::clone(map) as _));
        }
        let atomic = access == Access::RemoteReadAtomic;
        check_seals(map, atomic)?;
        let rkey = self.shared.table.add(View::whole(Arc::clone(map)), atomic)?;
        let registration = Registration { table: Arc::clone(&self.shared.table), rkey };
        let remote = RemoteRegion { base: RemoteAddr { addr: 0, rkey }, bytes, atomic };
        Ok(Registered::new(remote, rkey, Arc::new(registration)))
    }

    fn port(&self, spec: PortSpec) -> Result<Box<dyn Port>, FabricError> {
        let mut page = Mapping::memfd("sleeper", PAGE_BYTES, HugepageMode::Off, Seals::ReadOnly)?;
        let page_fd = take_read_only(&mut page)?;
        let mut core = Core::new(spec, Arc::clone(&self.shared.table))?;
        core.sleeper = Some(Sleeper::new(within(View::whole(Arc::new(page)).part(SLEEPER))?));
        Ok(Box::new(ShmPort { core, side: HostSide { shared: Arc::clone(&self.shared), page_fd } }))
    }

    fn admit(&self, client: ClientId) -> Result<PeerInfo, FabricError> {
        let token = self.shared.ledger.admit(client);
        Ok(PeerInfo::Shm(ShmTicket { socket: self.door.name().to_owned(), token }))
    }

    fn dismiss(&self, client: ClientId) {
        self.shared.ledger.dismiss(client);
    }

    fn departed(&self) -> Vec<ClientId> {
        self.shared.ledger.departed()
    }

    fn link(&self, _: &PeerInfo) -> Result<(), FabricError> {
        Err(unsupported("a link on the server's side"))
    }

    fn link_alive(&self) -> bool {
        true
    }

    fn adopt(&self, _: &[RemoteRegion]) -> Result<(), FabricError> {
        Err(unsupported("regions of others on the server's side"))
    }
}

/// Rights are seals here: without them a region must not leave the process.
fn check_seals(map: &Mapping, atomic: bool) -> Result<(), FabricError> {
    let file = map.file().ok_or_else(|| unsupported("peers' access to private memory"))?;
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|e| call_failed("F_GET_SEALS", e))?;
    let mut needed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    if !atomic {
        needed |= SealFlags::FUTURE_WRITE;
    }
    if !seals.contains(needed) {
        return Err(unsupported(format!("a region sealed {seals:?} where {needed:?} is needed")));
    }
    if atomic && map.pages() != PageKind::Normal {
        return Err(unsupported("atomics on hugepages: a client could punch them out"));
    }
    Ok(())
}

/// The views of this module's own mappings are as long as their shapes say.
fn within<T>(part: Result<T, crate::memory::OutOfView>) -> Result<T, FabricError> {
    part.map_err(|out| unsupported(out.to_string()))
}

/// A descriptor to hand out; the mapping itself needs none any more.
fn take_read_only(map: &mut Mapping) -> Result<OwnedFd, FabricError> {
    let file = map.take_file().ok_or_else(|| unsupported("memory without a descriptor"))?;
    reopen_read_only(file.as_fd()).map_err(|e| call_failed("reopening a memfd through /proc/self/fd", e))
}

/// A host port's own part.
struct HostSide {
    shared: Arc<Shared>,
    page_fd: OwnedFd,
}

/// What the role is called in a welcome.
pub(super) fn role_code(role: &Role) -> u32 {
    match role {
        Role::Reader | Role::ReadTarget => 1,
        Role::Writer | Role::WriteTarget { .. } => 2,
        Role::Beat => 3,
    }
}

fn ring(what: &'static str, depth: u32) -> Result<u32, FabricError> {
    if depth > RING_ENTRIES_MAX {
        return Err(FabricError::Limit { what, asked: u64::from(depth), limit: u64::from(RING_ENTRIES_MAX) });
    }
    Ok(depth.max(1).next_power_of_two())
}

fn shape_of(spec: &EndpointSpec) -> Result<Shape, FabricError> {
    match spec.role {
        Role::ReadTarget => Ok(Shape::default()),
        Role::WriteTarget { staging_bytes } => {
            if staging_bytes == 0 || staging_bytes > STAGING_BYTES_MAX {
                let (asked, limit) = (staging_bytes as u64, STAGING_BYTES_MAX as u64);
                return Err(FabricError::Limit { what: "bytes of a staging ring", asked, limit });
            }
            let (immediates, down) = (ring("receive depth", spec.recv_depth)?, ring("send depth", spec.send_depth)?);
            Ok(Shape { immediates, up: 0, down, staging_bytes: staging_bytes as u32 })
        }
        Role::Beat => {
            let (up, down) = (ring("receive depth", spec.recv_depth)?, ring("send depth", spec.send_depth)?);
            Ok(Shape { immediates: 0, up, down, staging_bytes: 0 })
        }
        Role::Reader | Role::Writer => Err(unsupported("a client's role on the server's side")),
    }
}

impl HostSide {
    /// Makes A and B, keeps them mapped, and adds their descriptors to the hand-over.
    fn lend(&self, shape: &Shape, rkey: u32, handover: &mut Handover) -> Result<(Lanes, Option<Staging>), FabricError> {
        let mut client = Mapping::memfd("endpoint-a", shape.client_bytes(), HugepageMode::Off, Seals::Shared)?;
        let mut server = Mapping::memfd("endpoint-b", shape.server_bytes(), HugepageMode::Off, Seals::ReadOnly)?;
        handover.fds.push(client.take_file().ok_or_else(|| unsupported("memory without a descriptor"))?);
        handover.fds.push(take_read_only(&mut server)?);
        handover.fds.push(self.page_fd.try_clone().map_err(|e| call_failed("dup", e))?);
        let (client, server) = (View::whole(Arc::new(client)), View::whole(Arc::new(server)));
        let lanes = within(Lanes::server(shape, &client, &server))?;
        if shape.staging_bytes == 0 {
            return Ok((lanes, None));
        }
        let bytes = u64::from(shape.staging_bytes);
        let remote = RemoteRegion { base: RemoteAddr { addr: 0, rkey }, bytes, atomic: false };
        Ok((lanes, Some(Staging { view: within(client.part(shape.staging()))?, remote })))
    }
}

impl Side for HostSide {
    fn open(&self, core: &mut Core, spec: &EndpointSpec) -> Result<Opened, FabricError> {
        if spec.role == Role::Writer {
            // Servers write to each other: towards its backup a primary is a guest.
            return GuestSide.open(core, spec);
        }
        let shape = shape_of(spec)?;
        let mut endpoint = core.vacancy(Posts::of(&spec.role), spec.send_depth, spec.recv_depth)?;
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|e| call_failed("socketpair", e))?;
        let staging_rkey = STAGING_BIT | self.shared.stagings.fetch_add(1, Ordering::Relaxed);
        let welcome = Welcome { role: role_code(&spec.role), staging_rkey, shape };
        let mut handover = Handover { welcome, fds: vec![theirs] };
        let mut staging = None;
        if spec.role != Role::ReadTarget {
            let (lanes, its_staging) = self.lend(&shape, staging_rkey, &mut handover)?;
            (endpoint.lanes, staging) = (Some(lanes), its_staging);
        }
        let invitation = self.shared.ledger.invite(handover);
        let info = PeerInfo::Shm(ShmTicket { socket: self.shared.door.clone(), token: invitation.token });
        (endpoint.socket, endpoint.invitation) = (Some(ours), Some(invitation));
        let id = endpoint.id;
        core.insert(endpoint)?;
        Ok(Opened { endpoint: id, info, staging })
    }

    fn connect(&self, core: &mut Core, id: EndpointId, peer: &PeerInfo) -> Result<(), FabricError> {
        if core.peek(id).is_some_and(|endpoint| endpoint.posts == Posts::Writes) {
            return GuestSide.connect(core, id, peer);
        }
        if *peer != PeerInfo::Unneeded {
            let expected = "nothing: a client of shm comes by its ticket".into();
            return Err(FabricError::Peer { field: "information", value: format!("{peer:?}"), expected });
        }
        match core.endpoint(id) {
            Some(endpoint) if endpoint.state == State::Opened => {
                endpoint.state = State::Ready;
                Ok(())
            }
            _ => Err(handshake("the endpoint is unknown, connected already, or has failed")),
        }
    }

    fn loopback(&self, core: &mut Core, send_depth: u32) -> Result<EndpointId, FabricError> {
        let mut endpoint: Endpoint = core.vacancy(Posts::OneSided, send_depth, 0)?;
        endpoint.state = State::Ready;
        let id = endpoint.id;
        core.insert(endpoint)?;
        Ok(id)
    }
}

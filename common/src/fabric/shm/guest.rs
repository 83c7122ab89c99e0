//! The client's side: it maps what a server lends, and unmaps it when the server is gone.

use super::core::Core;
use super::dial::{PATIENCE, ask, dial, ticket};
use super::endpoint::{Posts, State};
use super::host::role_code;
use super::lanes::Lanes;
use super::port::{ShmPort, Side};
use super::shape::Shape;
use super::table::{STAGING_BIT, Table};
use super::wire::{ToDoor, Welcome};
use super::{FabricError, call_failed, handshake, info, unsupported};
use crate::fabric::{
    Access, EndpointId, EndpointSpec, Fabric, FabricInfo, Opened, PeerInfo, Port, PortSpec, Registered, RemoteAddr, RemoteRegion,
    Role,
};
use crate::id::ClientId;
use crate::memory::{Mapping, PAGE_BYTES, View};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The client's side.
pub struct Guest {
    info: FabricInfo,
    table: Arc<Table>,
    link: Mutex<Option<Link>>,
    patience: Mutex<Duration>,
}

impl Default for Guest {
    fn default() -> Self {
        Self::new()
    }
}

impl Guest {
    /// A guest of nobody yet.
    #[must_use]
    pub fn new() -> Self {
        Self { info: info(), table: Arc::new(Table::new()), link: Mutex::new(None), patience: Mutex::new(PATIENCE) }
    }
}

/// The standing connection to a server's door. A thread waits for its end and unmaps what came through it.
struct Link {
    socket: Arc<OwnedFd>,
    alive: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl Link {
    fn new(socket: OwnedFd, table: &Arc<Table>) -> Result<Self, FabricError> {
        let (socket, alive) = (Arc::new(socket), Arc::new(AtomicBool::new(true)));
        let (watched, flag, table) = (Arc::clone(&socket), Arc::clone(&alive), Arc::clone(table));
        let watch = move || {
            // Hang-ups are reported whether asked for or not; readable answers are not of interest here.
            let mut fds = [PollFd::new(&*watched, PollFlags::RDHUP)];
            while poll(&mut fds, None).is_err() || fds[0].revents().is_empty() {}
            flag.store(false, Ordering::SeqCst);
            table.clear();
        };
        let watcher = std::thread::Builder::new().name("sidewire-link".into()).spawn(watch);
        Ok(Self { socket, alive, watcher: Some(watcher.map_err(|e| call_failed("starting a thread", e))?) })
    }

    fn hang_up(&self) {
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.hang_up();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl Fabric for Guest {
    fn info(&self) -> &FabricInfo {
        &self.info
    }

    fn register(&self, map: &Arc<Mapping>, access: Access) -> Result<Registered, FabricError> {
        if access != Access::Local {
            return Err(unsupported("regions of a client that others reach"));
        }
        let remote = RemoteRegion { base: RemoteAddr { addr: 0, rkey: 0 }, bytes: map.len() as u64, atomic: false };
        Ok(Registered::new(remote, 0, Arc::clone(map) as _))
    }

    fn port(&self, spec: PortSpec) -> Result<Box<dyn Port>, FabricError> {
        Ok(Box::new(ShmPort { core: Core::new(spec, Arc::clone(&self.table))?, side: GuestSide }))
    }

    fn admit(&self, _: ClientId) -> Result<PeerInfo, FabricError> {
        Err(unsupported("admission on the client's side"))
    }

    fn dismiss(&self, _: ClientId) {}

    fn departed(&self) -> Vec<ClientId> {
        Vec::new()
    }

    fn link(&self, invitation: &PeerInfo) -> Result<(), FabricError> {
        let ticket = ticket(invitation)?;
        let (socket, welcome, fds) = dial(&ticket.socket, ToDoor::Link(ticket.token), *self.patience.lock())?;
        if welcome != Welcome::default() || !fds.is_empty() {
            return Err(handshake("the server welcomed something else than a link"));
        }
        let mut link = self.link.lock();
        // The old one first: its watcher clears the table.
        *link = None;
        *link = Some(Link::new(socket, &self.table)?);
        Ok(())
    }

    fn set_patience(&self, limit: Duration) {
        *self.patience.lock() = limit.min(PATIENCE);
    }

    fn link_alive(&self) -> bool {
        self.link.lock().as_ref().is_some_and(Link::is_alive)
    }

    fn adopt(&self, regions: &[RemoteRegion]) -> Result<(), FabricError> {
        let link = self.link.lock();
        let link = link.as_ref().ok_or_else(|| handshake("there is no link to a server"))?;
        let until = Instant::now() + *self.patience.lock();
        for region in regions {
            self.adopt_one(link, region, until)?;
        }
        // The watcher may have cleared the table before the last of them was entered.
        if !link.is_alive() {
            self.table.clear();
            return Err(handshake("the link has hung up"));
        }
        Ok(())
    }
}

impl Guest {
    fn adopt_one(&self, link: &Link, region: &RemoteRegion, until: Instant) -> Result<(), FabricError> {
        let RemoteRegion { base: RemoteAddr { addr, rkey }, bytes, atomic } = *region;
        let refused = |field, value: String, expected: &str| FabricError::Peer { field, value, expected: expected.into() };
        if addr != 0 {
            return Err(refused("region's first address", addr.to_string(), "0"));
        }
        if rkey == 0 || rkey & STAGING_BIT != 0 {
            return Err(refused("region's rkey", format!("{rkey:#x}"), "that of a region registered for others"));
        }
        let length = usize::try_from(bytes).ok().filter(|length| length.is_multiple_of(PAGE_BYTES));
        let length = length.ok_or_else(|| refused("region's length", bytes.to_string(), "whole pages"))?;
        if self.table.find(rkey).is_some() {
            return Ok(());
        }
        let file = ask(&link.socket, rkey, until.saturating_duration_since(Instant::now()));
        let file = file.inspect_err(|_| link.hang_up())?;
        let mut map = Mapping::adopt("region", file, length, atomic)?;
        // The mapping holds the memory; a descriptor for each chunk of each server would only run out.
        drop(map.take_file());
        self.table.enter(rkey, View::whole(Arc::new(map)), atomic);
        Ok(())
    }
}

/// A guest port's own part: the roles wait for their tickets in the endpoints.
pub(super) struct GuestSide;

impl Side for GuestSide {
    fn open(&self, core: &mut Core, spec: &EndpointSpec) -> Result<Opened, FabricError> {
        if !matches!(spec.role, Role::Reader | Role::Writer | Role::Beat) {
            return Err(unsupported("a server's role on the client's side"));
        }
        let endpoint = core.vacancy(Posts::of(&spec.role), spec.send_depth, spec.recv_depth)?;
        let id = endpoint.id;
        core.insert(endpoint)?;
        Ok(Opened { endpoint: id, info: PeerInfo::Unneeded, staging: None })
    }

    fn connect(&self, core: &mut Core, id: EndpointId, peer: &PeerInfo) -> Result<(), FabricError> {
        let ticket = ticket(peer)?;
        let endpoint = core.endpoint(id).filter(|endpoint| endpoint.state == State::Opened);
        let posts = endpoint.ok_or_else(|| handshake("the endpoint is unknown, connected already, or has failed"))?.posts;
        let (_, welcome, fds) = dial(&ticket.socket, ToDoor::Endpoint(ticket.token), core.patience)?;
        let (socket, lanes) = accept(posts, &welcome, fds)?;
        let receives = lanes.is_some();
        let Some(endpoint) = core.endpoint(id) else { return Err(unsupported("an endpoint that went away")) };
        (endpoint.socket, endpoint.lanes, endpoint.state) = (Some(socket), lanes, State::Ready);
        core.watch(id)?;
        if receives {
            core.receives(id);
        }
        Ok(())
    }

    fn loopback(&self, _: &mut Core, _: u32) -> Result<EndpointId, FabricError> {
        Err(unsupported("a loopback on the client's side"))
    }
}

/// Checks what the server has handed over, field by field, and maps it.
fn accept(posts: Posts, welcome: &Welcome, fds: Vec<OwnedFd>) -> Result<(OwnedFd, Option<Lanes>), FabricError> {
    let Welcome { role, staging_rkey, shape } = welcome;
    let expected = match posts {
        Posts::OneSided => role_code(&Role::Reader),
        Posts::Writes => role_code(&Role::Writer),
        Posts::Messages | Posts::Nothing => role_code(&Role::Beat),
    };
    if *role != expected {
        return Err(FabricError::Peer { field: "role", value: role.to_string(), expected: expected.to_string() });
    }
    if let Some(field) = shape.fault().or_else(|| missing(posts, shape)) {
        return Err(FabricError::Peer { field, value: format!("{shape:?}"), expected: "a ring within the limits".into() });
    }
    let wrong_count = || handshake("the server handed over the wrong number of descriptors");
    if posts == Posts::OneSided {
        let [socket] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| wrong_count())?;
        return Ok((socket, None));
    }
    let [socket, client, server, port] = <[OwnedFd; 4]>::try_from(fds).map_err(|_| wrong_count())?;
    let client = map("endpoint-a", client, shape.client_bytes(), true)?;
    let server = map("endpoint-b", server, shape.server_bytes(), false)?;
    let port = map("sleeper", port, PAGE_BYTES, false)?;
    let lanes = Lanes::client(shape, &client, &server, &port, *staging_rkey);
    Ok((socket, Some(lanes.map_err(|out| handshake(out.to_string()))?)))
}

fn missing(posts: Posts, shape: &Shape) -> Option<&'static str> {
    match posts {
        Posts::Writes if shape.immediates == 0 => Some("ring of immediates"),
        Posts::Writes if shape.staging_bytes == 0 => Some("staging ring"),
        Posts::Messages if shape.up == 0 => Some("message ring of the client"),
        Posts::Writes | Posts::Messages if shape.down == 0 => Some("message ring of the server"),
        _ => None,
    }
}

fn map(what: &str, fd: OwnedFd, bytes: usize, writable: bool) -> Result<View, FabricError> {
    let mut map = Mapping::adopt(what, fd, bytes, writable)?;
    drop(map.take_file());
    Ok(View::whole(Arc::new(map)))
}

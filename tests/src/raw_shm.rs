//! A client of the shm fabric that keeps no rule: it speaks to the door in bytes and holds the memfds raw.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, recvmsg, send, socket_with, sockopt,
};
use sidewire_common::fabric::{PeerInfo, ShmTicket};
use sidewire_common::memory::{Mapping, View};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Attempts at a door before it counts as shut.
const TRIES: u32 = 5;
/// Kind of a hello for a link.
pub const LINK: u16 = 1;
/// Kind of a hello for an endpoint.
pub const ENDPOINT: u16 = 2;
/// Kind of an ask for a region.
pub const ASK: u16 = 3;

/// The ticket in a peer's information.
///
/// # Panics
/// When it is none of `shm`.
#[must_use]
pub fn ticket(info: &PeerInfo) -> &ShmTicket {
    let PeerInfo::Shm(ticket) = info else { panic!("{info:?}") };
    ticket
}

/// A socket to knock with.
///
/// # Panics
/// When the kernel refuses.
#[must_use]
pub fn socket() -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Knocks at the door of this name.
///
/// # Panics
/// When there is none.
pub fn knock_with(socket: &OwnedFd, name: &str) {
    connect(socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
}

/// Knocks with a new socket.
///
/// # Panics
/// When there is no such door.
#[must_use]
pub fn knock(name: &str) -> OwnedFd {
    let socket = socket();
    knock_with(&socket, name);
    socket
}

/// A well-formed packet.
#[must_use]
pub fn packet(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut packet = b"SWsh\x01\0".to_vec();
    packet.extend(kind.to_le_bytes());
    packet.extend(body);
    packet.resize(32, 0);
    packet
}

/// Sends a packet. False when the door has closed.
pub fn say(socket: &OwnedFd, bytes: &[u8]) -> bool {
    send(socket, bytes, SendFlags::NOSIGNAL).is_ok()
}

/// The next packet and its descriptors; no bytes when the door has closed.
///
/// # Panics
/// When it neither answers nor closes.
pub fn listen(socket: &OwnedFd) -> (Vec<u8>, Vec<OwnedFd>) {
    let (mut bytes, mut space) = ([0u8; 64], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))]);
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
        Ok(received) => received.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(refused) => panic!("the door neither answers nor closes: {refused}"),
    };
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
        _ => None,
    });
    let fds = rights.flatten().collect();
    (bytes[..received].to_vec(), fds)
}

/// An endpoint in the hands of a hostile client.
pub struct Raw {
    /// What wakes the other end and tells its end.
    pub socket: OwnedFd,
    /// Memory that the client writes.
    pub client_fd: OwnedFd,
    /// Memory that the server writes.
    pub server_fd: OwnedFd,
    /// The server's sleeper page.
    pub sleeper_fd: OwnedFd,
    /// All that it may write.
    pub view: View,
}

impl Raw {
    /// Comes by a ticket.
    ///
    /// # Panics
    /// When the door does not hand over what an endpoint has.
    #[must_use]
    pub fn connect(info: &PeerInfo) -> Self {
        let ticket = ticket(info);
        // On a busy machine a stranger may be shown out before it has said anything; its token is good still.
        let mut fds = Vec::new();
        for _ in 0..TRIES {
            let door = knock(&ticket.socket);
            if say(&door, &packet(ENDPOINT, &ticket.token)) {
                fds = listen(&door).1;
            }
            if !fds.is_empty() {
                break;
            }
        }
        let [socket, client_fd, server_fd, sleeper_fd] = <[OwnedFd; 4]>::try_from(fds).unwrap();
        let bytes = rustix::fs::fstat(&client_fd).unwrap().st_size as usize;
        let map = Mapping::adopt("raw", client_fd.as_fd().try_clone_to_owned().unwrap(), bytes, true).unwrap();
        Self { socket, client_fd, server_fd, sleeper_fd, view: View::whole(Arc::new(map)) }
    }
}

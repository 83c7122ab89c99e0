//! The guest's side of the door.

use super::handing::FDS_MAX;
use super::wire::{FromDoor, Grant, PACKET_BYTES, ToDoor, Welcome};
use super::{FabricError, call_failed, handshake};
use crate::fabric::{PeerInfo, ShmTicket};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, recvmsg, send, socket_with, sockopt,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Longest time for a whole handshake: a stopped server lets it run out, and a connect may take five seconds.
pub(super) const PATIENCE: Duration = Duration::from_millis(4500);
/// A socket's timeout of 0 would mean none.
const PATIENCE_MIN: Duration = Duration::from_millis(1);
/// Longest name of an abstract socket.
const NAME_BYTES_MAX: usize = 107;

/// The ticket in a peer's word, checked.
pub(super) fn ticket(peer: &PeerInfo) -> Result<&ShmTicket, FabricError> {
    let wrong = |value: String, expected: &str| FabricError::Peer { field: "ticket", value, expected: expected.into() };
    match peer {
        PeerInfo::Shm(ticket) => {
            let name = &ticket.socket;
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(wrong(format!("{name:?}"), "the name of an abstract socket, 1 to 107 printable ASCII characters"));
            }
            Ok(ticket)
        }
        other => Err(wrong(format!("{other:?}"), "a ticket of the shm fabric")),
    }
}

/// Knocks, says hello, and takes what is handed over, within `limit`.
pub(super) fn dial(name: &str, hello: ToDoor, limit: Duration) -> Result<(OwnedFd, Welcome, Vec<OwnedFd>), FabricError> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|e| call_failed("making a Unix socket", e))?;
    let limit = limit.clamp(PATIENCE_MIN, PATIENCE);
    let deadline = Instant::now() + limit;
    allow(&socket, sockopt::Timeout::Send, limit)?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|e| call_failed("naming a Unix socket", e))?;
    connect(&socket, &address).map_err(|e| said_nothing("connecting", e, limit))?;
    say(&socket, hello, limit)?;
    let left = deadline.saturating_duration_since(Instant::now());
    allow(&socket, sockopt::Timeout::Recv, left.max(PATIENCE_MIN))?;
    match listen(&socket, limit)? {
        (FromDoor::Welcome(welcome), fds) => Ok((socket, welcome, fds)),
        (FromDoor::Answer(_), _) => Err(handshake("the server answered what was not asked")),
    }
}

fn allow(socket: &OwnedFd, way: sockopt::Timeout, time: Duration) -> Result<(), FabricError> {
    sockopt::set_socket_timeout(socket, way, Some(time)).map_err(|e| call_failed("setting a socket's timeout", e))
}

/// Asks on a link for the descriptor of a region, within `limit`. An answer does not say what it answers: after a
/// failure the link is of no use any more.
pub(super) fn ask(link: &OwnedFd, rkey: u32, limit: Duration) -> Result<OwnedFd, FabricError> {
    let limit = limit.clamp(PATIENCE_MIN, PATIENCE);
    allow(link, sockopt::Timeout::Send, limit)?;
    allow(link, sockopt::Timeout::Recv, limit)?;
    say(link, ToDoor::Ask(rkey), limit)?;
    let (said, mut fds) = listen(link, limit)?;
    match (said, fds.pop(), fds.pop()) {
        (FromDoor::Answer(Grant::Granted), Some(fd), None) => Ok(fd),
        (FromDoor::Answer(Grant::Unknown), None, None) => {
            let expected = "one that the server has registered and not ended".into();
            Err(FabricError::Peer { field: "region", value: format!("{rkey:#x}"), expected })
        }
        (FromDoor::Answer(Grant::Busy), None, None) => Err(handshake("the server has no descriptor to spare")),
        _ => Err(handshake("the server's answer makes no sense")),
    }
}

fn say(socket: &OwnedFd, word: ToDoor, limit: Duration) -> Result<(), FabricError> {
    send(socket, &word.encode(), SendFlags::NOSIGNAL).map(drop).map_err(|e| said_nothing("sending", e, limit))
}

fn listen(socket: &OwnedFd, limit: Duration) -> Result<(FromDoor, Vec<OwnedFd>), FabricError> {
    let mut bytes = [0u8; PACKET_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Ok(received) => break received.bytes,
            Err(refused) => return Err(said_nothing("receiving", refused, limit)),
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(handed) = message {
            fds.extend(handed);
        }
    }
    if received == 0 {
        return Err(handshake("the server refused the ticket, or is shutting down"));
    }
    let said = FromDoor::decode(&bytes[..received]).ok_or_else(|| handshake("the server speaks another version"))?;
    Ok((said, fds))
}

fn said_nothing(doing: &str, why: Errno, limit: Duration) -> FabricError {
    match why {
        Errno::AGAIN => handshake(format!("{doing}: no answer within {} ms", limit.as_millis())),
        Errno::CONNREFUSED => handshake("nobody listens there: the server has ended, or runs in another network namespace"),
        other => handshake(format!("{doing}: {}", std::io::Error::from(other))),
    }
}

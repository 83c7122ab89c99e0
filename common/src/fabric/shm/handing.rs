//! Descriptors in packets, and whose they are.

use super::table::Table;
use super::wire::{FromDoor, Grant};
use rustix::fs::{Mode, OFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Descriptors in one packet.
pub(super) const FDS_MAX: usize = 4;

/// A read-only descriptor of its own (own offset and flags) for memory that may only be read.
pub(super) fn reopen_read_only(fd: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Hands a region's descriptor out: a read-only one, unless its atomics are the client's too.
pub(super) fn answer(table: &Table, socket: &OwnedFd, rkey: u32) -> bool {
    let Some(region) = table.find(rkey) else { return send_packet(socket, FromDoor::Answer(Grant::Unknown), &[]) };
    let Some(file) = region.view.mapping().file() else { return send_packet(socket, FromDoor::Answer(Grant::Unknown), &[]) };
    if region.atomic {
        return send_packet(socket, FromDoor::Answer(Grant::Granted), &[file]);
    }
    match reopen_read_only(file) {
        Ok(reopened) => send_packet(socket, FromDoor::Answer(Grant::Granted), &[reopened.as_fd()]),
        Err(refused) => {
            tracing::warn!(error = %refused, "a region cannot be reopened for a client");
            send_packet(socket, FromDoor::Answer(Grant::Busy), &[])
        }
    }
}

/// False when it could not be sent: the caller does not read what it asked for.
pub(super) fn send_packet(socket: &OwnedFd, said: FromDoor, fds: &[BorrowedFd<'_>]) -> bool {
    let packet = said.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return false;
    }
    sendmsg(socket, &[IoSlice::new(&packet)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}

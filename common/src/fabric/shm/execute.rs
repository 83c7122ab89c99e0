//! What a posted work request does: it is done when the post returns.

use super::endpoint::Endpoint;
use super::table::Snapshot;
use crate::fabric::{RemoteAddr, Status, Verb};
use crate::memory::{Lent, OutOfView, View};
use std::sync::atomic::{Ordering, fence};

/// How it ended, and the old value of an atomic.
pub(super) type Ended = (Status, u64);

/// Executes one verb that was admitted.
#[inline]
pub(super) fn run(endpoint: &mut Endpoint, regions: &Snapshot, verb: &Verb<'_>) -> Ended {
    match verb {
        Verb::Read { into, from } => read(regions, into, *from),
        Verb::FetchAdd { at, delta } => atomic(regions, *at, |view, offset| view.fetch_add(offset, *delta)),
        Verb::CompareSwap { at, expect, swap } => atomic(regions, *at, |view, offset| view.compare_swap(offset, *expect, *swap)),
        Verb::Write { from, to } => (write(endpoint, from, *to), 0),
        Verb::WriteImm { from, to, imm } => (write_imm(endpoint, from, *to, *imm), 0),
        Verb::Send { bytes } => (message(endpoint, bytes), 0),
    }
}

#[inline]
fn read(regions: &Snapshot, into: &Lent, from: RemoteAddr) -> Ended {
    let done = regions
        .find(from.rkey)
        .is_some_and(|region| usize::try_from(from.addr).is_ok_and(|offset| region.view.copy_to_lent(offset, into).is_ok()));
    // What is looked at after this `Done` is no older than what it brought.
    fence(Ordering::Acquire);
    (if done && !regions.lost() { Status::Ok } else { Status::RemoteAccess }, 0)
}

#[inline]
fn atomic(regions: &Snapshot, at: RemoteAddr, operation: impl Fn(&View, usize) -> Result<u64, OutOfView>) -> Ended {
    let region = regions.find(at.rkey).filter(|region| region.atomic);
    match region.zip(usize::try_from(at.addr).ok()).map(|(region, offset)| operation(&region.view, offset)) {
        Some(Ok(old)) if !regions.lost() => (Status::Ok, old),
        _ => (Status::RemoteAccess, 0),
    }
}

fn write(endpoint: &Endpoint, from: &Lent, to: RemoteAddr) -> Status {
    let staging = endpoint.lanes.as_ref().and_then(|lanes| lanes.staging.as_ref()).filter(|staging| staging.rkey == to.rkey);
    let done = staging.zip(usize::try_from(to.addr).ok()).map(|(staging, offset)| staging.view.copy_from_lent(offset, from));
    if let Some(Ok(())) = done { Status::Ok } else { Status::RemoteAccess }
}

fn write_imm(endpoint: &mut Endpoint, from: &Lent, to: RemoteAddr, imm: u32) -> Status {
    let status = write(endpoint, from, to);
    let ring = endpoint.lanes.as_mut().and_then(|lanes| lanes.immediates_out.as_mut());
    match (status, ring) {
        // A staging ring is shorter than 4 GiB, and the bytes lie within it.
        (Status::Ok, Some(ring)) => {
            ring.push(imm, from.len() as u32);
            Status::Ok
        }
        _ => Status::RemoteAccess,
    }
}

fn message(endpoint: &mut Endpoint, bytes: &[u8]) -> Status {
    match endpoint.lanes.as_mut().and_then(|lanes| lanes.messages_out.as_mut()) {
        Some(ring) => {
            ring.push(bytes);
            Status::Ok
        }
        None => Status::RemoteAccess,
    }
}

//! Attaching: the server's terms, each checked, and its regions made reachable.

use crate::attached::{Attached, Terms};
use crate::cluster::Membership;
use crate::control::{CALL_LIMIT, Control, ControlError, Failure};
use crate::error::Error;
use crate::regions::RegionTable;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{AtomicExecutor, FabricError, FabricKind, RemoteRegion, open_client};
use sidewire_common::host;
use sidewire_common::id::{ClientId, Incarnation};
use sidewire_common::key::SHARD_COUNT;
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_common::layout::directory::{DIRECTORY_BITS_MAX, DIRECTORY_BITS_MIN, entry_offset};
use sidewire_common::layout::location::Place;
use sidewire_common::layout::lock_word::HOLDER_MAX;
use sidewire_common::limits::{
    LEASE_MS_MAX, LEASE_MS_MIN, MESSAGE_CREDITS, STAGING_BYTES_MAX, STAGING_BYTES_MIN, VALUE_BYTES_MAX, WORKERS_MAX,
    value_bytes_max,
};
use sidewire_proto::convert::{self, ConvertError, UsedRegion};
use sidewire_proto::v1;
use std::str::FromStr;
use std::time::Duration;

/// Between two looks at whether a map has come that was asked for.
const MAP_PAUSE: Duration = Duration::from_millis(1);
/// Longest host or program name that is told, bytes.
const NAME_BYTES_MAX: usize = 255;

/// How a client wants to attach.
#[derive(Clone, Debug)]
pub(crate) struct Wishes {
    pub fabric: Option<FabricKind>,
    pub device: Option<String>,
    pub program: String,
    pub location_cache_entries: usize,
}

/// Attaches under a new identity; the server must answer within `limit`.
///
/// # Errors
/// When the server cannot be reached, refuses, or tells what cannot be right; or its fabric cannot be had here.
pub(crate) fn attach(
    control: &Control,
    wishes: &Wishes,
    membership: Option<&Membership>,
    limit: Duration,
) -> Result<Attached, Error> {
    let server = control.address().as_str();
    let client = ClientId::random();
    let sent = BootInstant::now();
    let left = move || limit.saturating_sub(BootInstant::now().since(sent));
    let reply = control.attach(limit, request(client, wishes)).map_err(|e| refused(e, server))?;
    let received = BootInstant::now();
    // From here on the server holds a lease for this client; what fails below it sweeps when that runs out.
    let result = is_member(membership, &reply, server)
        .and_then(|()| follow_map(membership, &reply, server, left()))
        .and_then(|()| adopt(control, wishes, client, &reply, received, left()));
    let result = result.and_then(|attached| {
        attached.lease.renewed(sent, first_lease(&reply, attached.terms.lease));
        if attached.lease.valid_at(BootInstant::now()) {
            Ok(attached)
        } else {
            let reason = format!("it answered only after {:?}, when its lease was over", received.since(sent));
            Err(Error::ServerGone { server: server.into(), reason })
        }
    });
    let attached = match result {
        Ok(attached) => attached,
        Err(error) => {
            let request = v1::DetachRequest { client_id: client.to_bytes().to_vec(), incarnation: reply.incarnation };
            control.detach(request, drop);
            return Err(error);
        }
    };
    attached.clock.told(reply.clock_ms, reply.clock_error_ms, sent, received, attached.terms.lease);
    Ok(attached)
}

/// Whoever answers at a member's address may be another life of the server, or another server.
fn is_member(membership: Option<&Membership>, reply: &v1::AttachReply, server: &str) -> Result<(), Error> {
    let Some(membership) = membership else { return Ok(()) };
    let gone = |reason: String| Err(Error::ServerGone { server: server.into(), reason });
    match membership.incarnation {
        Some(life) if life.0 != reply.incarnation => gone(format!("member {} is in another life there", membership.id)),
        // Its lease has run out: what was this member's is gone or elsewhere.
        _ if membership.id.0 != reply.member => gone(format!("it is another member than {} by now", membership.id)),
        _ if membership.hash_seed != reply.hash_seed => gone("the server there hashes keys unlike its cluster".into()),
        _ => Ok(()),
    }
}

/// What is read there counts only by a map that is as late as the server's: shards may have left it, and it waits for no
/// client that it did not know.
fn follow_map(membership: Option<&Membership>, reply: &v1::AttachReply, server: &str, limit: Duration) -> Result<(), Error> {
    let Some(membership) = membership else { return Ok(()) };
    let started = BootInstant::now();
    let gone = |reason: String| Err(Error::ServerGone { server: server.into(), reason });
    while membership.map.epoch() < reply.map_epoch {
        let Some(members) = membership.members.upgrade() else { return gone("the client has ended".into()) };
        if BootInstant::now().since(started) >= limit {
            return gone(format!("its map of the cluster is {}, and nobody tells it", reply.map_epoch));
        }
        members.refresh(reply.map_epoch, Some(membership.id));
        drop(members);
        host::sleep(MAP_PAUSE);
    }
    Ok(())
}

/// A server of a cluster grants no more than is left of its own lease.
fn first_lease(reply: &v1::AttachReply, whole: Duration) -> Duration {
    if reply.lease_left_ms == 0 { whole } else { whole.min(Duration::from_millis(reply.lease_left_ms)) }
}

fn refused(error: ControlError, server: &str) -> Error {
    match error.failure {
        Failure::Lapsed => Error::Control { server: server.into(), reason: error.reason },
        Failure::Unreachable | Failure::Refused => error.into_error(server),
    }
}

fn request(client: ClientId, wishes: &Wishes) -> v1::AttachRequest {
    v1::AttachRequest {
        client_id: client.to_bytes().to_vec(),
        layout_version: LAYOUT_VERSION,
        host: name(&host_name()),
        pid: std::process::id(),
        program: name(&wishes.program),
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown".into(), |n| n.trim().to_owned())
}

/// A name as the server takes it: short and printable.
fn name(text: &str) -> String {
    let mut name: String = text.chars().filter(|c| !c.is_control()).collect();
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    name
}

fn adopt(
    control: &Control,
    wishes: &Wishes,
    client: ClientId,
    reply: &v1::AttachReply,
    received: BootInstant,
    limit: Duration,
) -> Result<Attached, Error> {
    let bad = |e: ConvertError| Error::Layout { reason: format!("the server's attach reply: {e}") };
    let kind = FabricKind::from_str(&reply.fabric).map_err(|reason| Error::Layout { reason })?;
    if let Some(wanted) = wishes.fabric.filter(|wanted| *wanted != kind) {
        let reason = format!("the server runs the fabric {kind}, and {wanted} was asked for; start it with --fabric {wanted}");
        return Err(Error::Control { server: control.address().as_str().into(), reason });
    }
    let terms = terms(client, reply, received).map_err(bad)?;
    let link = convert::peer(reply.link.clone()).map_err(bad)?;
    let used = convert::regions(reply.regions.clone()).map_err(bad)?;
    let table = RegionTable::new(&used, terms.cell_count)?;
    check_directories(&terms, &table)?;
    let left = || limit.saturating_sub(BootInstant::now().since(received));
    let local = match kind {
        FabricKind::Verbs => control.address().local_address(left())?,
        FabricKind::Shm => None,
    };
    let fabric = open_client(kind, wishes.device.as_deref(), local)?;
    fabric.set_patience(left());
    fabric.link(&link)?;
    fabric.set_patience(left());
    fabric.adopt(&plain(&used))?;
    // What the heartbeat adopts later holds up nobody.
    fabric.set_patience(CALL_LIMIT);
    Ok(Attached::new(terms, fabric, table, reply.layout_epoch, wishes.location_cache_entries))
}

/// The regions as the fabric takes them.
pub(crate) fn plain(used: &[UsedRegion]) -> Vec<RemoteRegion> {
    used.iter().map(|u| u.region).collect()
}

fn check_directories(terms: &Terms, table: &RegionTable) -> Result<(), Error> {
    let bytes = entry_offset(SHARD_COUNT, 0, terms.directory_bits);
    match table.at(terms.directories, 0, bytes) {
        Some(_) => Ok(()),
        None => Err(Error::Layout { reason: "the server's directories lie outside the chunks it told".into() }),
    }
}

fn terms(client: ClientId, reply: &v1::AttachReply, received: BootInstant) -> Result<Terms, ConvertError> {
    let within = |field, value: u64, least: u64, most: u64, expected| {
        if (least..=most).contains(&value) { Ok(value) } else { Err(ConvertError { field, value: value.to_string(), expected }) }
    };
    let staging =
        within("staging_bytes", reply.staging_bytes, STAGING_BYTES_MIN as u64, STAGING_BYTES_MAX as u64, "64 KiB to 256 MiB")?;
    let request_value_max = value_bytes_max(staging as usize) as u64;
    let lease = within("lease_ms", reply.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX, "300 ms to 10 minutes")?;
    let bits =
        within("directory_bits", reply.directory_bits.into(), DIRECTORY_BITS_MIN.into(), DIRECTORY_BITS_MAX.into(), "4 to 16")?;
    within("incarnation", reply.incarnation, 1, u64::MAX, "not 0")?;
    within("holder_id", reply.holder_id.into(), 1, HOLDER_MAX.into(), "1 to 2^20 - 2")?;
    within("worker_count", reply.worker_count.into(), 1, WORKERS_MAX.into(), "1 to 64")?;
    within("credits", reply.credits.into(), 1, MESSAGE_CREDITS.into(), "1 to 64")?;
    within("request_value_bytes_max", reply.request_value_bytes_max, 1, request_value_max, "at most half a staging ring")?;
    within("value_bytes_max", reply.value_bytes_max, reply.request_value_bytes_max, VALUE_BYTES_MAX as u64, "at most 128 MiB")?;
    within("directories", reply.directories, 0, (1 << 40) - 1, "a packed place of 40 bits")?;
    within("locks_open_in_ms", reply.locks_open_in_ms, 0, LEASE_MS_MAX, "at most 10 minutes")?;
    let atomics = match reply.atomics.as_str() {
        "nic" => AtomicExecutor::Nic,
        "cpu" => AtomicExecutor::Cpu,
        other => return Err(ConvertError { field: "atomics", value: other.into(), expected: "nic or cpu" }),
    };
    Ok(Terms {
        client,
        incarnation: Incarnation(reply.incarnation),
        atomics,
        lease: Duration::from_millis(lease),
        hash_seed: reply.hash_seed,
        holder_id: reply.holder_id,
        worker_count: reply.worker_count,
        directory_bits: bits as u32,
        directories: Place::unpack(reply.directories),
        staging_bytes: staging as usize,
        credits: reply.credits,
        value_bytes_max: reply.value_bytes_max as usize,
        request_value_bytes_max: reply.request_value_bytes_max as usize,
        cell_count: reply.cell_count,
        locks_open_at: received.plus(Duration::from_millis(reply.locks_open_in_ms)),
    })
}

impl From<FabricError> for ControlError {
    fn from(error: FabricError) -> Self {
        let failure = if error.is_retryable() { Failure::Unreachable } else { Failure::Refused };
        Self { failure, reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> v1::AttachReply {
        v1::AttachReply {
            incarnation: 7,
            fabric: "shm".into(),
            atomics: "cpu".into(),
            lease_ms: 3000,
            holder_id: 1,
            worker_count: 2,
            directory_bits: 12,
            staging_bytes: 1 << 20,
            credits: 64,
            value_bytes_max: 1 << 26,
            request_value_bytes_max: 1 << 19,
            ..v1::AttachReply::default()
        }
    }

    fn refused_field(change: impl FnOnce(&mut v1::AttachReply)) -> &'static str {
        let mut reply = reply();
        change(&mut reply);
        terms(ClientId(1), &reply, BootInstant::from_nanos(0)).unwrap_err().field
    }

    #[test]
    fn each_wrong_field_is_named() {
        assert!(terms(ClientId(1), &reply(), BootInstant::from_nanos(0)).is_ok());
        assert_eq!(refused_field(|r| r.lease_ms = 0), "lease_ms");
        assert_eq!(refused_field(|r| r.incarnation = 0), "incarnation");
        assert_eq!(refused_field(|r| r.holder_id = 0), "holder_id");
        assert_eq!(refused_field(|r| r.holder_id = u32::MAX), "holder_id");
        assert_eq!(refused_field(|r| r.worker_count = 65), "worker_count");
        assert_eq!(refused_field(|r| r.directory_bits = 17), "directory_bits");
        assert_eq!(refused_field(|r| r.staging_bytes = 1), "staging_bytes");
        assert_eq!(refused_field(|r| r.credits = 0), "credits");
        assert_eq!(refused_field(|r| r.request_value_bytes_max = 1 << 20), "request_value_bytes_max");
        assert_eq!(refused_field(|r| r.value_bytes_max = 1 << 18), "value_bytes_max");
        assert_eq!(refused_field(|r| r.value_bytes_max = 1 << 30), "value_bytes_max");
        assert_eq!(refused_field(|r| r.directories = 1 << 40), "directories");
        assert_eq!(refused_field(|r| r.atomics = "gpu".into()), "atomics");
    }

    #[test]
    fn names_are_short_and_printable() {
        assert_eq!(name("a\x1b[2Jb"), "a[2Jb");
        assert_eq!(name(&"ö".repeat(200)).len(), 254);
    }
}

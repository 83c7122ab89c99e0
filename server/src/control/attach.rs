//! Attach: a client is admitted and told where everything lies.

use super::Core;
use super::refusal::Refusal;
use crate::lease::table::Told;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::PeerInfo;
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_common::limits::{MESSAGE_CREDITS, READ_DEPTH};
use sidewire_proto::convert;
use sidewire_proto::v1::{AttachReply, AttachRequest};

/// Longest host or program name, bytes.
const NAME_BYTES_MAX: usize = 255;

/// Admits a client. From here on its lease runs, and the layout epoch waits for it.
pub(super) fn attach(core: &Core, request: AttachRequest) -> Result<AttachReply, Refusal> {
    let client = convert::client_id(&request.client_id)?;
    if request.layout_version != LAYOUT_VERSION {
        return Err(Refusal::LayoutVersion { given: request.layout_version, ours: LAYOUT_VERSION });
    }
    let host = name("host", request.host)?;
    let program = name("program", request.program)?;
    if core.shared().is_stopping() {
        return Err(Refusal::Stopping);
    }
    if core.store.grantable_lease().as_millis() == 0 {
        return Err(Refusal::NoLease);
    }
    let told = Told { host, pid: request.pid, program };
    let holder = {
        // The epoch is read under the lock: what is acknowledged can only be as late as this client knows.
        let mut table = core.shared().table.lock();
        let epoch = core.store.epochs().current();
        table.admit(BootInstant::now(), client, told.clone(), epoch).map_err(|e| Refusal::of_admission(e, client))?
    };
    let link = core.store.fabric().admit(client).inspect_err(|_| {
        // Nothing was opened, so there is nothing to sweep.
        let mut table = core.shared().table.lock();
        if table.begin_sweep(client) {
            table.end_sweep(client, crate::lease::table::Why::Detached);
        }
    })?;
    tracing::info!(client = %client, holder, host = told.host, pid = told.pid, program = told.program, "client attached");
    Ok(reply(core, holder, &link))
}

fn reply(core: &Core, holder_id: u32, link: &PeerInfo) -> AttachReply {
    let store = &core.store;
    let settings = store.settings();
    let info = store.fabric().info();
    let (layout_epoch, regions) = store.regions();
    // Before the member: a lease of the next one is never told as this one's.
    let lease_left_ms = store.grantable_lease().as_millis() as u64;
    AttachReply {
        incarnation: store.incarnation().0,
        fabric: info.kind.to_string(),
        atomics: info.atomics.to_string(),
        lease_ms: settings.lease.as_millis() as u64,
        hash_seed: store.hash_seed(),
        holder_id,
        worker_count: core.workers.count(),
        directory_bits: store.directory_bits(),
        directories: store.directories().pack(),
        staging_bytes: settings.staging_bytes as u64,
        credits: MESSAGE_CREDITS,
        value_bytes_max: store.value_bytes_max() as u64,
        request_value_bytes_max: store.request_value_bytes_max() as u64,
        read_depth: READ_DEPTH,
        layout_epoch,
        clock_ms: store.clock_ms(),
        clock_error_ms: store.clock_error_ms(),
        locks_open_in_ms: store.locks_open_in().as_micros().div_ceil(1000) as u64,
        link: convert::peer_to_wire(link),
        regions: regions.into_iter().map(Into::into).collect(),
        cell_count: store.cells().count(),
        map_epoch: store.cluster().map_epoch(),
        lease_left_ms,
        member: store.cluster().member().map_or(0, |member| member.0),
    }
}

/// A name that people will see: short, and nothing in it that a terminal obeys.
fn name(field: &'static str, text: String) -> Result<String, Refusal> {
    if text.len() > NAME_BYTES_MAX {
        return Err(Refusal::field(field, format!("{} bytes long", text.len()), "at most 255 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::field(field, format!("{text:?}"), "without control characters"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_harmless() {
        assert!(name("host", "köln-7".into()).is_ok());
        assert!(name("host", "x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(name("host", "x".repeat(NAME_BYTES_MAX + 1)).is_err());
        assert!(name("program", "a\x1b[2J".into()).is_err());
    }
}

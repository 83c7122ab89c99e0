//! The control plane, and the way from here to the data plane.

use super::data;
use super::finding::Area::Server;
use super::finding::{Findings, Level};
use crate::context::Context;
use crate::failure::Failure;
use sidewire::v1::{FabricReport, InfoReply};
use sidewire::{Attachment, FabricKind};
use sidewire_common::fabric::selection::path_mtu;
use std::time::Instant;

/// Asks the server what it is.
pub fn control(server: &str, context: &Context, findings: &mut Findings) -> Option<InfoReply> {
    let started = Instant::now();
    let info = match context.admin().and_then(|admin| Ok(admin.info()?)) {
        Ok(info) => info,
        Err(failure) => {
            let means = "nothing works without the control plane: addresses and keys of the data plane come from there";
            let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
            let mend =
                format!("on {host}: systemctl start kv-server, ss -ltn; from here: ping {host}, and look at firewalls (TCP)");
            findings.mend((Server, Level::Fault, "server.unreachable"), failure.message, means, mend);
            return None;
        }
    };
    let what = format!(
        "{server} answers in {:.1?}: incarnation {:016x}, up {} s",
        started.elapsed(),
        info.incarnation,
        info.uptime_ms / 1000
    );
    findings.ok(Server, "server.control", what, "the control plane can be reached");
    version(&info, findings);
    Some(info)
}

fn version(info: &InfoReply, findings: &mut Findings) {
    let ours = env!("CARGO_PKG_VERSION");
    let what = format!("version {} there, {ours} here", info.version);
    if info.version == ours {
        findings.ok(Server, "server.version", what, "both sides are of one version");
    } else {
        let means = "layouts of other versions may differ; attaching says so if they do";
        findings.mend((Server, Level::Warning, "server.version"), what, means, "install the same version on both sides");
    }
}

/// Attaches, compares both ends, and tries each verb.
pub fn way(info: &InfoReply, context: &Context, findings: &mut Findings) {
    let fabric = info.fabric.clone().unwrap_or_default();
    let what = format!("the server runs {}: {}", fabric.kind, fabric.reason);
    findings.ok(Server, "server.fabric", what, "the data plane of this server");
    let client = match context.client() {
        Ok(client) => client,
        Err(failure) => return not_attached(&fabric, failure, findings),
    };
    ends(&fabric, &client.attachment(), findings);
    match context.session() {
        Ok(session) => data::each_verb(client, session, context.globals().timeout, findings),
        Err(failure) => not_attached(&fabric, failure, findings),
    }
}

fn not_attached(fabric: &FabricReport, failure: Failure, findings: &mut Findings) {
    let mend = if fabric.kind == FabricKind::Shm.to_string() {
        "shared memory reaches one host: run on the server's, or start the server with --fabric verbs"
    } else {
        "see the findings on devices; then ping the server's address from this end's, and open UDP port 4791 (RoCE v2)"
    };
    let means = "the control plane answers, the data plane cannot be set up: no key can be read or written";
    findings.mend((Server, Level::Fault, "server.attach"), failure.message, means, mend);
}

fn ends(server: &FabricReport, here: &Attachment, findings: &mut Findings) {
    if here.fabric == FabricKind::Shm {
        findings.ok(Server, "server.link", "attached over shared memory", "index and heap are mapped here");
        return;
    }
    let what = format!(
        "attached: {} GID {} {} here, {} GID {} {} there",
        here.device, here.gid_index, here.gid, server.device, server.gid_index, server.gid
    );
    findings.ok(Server, "server.link", what, "both ends' queue pairs are connected");
    let mtu = path_mtu(here.mtu_bytes, server.mtu_bytes);
    let what = format!("path MTU {mtu}: {} here, {} there", here.mtu_bytes, server.mtu_bytes);
    if here.mtu_bytes == server.mtu_bytes {
        findings.ok(Server, "server.mtu", what, "both ends send packets of the same length");
    } else {
        let means = "the smaller one is used, which works; a switch between that takes less would drop long packets";
        let mend = "set the same MTU on both interfaces: ip link set dev INTERFACE mtu 4200";
        findings.mend((Server, Level::Warning, "server.mtu"), what, means, mend);
    }
    let what = format!("reads and atomics in flight: {} here, {} there", here.read_depth, server.read_depth);
    findings.ok(Server, "server.read-depth", what, "the smaller figure holds on each connection");
}

//! The control plane, and the way from here to the data plane.

use super::data;
use super::finding::Area::Server;
use super::finding::{Findings, Level};
use crate::context::Context;
use crate::failure::Failure;
use sidewire::v1::{FabricReport, InfoReply};
use sidewire::{Attachment, ClientId, FabricKind, Fleet, FleetServer};
use sidewire_common::cluster::ClusterMap;
use sidewire_common::fabric::selection::path_mtu;
use sidewire_common::key::KeyHash;
use std::time::Instant;

/// Tags that are tried to find one whose keys a server has: it has one shard of 256 at least, or none.
const TAGS_TRIED: u32 = 10_000;

/// A server that answers.
pub struct Visit {
    /// Its address.
    pub server: String,
    /// What it says of itself.
    pub info: InfoReply,
    /// What keys are to begin with that are stored there.
    pub tag: String,
}

/// Asks the servers what they are.
pub fn control(context: &Context, findings: &mut Findings) -> Vec<Visit> {
    match context.fleet() {
        Ok(fleet) => {
            let asked = fleet.servers().iter().map(|server| {
                let info = ask(server, findings)?;
                Some(Visit { server: server.address.clone(), info, tag: tag(fleet, server) })
            });
            asked.flatten().collect()
        }
        Err(failure) => {
            unreachable(&context.globals().server(), failure.message, findings);
            Vec::new()
        }
    }
}

/// A tag whose keys the server has.
fn tag(fleet: &Fleet, server: &FleetServer) -> String {
    let tags = || format!("{{sidewire.doctor.{:016x}}}", ClientId::random().0 as u64);
    let is_there = |tag: &String| {
        let primary = |map: &ClusterMap| map.shard(KeyHash::of(tag.as_bytes(), map.hash_seed).shard()).primary();
        fleet.map().is_none_or(|map| primary(map) == server.member)
    };
    (0..TAGS_TRIED).map(|_| tags()).find(is_there).unwrap_or_else(tags)
}

fn unreachable(server: &str, what: String, findings: &mut Findings) {
    let means = "nothing works without the control plane: addresses and keys of the data plane come from there";
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let mend = format!("on {host}: systemctl start kv-server, ss -ltn; from here: ping {host}, and look at firewalls (TCP)");
    findings.mend((Server, Level::Fault, "server.unreachable"), what, means, mend);
}

fn ask(server: &FleetServer, findings: &mut Findings) -> Option<InfoReply> {
    let started = Instant::now();
    let info = match server.admin.info() {
        Ok(info) => info,
        Err(error) => {
            unreachable(&server.address, error.to_string(), findings);
            return None;
        }
    };
    let server = &server.address;
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
pub fn way(visit: &Visit, context: &Context, findings: &mut Findings) {
    let info = &visit.info;
    let fabric = info.fabric.clone().unwrap_or_default();
    let what = format!("the server runs {}: {}", fabric.kind, fabric.reason);
    findings.ok(Server, "server.fabric", what, "the data plane of this server");
    let client = match context.client() {
        Ok(client) => client,
        Err(failure) => return not_attached(&fabric, failure, findings),
    };
    // In a cluster a member is attached to when it is first needed.
    let reached = context.session().and_then(|session| Ok((session, session.exists(visit.tag.as_bytes())?)));
    match reached {
        Ok((session, _)) => {
            let attachments = client.attachments();
            let there = attachments.iter().find(|attachment| attachment.server == visit.server);
            ends(&fabric, there.unwrap_or(&client.attachment()), findings);
            data::each_verb(client, session, (&visit.tag, context.globals().timeout), findings);
        }
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

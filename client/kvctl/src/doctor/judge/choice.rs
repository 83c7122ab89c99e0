//! The device, port and GID that would be used, chosen by the code that the verbs provider uses.

use super::Purpose;
use crate::doctor::facts::{Availability, Facts, Gid, Kernel, Survey};
use crate::doctor::finding::Area::Devices;
use crate::doctor::finding::{Findings, Level};
use serde::Serialize;
use sidewire::FabricKind;
use sidewire_common::fabric::gid_table::{self, Framing};
use sidewire_common::fabric::selection::{Chosen, PortRefusal, Refusal, Refused, Wanted, choose};

/// What would be used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Choice {
    pub device: String,
    pub port: u8,
    pub link_layer: &'static str,
    /// Empty on an InfiniBand port without a table.
    pub gid: String,
    pub gid_index: Option<u32>,
    pub framing: Option<String>,
    pub interface: Option<String>,
    /// 0 when nobody asked the device.
    pub mtu_bytes: u32,
    pub why: String,
}

pub fn judge(facts: &Facts, purpose: &Purpose<'_>, findings: &mut Findings) -> Option<Choice> {
    if purpose.fabric == Some(FabricKind::Shm) {
        let means = "the fabric is shared memory: server and clients on one host, and no device is opened";
        findings.ok(Devices, "choice.shm", "no device is needed", means);
        return None;
    }
    let chosen = match &facts.survey {
        Survey::Devices(devices) => choose(devices, purpose.wanted),
        Survey::NotAsked => choose(&facts.devices, purpose.wanted),
        Survey::Failed(_) => Err(Vec::new()),
    };
    match chosen {
        Ok(chosen) => Some(good(facts, purpose, &chosen, findings)),
        Err(refused) if refused.is_empty() => {
            none_here(facts, purpose, findings);
            None
        }
        Err(refused) => {
            none_fits(facts, purpose, &refused, findings);
            None
        }
    }
}

fn good(facts: &Facts, purpose: &Purpose<'_>, chosen: &Chosen<()>, findings: &mut Findings) -> Choice {
    let port = chosen.port();
    let gid = chosen.gid.and_then(|entry| shown(facts, &chosen.device, port.number, entry.index));
    let choice = Choice {
        device: chosen.device.clone(),
        port: port.number,
        link_layer: if port.ethernet { "Ethernet" } else { "InfiniBand" },
        gid: chosen.gid.map(|entry| gid_table::text(&entry.gid)).unwrap_or_default(),
        gid_index: chosen.gid.map(|entry| entry.index),
        framing: gid.map(|gid| gid.framing.clone()),
        interface: gid.and_then(|gid| gid.interface.clone()),
        mtu_bytes: port.mtu_bytes,
        why: why(purpose.wanted, port.ethernet, chosen.gid.map(|entry| entry.gid)),
    };
    let at = choice.gid_index.map_or("no GID, by its LID".into(), |index| format!("GID {index} {}", choice.gid));
    let what = format!("{} port {}, {at}: would be used", choice.device, choice.port);
    let means = match purpose.wanted.address.filter(|address| !address.is_unspecified()) {
        Some(_) => choice.why.clone(),
        None if port.ethernet => format!("{}; a server takes it by itself only if it listens on that address", choice.why),
        None => choice.why.clone(),
    };
    findings.ok(Devices, "choice", what, means);
    let Some(entry) = chosen.gid.filter(|_| port.ethernet) else { return choice };
    let interface = choice.interface.as_deref().unwrap_or("INTERFACE");
    if gid.is_some_and(|gid| !gid.here) {
        let what = format!(
            "{} port {}: GID {} belongs to {interface}, which is in another network namespace",
            choice.device, choice.port, entry.index
        );
        let means = "packets leave through an interface that this program does not have; connecting fails";
        let mend = format!("run in that namespace (ip netns exec NAME ...; docker run --network host), or move {interface} here");
        findings.mend((Devices, purpose.without_device(Level::Warning), "gid.elsewhere"), what, means, mend);
    }
    if gid_table::is_link_local(&entry.gid) {
        let what = format!("{} port {}: only a link-local GID", choice.device, choice.port);
        let mend = format!("ip address add ADDRESS/24 dev {interface}");
        let means = "it holds on its own link only, and the peer's address on another link cannot be reached from it";
        findings.mend((Devices, Level::Warning, "gid.link-local"), what, means, mend);
    }
    if entry.framing == Framing::Native {
        let what = format!("{} port {}: GID {} is RoCE v1 and has no v2 twin", choice.device, choice.port, entry.index);
        let means = "RoCE v1 is not routed, and a peer with RoCE v2 only cannot be reached";
        let mend = "keep both ends in one subnet, or update the device's firmware and driver to RoCE v2";
        findings.mend((Devices, Level::Warning, "gid.v1"), what, means, mend);
    }
    choice
}

fn shown<'a>(facts: &'a Facts, device: &str, port: u8, index: u32) -> Option<&'a Gid> {
    let ports = facts.devices.iter().filter(|d| d.name == device).flat_map(|d| &d.ports).filter(|p| p.number == port);
    ports.flat_map(|p| &p.gids).find(|gid| gid.index == index)
}

fn why(wanted: Wanted<'_>, ethernet: bool, gid: Option<[u8; 16]>) -> String {
    let order = "IPv4 before IPv6 before link-local, RoCE v2 before v1";
    match (wanted.device, wanted.address.filter(|address| !address.is_unspecified())) {
        (Some(_), Some(_)) if !ethernet => "it was named; an InfiniBand port is reached by its LID".into(),
        (Some(_), Some(address)) if gid != Some(gid_table::of_address(address)) => {
            format!("it was named; this end's address towards the server, {address}, is not its own, so: {order}")
        }
        (Some(_), Some(address)) => format!("it was named, and its GID table carries {address}"),
        (None, Some(address)) => format!("its GID table carries {address}"),
        (Some(_), None) => format!("it was named; no address was, so: {order}"),
        (None, None) => format!("the first device with an active port; no address was named, so: {order}"),
    }
}

/// Devices there are, but none that would do.
fn none_fits(facts: &Facts, purpose: &Purpose<'_>, refused: &[Refused], findings: &mut Findings) {
    let list = refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let level = purpose.without_device(Level::Warning);
    let mend = match purpose.wanted.device {
        Some(name) if refused.iter().all(|r| r.reason == Refusal::NotNamed) => {
            let names: Vec<_> = refused.iter().map(|r| r.device.as_str()).collect();
            format!("there is no device {name}; name one of: {}", names.join(", "))
        }
        _ => refused.iter().find_map(|r| mend(facts, r)).unwrap_or_else(|| "see the findings on each device".into()),
    };
    let what = format!("no device would be used: {list}");
    findings.mend((Devices, level, "choice.none"), what, without(purpose), mend);
}

fn without(purpose: &Purpose<'_>) -> &'static str {
    match purpose.without_device(Level::Warning) {
        Level::Fault => "verbs cannot be used as was asked",
        _ => "--fabric auto falls back to shared memory: server and clients on one host only",
    }
}

fn mend(facts: &Facts, refused: &Refused) -> Option<String> {
    let Refusal::NoPort(ports) = &refused.reason else { return None };
    ports.iter().find_map(|(number, reason)| match reason {
        PortRefusal::Elsewhere { address, carries } => {
            let device = facts.devices.iter().find(|d| d.name == refused.device);
            let port = device.and_then(|d| d.ports.iter().find(|p| p.number == *number));
            let interface = port.map_or("INTERFACE", |port| port.interface());
            let mut usable: Vec<_> =
                carries.iter().filter(|e| !gid_table::is_link_local(&e.gid)).map(|e| plain(&e.gid)).collect();
            // An address stands there once for each framing.
            usable.dedup();
            Some(match usable.as_slice() {
                [] => format!("ip address add {address}/24 dev {interface}"),
                some => format!("listen on {}; or: ip address add {address}/24 dev {interface}", some.join(" or ")),
            })
        }
        PortRefusal::NotActive | PortRefusal::NoGid => None,
    })
}

/// A GID as the address it carries.
fn plain(gid: &[u8; 16]) -> String {
    let address = std::net::Ipv6Addr::from(*gid);
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |v4| v4.to_string())
}

/// No device at all.
fn none_here(facts: &Facts, purpose: &Purpose<'_>, findings: &mut Findings) {
    if let (false, Survey::Failed(error)) = (facts.devices.is_empty(), &facts.survey) {
        let means = "the kernel has devices, but programs cannot reach them";
        findings.mend((Devices, purpose.without_device(Level::Warning), "uverbs.missing"), error, means, "modprobe ib_uverbs");
        return;
    }
    let level = purpose.without_device(Level::Note);
    let what = match &facts.survey {
        Survey::Failed(error) => error.clone(),
        Survey::Devices(_) | Survey::NotAsked => "no RDMA device".into(),
    };
    findings.mend((Devices, level, "device.none"), what, without(purpose), soft_roce(&facts.kernel));
}

/// How to get a device of software.
fn soft_roce(kernel: &Kernel) -> String {
    let interface = kernel.interfaces.first().map_or("INTERFACE", String::as_str);
    let link = format!("rdma link add rxe0 type rxe netdev {interface}");
    match kernel.soft_roce {
        Availability::Loaded => link,
        Availability::Loadable => format!("modprobe rdma_rxe && {link}"),
        Availability::Unknown => format!("on the host: modprobe rdma_rxe && {link}"),
        Availability::Absent => "this kernel has no Soft-RoCE either: `make lab-shell` gives a VM that has".into(),
    }
}

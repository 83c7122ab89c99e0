//! RDMA devices as sysfs shows them: tables that need neither rights nor libraries to be read.

use super::root::Root;
use serde::Serialize;
use sidewire_common::fabric::gid_table::{Framing, GidEntry};
use sidewire_common::fabric::selection::{Candidate, DeviceTable, PortTable};
use std::net::Ipv6Addr;

const CLASS: &str = "sys/class/infiniband";
/// `sgid_index` of an address handle has eight bits.
const GID_INDEXES_MAX: usize = 256;

/// A device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Device {
    pub name: String,
    /// `node_type` of sysfs, such as `1: CA`.
    pub node_type: String,
    pub firmware: Option<String>,
    /// The node whose memory is near; -1 when there is none.
    pub numa_node: Option<i64>,
    /// Made by a driver of software, such as rxe.
    pub is_software: bool,
    pub file: DeviceFile,
    pub ports: Vec<Port>,
}

/// The file through which programs use a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DeviceFile {
    /// Such as `/dev/infiniband/uverbs0`; `None` when the kernel has made none.
    pub path: Option<String>,
    /// Why it cannot be opened, and the error number.
    pub trouble: Option<(String, i32)>,
}

/// A port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Port {
    pub number: u8,
    /// Such as `4: ACTIVE`.
    pub state: String,
    /// Such as `5: LinkUp`.
    pub physical: String,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    pub gids: Vec<Gid>,
}

/// An entry of the GID table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Gid {
    pub index: u32,
    pub gid: String,
    /// Such as `RoCE v2`.
    pub framing: String,
    pub interface: Option<String>,
    /// Whether the interface is in this network namespace.
    pub here: bool,
    #[serde(skip)]
    pub entry: GidEntry,
}

impl Device {
    pub fn is_iwarp(&self) -> bool {
        self.node_type.ends_with("RNIC")
    }
}

impl Port {
    pub fn is_active(&self) -> bool {
        self.state.ends_with("ACTIVE")
    }

    pub fn is_ethernet(&self) -> bool {
        self.link_layer == "Ethernet"
    }

    /// An interface to which an address can be given.
    pub fn interface(&self) -> &str {
        self.gids.iter().find_map(|gid| gid.interface.as_deref()).unwrap_or("INTERFACE")
    }
}

/// All of them.
pub fn read(root: &Root) -> Vec<Device> {
    root.names(CLASS).into_iter().map(|name| device(root, name)).collect()
}

fn device(root: &Root, name: String) -> Device {
    let at = |file: &str| format!("{CLASS}/{name}/{file}");
    let ports = root.names(&at("ports")).into_iter().filter_map(|number| Some((number.parse().ok()?, number)));
    Device {
        node_type: root.text(&at("node_type")).unwrap_or_default(),
        firmware: root.text(&at("fw_ver")).filter(|version| !version.is_empty()),
        numa_node: root.number(&at("device/numa_node")),
        is_software: root.exists(&at("parent")) || !root.exists(&at("device")),
        file: device_file(root, &name),
        ports: ports.map(|(number, text)| port(root, &at(&format!("ports/{text}")), number)).collect(),
        name,
    }
}

fn device_file(root: &Root, name: &str) -> DeviceFile {
    let class = "sys/class/infiniband_verbs";
    let node = root.names(class).into_iter().find(|node| root.text(&format!("{class}/{node}/ibdev")).as_deref() == Some(name));
    let Some(node) = node else { return DeviceFile { path: None, trouble: None } };
    let path = format!("dev/infiniband/{node}");
    let trouble = root.open_device(&path).err().map(|error| (error.to_string(), error.raw_os_error().unwrap_or(0)));
    DeviceFile { path: Some(format!("/{path}")), trouble }
}

fn port(root: &Root, at: &str, number: u8) -> Port {
    let text = |file: &str| root.text(&format!("{at}/{file}")).unwrap_or_default();
    let indexes = root.names(&format!("{at}/gids")).into_iter().filter_map(|name| name.parse().ok());
    Port {
        number,
        state: text("state"),
        physical: text("phys_state"),
        link_layer: text("link_layer"),
        gids: indexes.take(GID_INDEXES_MAX).filter_map(|index| gid(root, at, index)).collect(),
    }
}

/// The kernel answers with zeroes, or with an error for the type, where an entry is not in use.
fn gid(root: &Root, at: &str, index: u32) -> Option<Gid> {
    let address: Ipv6Addr = root.number(&format!("{at}/gids/{index}"))?;
    if address.is_unspecified() {
        return None;
    }
    let types = format!("{at}/gid_attrs/types/{index}");
    let framing = match root.text(&types) {
        Some(framing) => framing,
        // A kernel too old to know types knows only the first.
        None if !root.exists(&types) => "IB/RoCE v1".into(),
        None => return None,
    };
    let interface = root.text(&format!("{at}/gid_attrs/ndevs/{index}")).filter(|name| !name.is_empty());
    let here = interface.as_ref().is_none_or(|name| root.exists(&format!("sys/class/net/{name}")));
    let kind = if framing == "RoCE v2" { Framing::RoceV2 } else { Framing::Native };
    let entry = GidEntry { index, gid: address.octets(), framing: kind };
    Some(Gid { index, gid: address.to_string(), framing, interface, here, entry })
}

/// A device of a copy, which can only be read: what sysfs does not tell is taken for good.
impl Candidate for &Device {
    type Opened = ();

    fn name(&self) -> &str {
        &self.name
    }

    fn is_iwarp(&self) -> bool {
        Device::is_iwarp(self)
    }

    fn open(&self) -> Result<((), DeviceTable), String> {
        match (&self.file.path, &self.file.trouble) {
            (None, _) => return Err("it has no file in /dev/infiniband".into()),
            (Some(path), Some((trouble, _))) => return Err(format!("{path}: {trouble}")),
            (Some(_), None) => {}
        }
        let table = |port: &Port| PortTable {
            number: port.number,
            active: port.is_active(),
            ethernet: port.is_ethernet(),
            mtu_bytes: 0,
            gids: port.gids.iter().map(|gid| gid.entry).collect(),
        };
        let ports = self.ports.iter().map(table).collect();
        Ok(((), DeviceTable { atomics: true, initiator_depth: 0, responder_depth: 0, ports }))
    }
}

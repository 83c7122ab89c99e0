//! Devices and ports one by one.

use super::Purpose;
use crate::doctor::facts::{Device, Facts, Port, Survey};
use crate::doctor::finding::Area::Devices;
use crate::doctor::finding::{Findings, Level};
use sidewire_common::fabric::selection::DeviceTable;

/// Path MTU of Ethernet that is worth having, and the interface's MTU that gives it.
const MTU_GOOD: u32 = 4096;
const INTERFACE_MTU: u32 = 4200;
/// Path MTU of an interface with 1,500 bytes.
const MTU_USUAL: u32 = 1024;
/// Reads in flight below which a Get of several records waits for itself.
const READ_DEPTH_LOW: u32 = 4;
/// Error numbers of a device file that is closed to us.
const EPERM: i32 = 1;
const EACCES: i32 = 13;

pub fn judge(facts: &Facts, purpose: &Purpose<'_>, findings: &mut Findings) {
    for device in &facts.devices {
        let named = purpose.wanted.device == Some(&device.name);
        let level = if named { Level::Fault } else { Level::Warning };
        if device.is_iwarp() {
            iwarp(device, level, findings);
            continue;
        }
        file(device, level, findings);
        let survey = facts.survey.of(&device.name);
        // libibverbs leaves out a device whose file it cannot find, which is told already.
        let has_file = device.file.path.is_some() && device.file.trouble.is_none();
        if let (Survey::Devices(_), None, true) = (&facts.survey, survey, has_file) {
            let means = "the kernel knows the device, libibverbs does not: its driver's half in user space is missing";
            let mend = "apt-get install ibverbs-providers";
            findings.mend(
                (Devices, level, "device.no-provider"),
                format!("{}: not known to libibverbs", device.name),
                means,
                mend,
            );
        }
        let table = survey.and_then(|surveyed| surveyed.table.as_ref().ok());
        if let Some(table) = table {
            capabilities(device, table, level, findings);
        }
        for port in &device.ports {
            let mtu = table.and_then(|table| table.ports.iter().find(|p| p.number == port.number)).map(|p| p.mtu_bytes);
            self::port(device, port, mtu, level, findings);
        }
        numa(device, facts, findings);
    }
}

fn iwarp(device: &Device, level: Level, findings: &mut Findings) {
    let what = format!("{}: an iWARP device", device.name);
    let means = "iWARP has no Write-with-Immediate and no atomics, on which Sidewire is built: the device is never used";
    let mend = format!("use a RoCE or InfiniBand device, or Soft-RoCE: rdma link add rxe0 type rxe netdev {}", interface(device));
    findings.mend((Devices, level, "device.iwarp"), what, means, mend);
}

fn interface(device: &Device) -> &str {
    device.ports.first().map_or("INTERFACE", Port::interface)
}

fn file(device: &Device, level: Level, findings: &mut Findings) {
    let name = &device.name;
    let Some(path) = &device.file.path else {
        let means = "programs reach a device through its file in /dev/infiniband, and the kernel has made none";
        findings.mend((Devices, level, "device.no-file"), format!("{name}: no uverbs file"), means, "modprobe ib_uverbs");
        return;
    };
    match &device.file.trouble {
        None => findings.ok(Devices, "device.file", format!("{name}: {path} can be opened"), "this user may use the device"),
        Some((trouble, EACCES)) => {
            let mend = format!(
                "chmod 0666 {path}; for good: echo 'KERNEL==\"uverbs*\", MODE=\"0666\"' > /etc/udev/rules.d/90-rdma.rules"
            );
            let means = "this user may not use the device; root or the file's group may";
            findings.mend((Devices, level, "device.closed"), format!("{name}: {path}: {trouble}"), means, mend);
        }
        Some((trouble, number)) => {
            let means = match *number {
                EPERM => "the container's list of devices forbids it",
                _ => "the device is known here, but its file is not: a container gets only the devices it is given",
            };
            let mend = format!("docker run --device {path} --ulimit memlock=-1 ..., or an RDMA device plugin in Kubernetes");
            findings.mend((Devices, level, "device.not-given"), format!("{name}: {path}: {trouble}"), means, mend);
        }
    }
}

fn capabilities(device: &Device, table: &DeviceTable, level: Level, findings: &mut Findings) {
    let name = &device.name;
    if table.atomics {
        let means = "counters and locks are carried out by the device";
        findings.ok(Devices, "device.atomics", format!("{name}: Fetch-and-Add and Compare-and-Swap"), means);
    } else {
        let means = "counters and locks need Fetch-and-Add and Compare-and-Swap: the device is never used";
        let mend = "use another device, or switch atomics on in its firmware (mlxconfig: PCI_ATOMIC_MODE)";
        findings.mend((Devices, level, "device.no-atomics"), format!("{name}: no atomics"), means, mend);
    }
    let depth = table.initiator_depth.min(table.responder_depth);
    let what =
        format!("{name}: {} reads and atomics in flight from here, {} to here", table.initiator_depth, table.responder_depth);
    if depth < READ_DEPTH_LOW {
        let means = "several Gets at once wait for each other on one connection";
        let mend = format!("raise it in the firmware (ibv_devinfo -v -d {name} shows max_qp_rd_atom)");
        findings.mend((Devices, Level::Warning, "device.read-depth"), what, means, mend);
    } else {
        findings.ok(Devices, "device.read-depth", what, "the smaller figure of both ends holds on a connection");
    }
}

fn port(device: &Device, port: &Port, mtu: Option<u32>, level: Level, findings: &mut Findings) {
    let name = format!("{} port {}", device.name, port.number);
    if !port.is_active() {
        let what = format!("{name}: {}, {}", port.state, port.physical);
        let mend = match (port.is_ethernet(), port.state.contains("INIT")) {
            (true, _) => {
                format!("ip link set dev {} up; then look at cable and switch (rdma link show)", interface_of(device, port))
            }
            (false, true) => "start a subnet manager on the fabric: systemctl start opensm".into(),
            (false, false) => "look at cable and switch (ibstat)".into(),
        };
        findings.mend((Devices, level, "port.down"), what, "no packet leaves or enters: the port is not used", mend);
        return;
    }
    let speaks = mtu.map_or(String::new(), |mtu| format!(", path MTU {mtu}"));
    findings.ok(Devices, "port.up", format!("{name}: active, {}{speaks}", port.link_layer), "it carries traffic");
    if port.is_ethernet() {
        ethernet_mtu(&name, port, mtu, findings);
    } else {
        let what = format!("{name}: the link layer is InfiniBand");
        let means = "it has no IP address to be recognised by, so it is used only when it is named";
        let mend = format!("name it on both sides: --device {}", device.name);
        findings.mend((Devices, Level::Note, "port.infiniband"), what, means, mend);
    }
}

fn interface_of<'a>(device: &'a Device, port: &'a Port) -> &'a str {
    if port.gids.is_empty() { interface(device) } else { port.interface() }
}

fn ethernet_mtu(name: &str, port: &Port, mtu: Option<u32>, findings: &mut Findings) {
    let Some(mtu) = mtu.filter(|&mtu| mtu < MTU_GOOD) else { return };
    let interface = port.interface();
    let what = format!("{name}: path MTU {mtu}, {MTU_GOOD} is the most");
    let means = "long values take more packets; the smaller MTU of both ends is used, so nothing breaks";
    let mend = format!("ip link set dev {interface} mtu {INTERFACE_MTU}, at both ends and on the switch");
    let level = if mtu < MTU_USUAL { Level::Warning } else { Level::Note };
    findings.mend((Devices, level, "port.mtu"), what, means, mend);
}

fn numa(device: &Device, facts: &Facts, findings: &mut Findings) {
    let Some(node) = device.numa_node.filter(|&node| node >= 0 && facts.memory.nodes.len() > 1) else { return };
    let what = format!("{}: near NUMA node {node} of {}", device.name, facts.memory.nodes.len());
    let means = "memory and threads on another node cost each access a hop between sockets";
    let mend = format!("numactl --cpunodebind={node} --membind={node} kv-server ...");
    findings.mend((Devices, Level::Note, "device.numa"), what, means, mend);
}

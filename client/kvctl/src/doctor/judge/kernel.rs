//! Modules, Soft-RoCE, namespaces, containers.

use super::Purpose;
use crate::doctor::facts::{Availability, Facts};
use crate::doctor::finding::Area;
use crate::doctor::finding::{Findings, Level};
use sidewire::FabricKind;

pub fn judge(facts: &Facts, purpose: &Purpose<'_>, findings: &mut Findings) {
    let kernel = &facts.kernel;
    let modules = if kernel.modules.is_empty() { "none".into() } else { kernel.modules.join(", ") };
    let what = format!("Linux {}, RDMA modules: {modules}", kernel.release);
    findings.ok(Area::Kernel, "kernel.modules", what, "verbs need ib_uverbs and a device's driver; shared memory needs none");
    if !facts.devices.is_empty() && kernel.uverbs != Availability::Loaded {
        let means = "programs reach devices through ib_uverbs, which is not loaded";
        let level = purpose.without_device(Level::Warning);
        findings.mend((Area::Kernel, level, "kernel.uverbs"), "ib_uverbs is not loaded", means, "modprobe ib_uverbs");
    }
    soft_roce(facts, purpose, findings);
    namespaces(facts, purpose, findings);
    if let Some(mark) = &kernel.container {
        let means = "devices, locked memory and hugepages are what the container was given; see the findings on each";
        findings.note(Area::Kernel, "kernel.container", format!("this is a container ({mark})"), means);
    }
}

fn soft_roce(facts: &Facts, purpose: &Purpose<'_>, findings: &mut Findings) {
    let (kernel, area) = (&facts.kernel, Area::Kernel);
    let wanted = facts.devices.is_empty() && purpose.fabric == Some(FabricKind::Verbs);
    let level = if wanted { Level::Warning } else { Level::Note };
    match kernel.soft_roce {
        Availability::Loaded => {
            findings.ok(area, "soft-roce", "Soft-RoCE (rdma_rxe) is loaded", "any interface can be an RDMA device")
        }
        Availability::Loadable if kernel.modules_closed => {
            let means = "kernel.modules_disabled is 1: until the next boot no module can be loaded";
            findings.mend((area, level, "soft-roce.closed"), "Soft-RoCE (rdma_rxe) is there but not loaded", means, "reboot");
        }
        Availability::Loadable => {
            let means = "any interface can be made an RDMA device";
            findings.ok(area, "soft-roce", "Soft-RoCE (rdma_rxe) can be loaded: modprobe rdma_rxe", means);
        }
        Availability::Absent => {
            let what = format!("Soft-RoCE (rdma_rxe) is not among the modules of {}", kernel.release);
            let means = "without an RDMA NIC this machine has shared memory only";
            let mend = format!(
                "apt-get install linux-modules-extra-{} (Ubuntu), boot a kernel with CONFIG_RDMA_RXE, or try verbs in a VM: make lab-shell",
                kernel.release
            );
            findings.mend((area, level, "soft-roce.absent"), what, means, mend);
        }
        Availability::Unknown => {
            let means = "the kernel's list of modules is not here, so modprobe would find nothing";
            let mend = "modprobe rdma_rxe on the host (it shows in `kvctl doctor` there)";
            findings.mend((area, level, "soft-roce.unknown"), "whether there is Soft-RoCE cannot be told", means, mend);
        }
    }
}

fn namespaces(facts: &Facts, purpose: &Purpose<'_>, findings: &mut Findings) {
    let (kernel, area) = (&facts.kernel, Area::Kernel);
    match kernel.exclusive_namespaces {
        Some(true) if facts.devices.is_empty() => {
            let what = "each network namespace sees its own RDMA devices only, and this one has none";
            let means = "a device of the host stays invisible here until it is moved";
            let mend = "on the host: rdma dev set DEVICE netns NAME, or rdma system set netns shared";
            findings.mend((area, purpose.without_device(Level::Warning), "namespace.exclusive"), what, means, mend);
        }
        Some(true) => {
            let means = "devices belong to one namespace; programs in others do not see them";
            findings.note(area, "namespace.exclusive", "each network namespace sees its own RDMA devices only", means);
        }
        Some(false) => {
            let means = "a device is visible everywhere, its GIDs work where their interface is";
            findings.ok(area, "namespace.shared", "network namespaces share RDMA devices", means);
        }
        None => {}
    }
    let soft: Vec<_> = facts.devices.iter().filter(|device| device.is_software).map(|device| device.name.as_str()).collect();
    if kernel.other_namespace && !soft.is_empty() {
        let what = format!("this is not the first network namespace, and {} is a device of software", soft.join(", "));
        let means = "Soft-RoCE of older kernels works in the first network namespace only";
        let mend = "run in the host's namespace: docker run --network host, nsenter --net=/proc/1/ns/net";
        findings.mend((area, Level::Warning, "namespace.soft-roce"), what, means, mend);
    }
}

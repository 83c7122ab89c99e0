//! Memory, hugepages, NUMA, `/dev/shm`.

use super::Purpose;
use crate::doctor::facts::{Hugepages, Memory};
use crate::doctor::finding::Area::Memory as AREA;
use crate::doctor::finding::{Findings, Level};
use sidewire_common::units::format_bytes;

/// The size of hugepage that pools use.
const HUGEPAGE_BYTES: u64 = 2 << 20;
/// A `/dev/shm` that programs other than Sidewire complain about.
const DEV_SHM_SMALL: u64 = 128 << 20;

pub fn judge(memory: &Memory, purpose: &Purpose<'_>, findings: &mut Findings) {
    available(memory, purpose, findings);
    hugepages(memory, purpose, findings);
    numa(memory, findings);
    shared_memory(memory, findings);
}

fn available(memory: &Memory, purpose: &Purpose<'_>, findings: &mut Findings) {
    let needed = purpose.memory_bytes;
    let pool_free = all_nodes(memory).map_or(0, |pages| pages.free * pages.page_bytes);
    let (left, what) = match &memory.group {
        Some(group) if group.limit_bytes.saturating_sub(group.used_bytes) < memory.available_bytes => {
            let left = group.limit_bytes.saturating_sub(group.used_bytes);
            (left, format!("{} of memory left below the limit of {}", format_bytes(left), group.path))
        }
        _ => (
            memory.available_bytes,
            format!("{} of {} available", format_bytes(memory.available_bytes), format_bytes(memory.total_bytes)),
        ),
    };
    if left.max(pool_free) >= needed {
        findings.ok(AREA, "memory", what, format!("a server with --memory {} fits", size(needed)));
        return;
    }
    let means = format!("a server with --memory {} does not fit and refuses to start", size(needed));
    let mend = format!(
        "start it with --memory {}, free memory, or raise the container's limit",
        size((left / 2).next_multiple_of(1 << 20))
    );
    findings.mend((AREA, purpose.without_memory(), "memory.short"), what, means, mend);
}

fn size(bytes: u64) -> String {
    format_bytes(bytes).replace(' ', "")
}

fn all_nodes(memory: &Memory) -> Option<&Hugepages> {
    memory.hugepages.iter().find(|pages| pages.node.is_none() && pages.page_bytes == HUGEPAGE_BYTES)
}

fn on_nodes(memory: &Memory) -> impl Iterator<Item = &Hugepages> {
    memory.hugepages.iter().filter(|pages| pages.node.is_some() && pages.page_bytes == HUGEPAGE_BYTES)
}

fn hugepages(memory: &Memory, purpose: &Purpose<'_>, findings: &mut Findings) {
    let needed = purpose.memory_bytes.div_ceil(HUGEPAGE_BYTES);
    let Some(all) = all_nodes(memory) else {
        let means = "pools use pages of 4 KiB, which costs address translation in CPU and NIC";
        findings.note(AREA, "hugepages.none", "this kernel has no hugepages of 2 MiB", means);
        return;
    };
    let raise = format!("sysctl -w vm.nr_hugepages={}", all.total + needed.saturating_sub(all.free));
    if let Some(limit) = memory.hugepage_group_bytes.filter(|limit| *limit < purpose.memory_bytes) {
        let what = format!("the control group allows {} of hugepages", format_bytes(limit));
        let means = "reserving more fails, and touching more would end the server";
        let mend = "raise hugetlb.2MB.max of the group, or hugepages-2Mi in the pod's limits; or use --hugepages off";
        findings.mend((AREA, Level::Warning, "hugepages.group"), what, means, mend);
    }
    let what = format!("hugepages of 2 MiB: {} of {} free{}", all.free, all.total, by_node(memory));
    if all.free >= needed {
        findings.ok(AREA, "hugepages", what, format!("a server with --memory {} takes {needed}", size(purpose.memory_bytes)));
        uneven(memory, needed, findings);
    } else if all.total == 0 {
        let means = "pools use pages of 4 KiB: it works, at more cost in CPU and NIC; --hugepages require refuses to start";
        findings.mend((AREA, Level::Note, "hugepages.none"), what, means, raise);
    } else {
        let means = format!(
            "a server with --memory {} needs {needed}: auto falls back to 4 KiB, require refuses",
            size(purpose.memory_bytes)
        );
        findings.mend((AREA, Level::Warning, "hugepages.short"), what, means, raise);
    }
    for other in memory.hugepages.iter().filter(|p| p.node.is_none() && p.page_bytes != HUGEPAGE_BYTES && p.total > 0) {
        let what = format!("hugepages of {}: {} of {} free", format_bytes(other.page_bytes), other.free, other.total);
        findings.note(AREA, "hugepages.other", what, "pools use pages of 2 MiB only; these stay unused");
    }
}

fn by_node(memory: &Memory) -> String {
    let nodes: Vec<_> = on_nodes(memory).map(|pages| format!("node {}: {}", pages.node.unwrap_or(0), pages.free)).collect();
    if nodes.len() > 1 { format!(" ({})", nodes.join(", ")) } else { String::new() }
}

/// Enough altogether, but not on every node: a server bound to one finds too few.
fn uneven(memory: &Memory, needed: u64, findings: &mut Findings) {
    if memory.nodes.len() < 2 {
        return;
    }
    for short in on_nodes(memory).filter(|pages| pages.free < needed) {
        let node = short.node.unwrap_or(0);
        let what = format!("NUMA node {node} has {} free hugepages of 2 MiB, {needed} are needed", short.free);
        let means = "a server that is bound to this node, where its device may be, finds too few";
        let number = short.total + needed - short.free;
        let mend = format!("echo {number} > /sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages");
        findings.mend((AREA, Level::Warning, "hugepages.node-short"), what, means, mend);
    }
}

fn numa(memory: &Memory, findings: &mut Findings) {
    if memory.nodes.len() < 2 {
        findings.ok(AREA, "numa", "one NUMA node", "all memory is near");
    } else if memory.numa_balancing {
        let what = format!("{} NUMA nodes, automatic balancing is on", memory.nodes.len());
        let means = "the kernel unmaps pages to see who uses them: single calls take milliseconds longer";
        findings.mend((AREA, Level::Warning, "numa.balancing"), what, means, "sysctl -w kernel.numa_balancing=0");
    } else {
        findings.ok(
            AREA,
            "numa",
            format!("{} NUMA nodes, automatic balancing is off", memory.nodes.len()),
            "pages stay where they are",
        );
    }
}

fn shared_memory(memory: &Memory, findings: &mut Findings) {
    match &memory.memfd_trouble {
        Some(trouble) => {
            let means = "pools are sealed memfds, over verbs and over shared memory: no server can start here";
            let mend = "Linux 5.1 or later is needed; where vm.memfd_noexec is 2: sysctl -w vm.memfd_noexec=1";
            findings.mend((AREA, Level::Fault, "memfd"), format!("a sealed memfd cannot be had: {trouble}"), means, mend);
        }
        None => findings.ok(AREA, "memfd", "sealed memfds can be had", "pools and the shared-memory fabric are made of them"),
    }
    let what = match memory.dev_shm_bytes {
        Some(bytes) => format!("/dev/shm has {}", format_bytes(bytes)),
        None => "/dev/shm is not there or does not tell its size".into(),
    };
    let means = "its size does not bound Sidewire, whose pools are memfds; other programs beside it may need more";
    if memory.dev_shm_bytes.is_some_and(|bytes| bytes < DEV_SHM_SMALL) {
        let mend = "mount -o remount,size=1G /dev/shm, or docker run --shm-size=1g";
        findings.mend((AREA, Level::Note, "dev-shm.small"), what, means, mend);
    } else {
        findings.ok(AREA, "dev-shm", what, means);
    }
}

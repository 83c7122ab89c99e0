//! Memory: what there is, hugepages by size and node, NUMA, `/dev/shm`.

use super::root::Root;
use serde::Serialize;

/// Memory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Memory {
    pub total_bytes: u64,
    pub available_bytes: u64,
    /// The tightest control group around this process: its limit and what is used of it.
    pub group: Option<GroupLimit>,
    pub hugepages: Vec<Hugepages>,
    /// Bytes of 2 MiB hugepages that the control group allows; `None` is no limit.
    pub hugepage_group_bytes: Option<u64>,
    pub nodes: Vec<u32>,
    pub numa_balancing: bool,
    /// Size of `/dev/shm`, bytes; `None` when there is none or it does not tell.
    pub dev_shm_bytes: Option<u64>,
    /// Why a sealed memfd cannot be had; `None` when it can, or when nobody tried.
    pub memfd_trouble: Option<String>,
}

/// A control group's limit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupLimit {
    pub path: String,
    pub limit_bytes: u64,
    pub used_bytes: u64,
}

/// Hugepages of one size, on all nodes or one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Hugepages {
    pub page_bytes: u64,
    /// `None` for all nodes together.
    pub node: Option<u32>,
    pub total: u64,
    pub free: u64,
}

pub fn read(root: &Root) -> Memory {
    let meminfo = root.text("proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    let nodes: Vec<u32> =
        root.names("sys/devices/system/node").iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    let mut hugepages = pages_below(root, "sys/kernel/mm/hugepages", None);
    for node in &nodes {
        hugepages.extend(pages_below(root, &format!("sys/devices/system/node/node{node}/hugepages"), Some(*node)));
    }
    let groups = groups(root);
    let hugepage_limits = groups.iter().filter_map(|group| root.number(&format!("sys/fs/cgroup{group}/hugetlb.2MB.max")));
    Memory {
        total_bytes: bytes("MemTotal"),
        available_bytes: bytes("MemAvailable"),
        group: tightest(root, &groups),
        hugepages,
        hugepage_group_bytes: hugepage_limits.min(),
        nodes,
        numa_balancing: root.number::<u32>("proc/sys/kernel/numa_balancing").is_some_and(|mode| mode != 0),
        dev_shm_bytes: dev_shm(root),
        memfd_trouble: None,
    }
}

fn pages_below(root: &Root, at: &str, node: Option<u32>) -> Vec<Hugepages> {
    let size =
        |name: &String| Some((name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()? * 1024, name.clone()));
    let mut sizes: Vec<_> = root.names(at).iter().filter_map(size).collect();
    sizes.sort();
    let number = |name: &str, file: &str| root.number(&format!("{at}/{name}/{file}")).unwrap_or(0);
    let of = |(page_bytes, name): (u64, String)| Hugepages {
        page_bytes,
        node,
        total: number(&name, "nr_hugepages"),
        free: number(&name, "free_hugepages"),
    };
    sizes.into_iter().map(of).collect()
}

/// This process's control group (version 2) and those above it, by their paths; the root is "".
fn groups(root: &Root) -> Vec<String> {
    let membership = root.text("proc/self/cgroup").unwrap_or_default();
    let path = membership.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("").trim_end_matches('/').to_owned();
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| path[..end].to_owned()).collect()
}

fn tightest(root: &Root, groups: &[String]) -> Option<GroupLimit> {
    let limit = |path: &String| {
        let limit_bytes = root.number(&format!("sys/fs/cgroup{path}/memory.max"))?;
        let used_bytes = root.number(&format!("sys/fs/cgroup{path}/memory.current")).unwrap_or(0);
        Some(GroupLimit { path: format!("/sys/fs/cgroup{path}"), limit_bytes, used_bytes })
    };
    groups.iter().filter_map(limit).min_by_key(|group| group.limit_bytes.saturating_sub(group.used_bytes))
}

fn dev_shm(root: &Root) -> Option<u64> {
    if root.is_live() {
        let figures = rustix::fs::statvfs(root.path("dev/shm")).ok()?;
        return Some(figures.f_blocks * figures.f_frsize);
    }
    let mounts = root.text("proc/mounts")?;
    let options =
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words.get(1) == Some(&"/dev/shm"))?;
    let size = options.get(3)?.split(',').find_map(|option| option.strip_prefix("size="))?;
    Some(size.strip_suffix('k')?.parse::<u64>().ok()? * 1024)
}

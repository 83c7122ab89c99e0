//! The kernel: modules, Soft-RoCE, namespaces, containers.

use super::root::Root;
use serde::Serialize;

/// Modules that are told of when they are loaded.
const MODULES: [&str; 6] = ["ib_core", "ib_uverbs", "rdma_rxe", "siw", "mlx5_ib", "rdma_cm"];

/// Whether a module can be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    /// It is in the kernel now.
    Loaded,
    /// `modprobe` would find it.
    Loadable,
    /// This kernel has no such module.
    Absent,
    /// The modules' list is not here, as in most containers.
    Unknown,
}

/// The kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Kernel {
    pub release: String,
    /// Of those that matter here, the loaded ones.
    pub modules: Vec<String>,
    pub soft_roce: Availability,
    pub uverbs: Availability,
    /// Whether no module can be loaded any more.
    pub modules_closed: bool,
    /// Whether each network namespace sees its own devices only; `None` without RDMA.
    pub exclusive_namespaces: Option<bool>,
    /// Whether this process is in another network namespace than the first process.
    pub other_namespace: bool,
    /// Network interfaces but the loopback.
    pub interfaces: Vec<String>,
    /// What shows that this is a container.
    pub container: Option<String>,
}

pub fn read(root: &Root) -> Kernel {
    let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = MODULES.into_iter().filter(|name| root.exists(&format!("sys/module/{name}")));
    let namespace = |of: &str| std::fs::read_link(root.path(&format!("proc/{of}/ns/net"))).ok();
    let (own, first) = (namespace("self"), namespace("1"));
    Kernel {
        modules: modules.map(str::to_owned).collect(),
        soft_roce: availability(root, &release, "rdma_rxe"),
        uverbs: availability(root, &release, "ib_uverbs"),
        modules_closed: root.text("proc/sys/kernel/modules_disabled").as_deref() == Some("1"),
        exclusive_namespaces: root.text("sys/module/ib_core/parameters/netns_mode").map(|shared| shared == "N"),
        other_namespace: own.is_some() && first.is_some() && own != first,
        interfaces: root.names("sys/class/net").into_iter().filter(|name| name != "lo").collect(),
        container: container(root),
        release,
    }
}

fn availability(root: &Root, release: &str, module: &str) -> Availability {
    if root.exists(&format!("sys/module/{module}")) {
        return Availability::Loaded;
    }
    let named = |list: &str| {
        let text = root.text(&format!("lib/modules/{release}/{list}"))?;
        let is_it = |line: &str| line.split(':').next().is_some_and(|path| path.contains(&format!("/{module}.ko")));
        Some(text.lines().any(is_it))
    };
    match (named("modules.dep"), named("modules.builtin")) {
        (None, None) => Availability::Unknown,
        (Some(true), _) | (_, Some(true)) => Availability::Loadable,
        _ => Availability::Absent,
    }
}

fn container(root: &Root) -> Option<String> {
    let marks = [(".dockerenv", "/.dockerenv"), ("run/.containerenv", "/run/.containerenv")];
    if let Some((_, mark)) = marks.into_iter().find(|(path, _)| root.exists(path)) {
        return Some(mark.into());
    }
    let environment = root.text("proc/1/environ")?;
    let named = environment.split('\0').find(|variable| variable.starts_with("container="))?;
    Some(named.to_owned())
}

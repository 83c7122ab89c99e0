//! Where a run took place: a figure without it cannot be compared.

use serde::Serialize;
use sidewire::Client;
use sidewire_proto::v1::InfoReply;

/// Machine, fabric and versions.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// System and release.
    pub kernel: String,
    /// `verbs` or `shm`.
    pub fabric: String,
    /// This end's RDMA device.
    pub device: String,
    /// This end's GID.
    pub gid: String,
    /// Active path MTU, bytes.
    pub mtu: u32,
    /// Who executes atomics.
    pub atomics: String,
    /// The server's pages.
    pub pages: String,
    /// The server's address.
    pub server: String,
    /// The server's workers.
    pub workers: usize,
    /// The server's version.
    pub server_version: String,
    /// This program's version.
    pub kv_bench_version: &'static str,
    /// Whether this program was built with optimizations left out.
    pub debug_build: bool,
}

impl Environment {
    /// Looks around.
    pub fn of(client: &Client, info: &InfoReply) -> Self {
        let attachment = client.attachment();
        let atomics = info.fabric.as_ref().map(|fabric| fabric.atomics.clone()).unwrap_or_default();
        Self {
            device: attachment.device,
            gid: attachment.gid,
            mtu: attachment.mtu_bytes,
            atomics,
            pages: info.pages.clone(),
            workers: info.workers.len(),
            ..Self::of_peer(&attachment.server, &attachment.fabric.to_string(), &info.version)
        }
    }

    /// This machine and a store of another kind.
    pub fn of_peer(server: &str, fabric: &str, version: &str) -> Self {
        let system = rustix::system::uname();
        Self {
            cpu: cpu_name(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            fabric: fabric.into(),
            device: String::new(),
            gid: String::new(),
            mtu: 0,
            atomics: String::new(),
            pages: String::new(),
            server: server.into(),
            workers: 0,
            server_version: version.into(),
            kv_bench_version: env!("CARGO_PKG_VERSION"),
            debug_build: cfg!(debug_assertions),
        }
    }
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"));
    line.and_then(|line| line.split_once(':')).map_or_else(|| "unknown".into(), |(_, name)| name.trim().to_owned())
}

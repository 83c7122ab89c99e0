//! What a server holds for its clients, and what a process holds open.

use crate::{Server, setting};
use sidewire_common::host;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a server holds for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauges {
    /// Clients.
    pub clients: usize,
    /// Their connections to all workers.
    pub connections: u32,
    /// Cells of counters, sequences and locks.
    pub cells: u64,
    /// Descriptors, by what they are.
    pub files: BTreeMap<String, usize>,
}

impl Gauges {
    /// As the server tells them, once the connection that asked is gone too.
    #[must_use]
    pub fn of(server: &Server) -> Self {
        let info = server.info();
        std::thread::sleep(Duration::from_millis(100));
        Self {
            clients: info.clients.len(),
            connections: info.workers.iter().map(|worker| worker.connections).sum(),
            cells: info.cells_in_use,
            files: files(&server.pid().to_string()),
        }
    }

    /// Those of a server whose first client has come and gone.
    #[must_use]
    pub fn at_rest(server: &Server) -> Self {
        drop(server.client().session().expect("a server at rest takes a session"));
        let until = Instant::now() + setting::patience(Duration::from_secs(3));
        loop {
            let now = Self::of(server);
            if (now.clients == 0 && now.connections == 0) || Instant::now() > until {
                return now;
            }
        }
    }

    /// Waits until the server holds no more than this.
    ///
    /// # Panics
    /// When it still does after `limit`.
    pub fn wait_for(&self, server: &Server, limit: Duration) {
        let until = Instant::now() + limit;
        loop {
            let now = Self::of(server);
            if now == *self {
                return;
            }
            assert!(Instant::now() < until, "{now:?}, it was {self:?}");
        }
    }
}

/// A process's descriptors by what they are. Memory pools grow with what is stored, and are left out.
#[must_use]
pub fn files(process: &str) -> BTreeMap<String, usize> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().filter_map(Result::ok) {
        let Ok(link) = std::fs::read_link(entry.path()) else { continue };
        let name: String = link.to_string_lossy().chars().filter(|c| !c.is_ascii_digit()).collect();
        *files.entry(name).or_default() += 1;
    }
    files.retain(|name, _| !name.contains("sidewire-heap") && !name.contains("sidewire-index"));
    files
}

/// Resident memory of a process, bytes.
///
/// # Panics
/// When there is no such process.
#[must_use]
pub fn resident_bytes(pid: u32) -> u64 {
    let bytes = host::resident_bytes(&pid.to_string());
    assert!(bytes > 0, "process {pid} runs");
    bytes
}

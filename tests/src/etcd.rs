//! An etcd of the tests' own, on ports that the system picks. It is ended by its own process id.

use crate::setting;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time for etcd to take connections.
const START: Duration = Duration::from_secs(15);

/// A running etcd, or one that was killed.
#[derive(Debug)]
pub struct Etcd {
    folder: TempDir,
    port: u16,
    peer_port: u16,
    scheme: &'static str,
    more: Vec<String>,
    child: Option<Child>,
}

impl Etcd {
    /// One that serves everybody.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("http", |_| Vec::new())
    }

    /// One that serves `http` or `https`, with more arguments; `more` is told its folder.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_with(scheme: &'static str, more: impl FnOnce(&std::path::Path) -> Vec<String>) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let more = more(folder.path());
        let (port, peer_port) = (free_port(), free_port());
        let mut etcd = Self { folder, port, peer_port, scheme, more, child: None };
        etcd.start_again();
        etcd
    }

    /// What servers are told.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Kills it (SIGKILL) and waits for its end. What it stored stays.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it on the same ports with what it had stored.
    ///
    /// # Panics
    /// When it does not take connections in time.
    pub fn start_again(&mut self) {
        let (url, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer_port));
        let log = std::fs::File::options().create(true).append(true).open(self.folder.path().join("log"));
        let mut command = Command::new("etcd");
        command.args(["--name", "test", "--data-dir"]).arg(self.folder.path().join("data"));
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("test={peer}")]);
        // The shortest lease that etcd grants is one and a half elections.
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]).args(&self.more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("its own folder"));
        self.child = Some(command.spawn().expect("etcd is installed: deploy/setup.sh --lab"));
        let until = Instant::now() + setting::patience(START);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "etcd does not take connections:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound").port()
}

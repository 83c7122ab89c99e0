//! An etcd of the tests' own, on ports that the system picks. It is ended by its own process id.

use crate::setting;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time for etcd to take connections.
const START: Duration = Duration::from_secs(15);

/// Pairs of ports tried before it is given up.
const PORT_TRIES: u32 = 5;

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
        // In memory: an fsync must not wait for what a build has just written.
        let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary folder");
        let more = more(folder.path());
        let mut etcd = Self { folder, port: 0, peer_port: 0, scheme, more, child: None };
        for _ in 0..PORT_TRIES {
            (etcd.port, etcd.peer_port) = (free_port(), free_port());
            if etcd.try_to_start() {
                return etcd;
            }
        }
        panic!("etcd does not start:\n{}", etcd.log());
    }

    /// What servers are told.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Where it takes connections, on the loopback.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
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
        assert!(self.try_to_start(), "etcd does not start again:\n{}", self.log());
    }

    /// False when it ends instead: somebody else has taken one of its ports.
    fn try_to_start(&mut self) -> bool {
        let mut child = self.command().spawn().expect("etcd is installed: deploy/setup.sh --lab");
        let until = Instant::now() + setting::patience(START);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if child.try_wait().expect("its own child").is_some() {
                return false;
            }
            if Instant::now() > until {
                self.child = Some(child);
                panic!("etcd does not take connections:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child = Some(child);
        true
    }

    fn command(&self) -> Command {
        let (url, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer_port));
        let log = std::fs::File::options().create(true).append(true).open(self.log_path());
        let mut command = Command::new("etcd");
        command.args(["--name", "test", "--data-dir"]).arg(self.folder.path().join("data"));
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("test={peer}")]);
        // The shortest lease that etcd grants is one and a half elections.
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]).args(&self.more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("its own folder"));
        command
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
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

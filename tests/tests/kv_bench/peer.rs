//! Other stores, each a process of the test's own on a socket in a folder of the test's own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a store may take to open its socket.
const START: Duration = Duration::from_secs(20);

/// A store that runs until it is dropped.
pub struct Peer {
    child: Child,
    folder: TempDir,
}

/// Where a program is, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

impl Peer {
    /// A Redis server; `None`, and a word about it, where none is installed.
    pub fn redis() -> Option<Self> {
        Self::start("redis-server", |socket| {
            let socket = socket.to_str().expect("it is text");
            ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"].map(str::to_owned).to_vec()
        })
    }

    /// A memcached server; `None`, and a word about it, where none is installed.
    pub fn memcached() -> Option<Self> {
        Self::start("memcached", |socket| {
            let socket = socket.to_str().expect("it is text");
            ["-s", socket, "-u", "nobody", "-a", "0777", "-m", "256"].map(str::to_owned).to_vec()
        })
    }

    fn start(program: &str, arguments: impl Fn(&Path) -> Vec<String>) -> Option<Self> {
        let Some(file) = find(program) else {
            println!("skipped: no {program} here; `deploy/setup.sh --bench` installs it");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        // memcached drops its rights before it opens the socket.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("it is ours");
        let socket = folder.path().join("socket");
        let child = Command::new(file)
            .args(arguments(&socket))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        let mut peer = Self { child, folder };
        let until = Instant::now() + START;
        while std::os::unix::net::UnixStream::connect(peer.socket()).is_err() {
            assert!(Instant::now() < until && matches!(peer.child.try_wait(), Ok(None)), "{program} does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(peer)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A real `kv-server` process for tests of its control plane.
#![allow(dead_code, reason = "each test file uses its part")]

use rustix::process::{Pid, Signal, kill_process};
use sidewire_common::id::ClientId;
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_proto::v1::admin_client::AdminClient;
use sidewire_proto::v1::session_client::SessionClient;
use sidewire_proto::v1::{AttachRequest, InfoReply, InfoRequest};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tonic::Status;
use tonic::transport::Channel;

/// The program under test.
pub const KV_SERVER: &str = env!("CARGO_BIN_EXE_kv-server");

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(KV_SERVER).args(arguments).output().unwrap()
}

/// A server that serves; killed when dropped.
pub struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: tempfile::NamedTempFile,
    pub address: String,
}

impl Server {
    /// Starts one on shared memory and a free port.
    pub fn start(more: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(KV_SERVER)
            .args(["--listen", "127.0.0.1:0", "--fabric", "shm", "--memory", "64MiB", "--chunk", "16MiB", "--log", "debug"])
            .args(["--hugepages", "off"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(File::create(log.path()).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let mut server = Self { child, stdout, log, address: String::new() };
        let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}\n{}", server.log()));
        address.trim_end().clone_into(&mut server.address);
        server
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn log(&mut self) -> String {
        let mut text = String::new();
        self.log.reopen().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Waits for its end, and returns what else it wrote on stdout.
    pub fn wait(&mut self, limit: Duration) -> (ExitStatus, String) {
        let until = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it still runs\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (status, rest)
    }

    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub async fn sessions(&self) -> SessionClient<Channel> {
        SessionClient::new(self.channel().await)
    }

    pub async fn info(&self) -> InfoReply {
        AdminClient::new(self.channel().await).info(InfoRequest {}).await.unwrap().into_inner()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A right request to attach.
pub fn attach_request(client: ClientId) -> AttachRequest {
    AttachRequest {
        client_id: client.to_bytes().to_vec(),
        layout_version: LAYOUT_VERSION,
        host: "here".into(),
        pid: std::process::id(),
        program: "test".into(),
    }
}

/// The machine-readable code of an error.
pub fn code(status: &Status) -> String {
    let code = status.metadata().get(sidewire_proto::ERROR_CODE);
    code.map(|code| code.to_str().unwrap().to_owned()).unwrap_or_default()
}

//! A server process.

use crate::{programs, setting};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sidewire::{Admin, Client, ClientBuilder, v1};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How long a server may take to serve.
const START: Duration = Duration::from_secs(15);
/// How long a server may take to stop.
const STOP: Duration = Duration::from_secs(10);

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    memory: String,
    lease: Duration,
    workers: u32,
    cells: u32,
    listen: Option<String>,
    device: Option<String>,
    more: Vec<String>,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            memory: "64MiB".into(),
            lease: setting::patience(Duration::from_secs(2)),
            workers: 1,
            cells: 1024,
            listen: None,
            device: setting::device(),
            more: Vec::new(),
        }
    }
}

impl ServerBuilder {
    /// `--memory`, 64 MiB unless set.
    #[must_use]
    pub fn memory(mut self, size: &str) -> Self {
        self.memory = size.into();
        self
    }

    /// `--lease`, 2 s unless set (20 s where all is emulated).
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// `--workers`, 1 unless set.
    #[must_use]
    pub fn workers(mut self, count: u32) -> Self {
        self.workers = count;
        self
    }

    /// `--cells`, 1,024 unless set.
    #[must_use]
    pub fn cells(mut self, count: u32) -> Self {
        self.cells = count;
        self
    }

    /// `--listen` at this address, and the device that carries it, instead of those under test.
    #[must_use]
    pub fn on(mut self, address: &str, device: &str) -> Self {
        (self.listen, self.device) = (Some(format!("{address}:0")), Some(device.into()));
        self
    }

    /// `--listen` at this address and port.
    #[must_use]
    pub fn at(mut self, listen: &str) -> Self {
        self.listen = Some(listen.into());
        self
    }

    /// Any other arguments.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.more.extend(args.iter().map(ToString::to_string));
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(programs::program("kv-server"));
        let listen = self.listen.clone().unwrap_or_else(|| format!("{}:0", setting::address()));
        let lease = format!("{}ms", self.lease.as_millis());
        command.args(["--listen", &listen, "--fabric", &setting::fabric().to_string(), "--memory", &self.memory]);
        command.args(["--lease", &lease, "--workers", &self.workers.to_string(), "--cells", &self.cells.to_string()]);
        command.args(["--hugepages", "off", "--pin", "off"]);
        if let Some(device) = &self.device {
            command.args(["--device", device]);
        }
        command.args(&self.more);
        command
    }

    /// Starts it and waits until it serves.
    ///
    /// # Panics
    /// When it does not; what it wrote to stderr is shown.
    #[must_use]
    pub fn start(self) -> Server {
        let mut child = self
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("kv-server can be started");
        let said = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take().expect("piped");
        let keep = Arc::clone(&said);
        std::thread::spawn(move || collect(stderr, &keep));
        let stdout = child.stdout.take().expect("piped");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let line = told.recv_timeout(setting::patience(START));
        let address = line.as_deref().ok().and_then(|line| line.strip_prefix("listening on ")).map(str::to_owned);
        let mut server = Server { builder: self, child, address: String::new(), said, paused: false, ended: None };
        match address {
            Some(address) => server.address = address,
            None => panic!("kv-server does not serve ({line:?}); it said:\n{}", server.said()),
        }
        server
    }
}

fn collect(mut from: impl Read, into: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        into.lock().expect("nobody panics with it").extend_from_slice(&bytes[..count]);
    }
}

/// A running server; killed by its own process id, and its group with it, when this is dropped.
#[derive(Debug)]
pub struct Server {
    builder: ServerBuilder,
    child: Child,
    address: String,
    said: Arc<Mutex<Vec<u8>>>,
    paused: bool,
    ended: Option<ExitStatus>,
}

impl Server {
    /// One with the defaults of tests.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// One to be configured.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stderr so far.
    #[must_use]
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("nobody panics with it")).into_owned()
    }

    /// The lease it was started with.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.builder.lease
    }

    /// Stops the process in its tracks (SIGSTOP) and returns once all its threads stand.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
        self.paused = true;
        let until = Instant::now() + setting::patience(STOP);
        while !all_threads_stand(self.pid()) {
            assert!(Instant::now() < until, "a stopped process goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended = Some(self.child.wait().expect("it is our child"));
    }

    /// Stops it gracefully (SIGTERM) and checks that it exits with 0 in time.
    ///
    /// # Panics
    /// When it does not.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let until = Instant::now() + setting::patience(STOP);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(Instant::now() < until, "no end after SIGTERM; it said:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        };
        self.ended = Some(status);
        assert!(status.success(), "ended with {status}; it said:\n{}", self.said());
    }

    /// Starts it again on the same address, after `kill` or `stop`.
    pub fn start_again(&mut self) {
        assert!(self.ended.is_some(), "it still runs");
        let listen = Some(self.address.clone());
        *self = ServerBuilder { listen, ..self.builder.clone() }.start();
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.ended.is_none() && matches!(self.child.try_wait(), Ok(None))
    }

    /// A client, to be configured further, of this server over the fabric under test.
    #[must_use]
    pub fn client_builder(&self) -> ClientBuilder {
        client_builder(&self.address)
    }

    /// A client of this server.
    ///
    /// # Panics
    /// When it cannot attach.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_builder().connect().unwrap_or_else(|e| panic!("{e}; the server said:\n{}", self.said()))
    }

    /// What the server says of itself.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn info(&self) -> v1::InfoReply {
        Admin::connect(&self.address).and_then(|admin| admin.info()).expect("the server tells")
    }

    /// Open file descriptors of the process.
    #[must_use]
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// CPU time of the whole process so far.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        let after_name = stat.rsplit(')').next().expect("stat has a name");
        let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    fn signal(&self, signal: Signal) {
        assert!(self.ended.is_none(), "it has ended");
        kill_process(Pid::from_child(&self.child), signal).expect("it is our child");
    }
}

/// A client of the server at `address`, to be configured further, over the fabric under test.
#[must_use]
pub fn client_builder(address: &str) -> ClientBuilder {
    let builder = Client::builder().server(address).fabric(Some(setting::fabric()));
    let builder = builder.deadline(setting::patience(Duration::from_secs(5)));
    match setting::device() {
        Some(device) => builder.device(device),
        None => builder,
    }
}

/// Whether every thread of a process is in the state *stopped*.
fn all_threads_stand(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.filter_map(Result::ok).all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let pid = Pid::from_child(&self.child);
            // The group has the server's own id, as long as the server was not waited for.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the server at {} said:\n{}", self.address, self.said());
        }
    }
}

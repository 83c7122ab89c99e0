//! Client processes: the test executable, started again for one role.
//!
//! A test file with such processes has one test more that hands over to the role it was started for, and does
//! nothing in an ordinary run:
//!
//! ```ignore
//! #[test]
//! fn child() {
//!     sidewire_tests::child::run(&[("adds", adds)]);
//! }
//! ```

use crate::setting;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const ROLE: &str = "SIDEWIRE_TEST_CHILD_ROLE";
const ARGUMENTS: &str = "SIDEWIRE_TEST_CHILD_ARGUMENTS";
const MARK: &str = "child says ";
/// How long a child may take to say something.
const ANSWER: Duration = Duration::from_secs(30);

/// What a child runs: it gets its arguments, and tells by [`say`].
pub type Role = fn(&[String]);

/// In a child: runs its role. Elsewhere: nothing.
///
/// # Panics
/// When the role is not one of `roles`.
pub fn run(roles: &[(&str, Role)]) {
    let Ok(wanted) = std::env::var(ROLE) else { return };
    let arguments = std::env::var(ARGUMENTS).unwrap_or_default();
    let arguments: Vec<String> = arguments.lines().map(str::to_owned).collect();
    let role = roles.iter().find(|(name, _)| *name == wanted);
    role.unwrap_or_else(|| panic!("no role {wanted}")).1(&arguments);
}

/// In a child: tells its parent a line.
pub fn say(line: impl std::fmt::Display) {
    println!("\n{MARK}{line}");
    let _ = std::io::stdout().flush();
}

/// In a child: waits for a line of its parent.
#[must_use]
pub fn hear() -> String {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    line.trim_end().to_owned()
}

/// A client process; killed by its own process id when this is dropped.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    role: String,
}

impl Child {
    /// Starts the test executable again for `role`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(role: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a process knows its executable"))
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ARGUMENTS, arguments.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a test can start itself");
        let output = child.stdout.take().expect("piped");
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix(MARK) {
                    let _ = tell.send(said.to_owned());
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, role: role.into() }
    }

    /// The next line that it says.
    ///
    /// # Panics
    /// When it says nothing in time, or has ended.
    pub fn hear(&self) -> String {
        let line = self.lines.recv_timeout(setting::patience(ANSWER));
        line.unwrap_or_else(|e| panic!("child {} said nothing more: {e}", self.role))
    }

    /// The next line that it has said already.
    pub fn heard(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Tells it a line.
    ///
    /// # Panics
    /// When it does not listen any more.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("open until its end"), "{line}").expect("the child listens");
    }

    /// Stops it in its tracks.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it, without waiting for its end.
    pub fn strike(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills it and waits for its end.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it is our child");
    }

    /// Waits for its end, which must be a good one, and returns what it said last.
    ///
    /// # Panics
    /// When it failed.
    pub fn finish(mut self) -> Vec<String> {
        drop(self.input.take());
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "child {} ended with {status}", self.role);
        // The reader ends with the pipe, and the channel with it.
        std::iter::from_fn(|| self.lines.recv().ok()).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is our child");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

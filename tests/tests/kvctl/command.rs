//! Runs the program and keeps what it said.

use sidewire_tests::{Server, programs, setting};
use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `kvctl` against a server.
pub struct Kvctl {
    address: String,
}

/// What a run ended with.
#[derive(PartialEq, Eq, Debug)]
pub struct Told {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Kvctl {
    /// Against this server.
    pub fn of(server: &Server) -> Self {
        Self::at(server.address())
    }

    /// Against whatever is at this address.
    pub fn at(address: &str) -> Self {
        Self { address: address.into() }
    }

    /// The command, to be started by the caller.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(programs::program("kvctl"));
        let timeout = setting::patience(Duration::from_secs(5)).as_secs();
        command.env("SIDEWIRE_SERVER", &self.address);
        command.arg(format!("--timeout={timeout}s"));
        if let Some(device) = setting::device() {
            command.arg(format!("--device={device}"));
        }
        command.args(arguments);
        command
    }

    /// Runs it with nothing to read.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Told {
        self.fed(arguments, b"")
    }

    /// Runs it with this on standard input.
    pub fn fed<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Told {
        let mut command = self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kvctl can be started");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_vec();
        // It may end without having read everything.
        let feed = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("it is our child");
        feed.join().expect("feeding does not panic");
        Told { code: output.status.code(), out: output.stdout, err: String::from_utf8_lossy(&output.stderr).into_owned() }
    }

    /// Runs it; it must succeed, print exactly this, and complain of nothing.
    #[track_caller]
    pub fn prints<A: AsRef<OsStr> + Debug>(&self, arguments: &[A], out: impl AsRef<[u8]>) {
        let told = self.run(arguments);
        let text = String::from_utf8_lossy(&told.out).into_owned();
        assert_eq!(
            (told.code, text.as_str(), told.err.as_str()),
            (Some(0), &*String::from_utf8_lossy(out.as_ref()), ""),
            "{arguments:?}"
        );
        assert_eq!(told.out, out.as_ref(), "{arguments:?}");
    }

    /// Runs it; it must end with this code, print nothing, and complain in exactly these words.
    #[track_caller]
    pub fn refuses<A: AsRef<OsStr> + Debug>(&self, arguments: &[A], code: i32, err: &str) {
        let told = self.run(arguments);
        assert_eq!(
            (told.code, told.err.as_str(), told.out.as_slice()),
            (Some(code), format!("{err}\n").as_str(), &b""[..]),
            "{arguments:?}"
        );
    }

    /// Runs it; it must succeed. Its output, as text.
    #[track_caller]
    pub fn answer<A: AsRef<OsStr> + Debug>(&self, arguments: &[A]) -> String {
        let told = self.run(arguments);
        assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{arguments:?}");
        String::from_utf8(told.out).expect("text")
    }

    /// Runs it with `--json`; it must succeed with one document.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let answer = self.answer(&[&["--json"], arguments].concat());
        assert_eq!(answer.matches('\n').count(), 1, "{answer}");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

/// The number in `version N`.
#[track_caller]
pub fn version_of(answer: &str) -> u64 {
    let number = answer.trim_end().strip_prefix("version ").unwrap_or_else(|| panic!("{answer}"));
    number.parse().expect("a number")
}

//! A running command: its end, and the signals that are passed on to it.

use crate::escape::escape;
use crate::failure::{Done, Failure, TROUBLE};
use crate::signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{self, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// What happened.
pub enum Event {
    /// The command ended; it has not been reaped.
    Exited,
    /// This process was asked to end.
    Signal(Signal),
}

/// A command that runs.
pub struct Child {
    process: process::Child,
    events: Receiver<Event>,
}

impl Child {
    /// Starts it. Signals to this process become events before the command begins.
    pub fn start(mut command: Command) -> Done<Self> {
        let (sender, events) = mpsc::channel();
        let signals = sender.clone();
        signals::watch(move |signal| signals.send(Event::Signal(signal)).is_ok())?;
        let mut process = command.spawn().map_err(|error| not_started(&command, &error))?;
        let handle = pidfd_open(Pid::from_child(&process), PidfdFlags::empty()).map_err(io::Error::from);
        if let Err(error) = handle.and_then(|handle| tell_end(handle, sender)) {
            // Nobody would stop it when the lease is lost.
            let _ = process.kill();
            let _ = process.wait();
            return Err(Failure::new(TROUBLE, "command", format!("cannot watch the command: {error}")));
        }
        Ok(Self { process, events })
    }

    /// The next event, if one comes within `patience`.
    pub fn event(&self, patience: Duration) -> Option<Event> {
        match self.events.recv_timeout(patience) {
            Ok(event) => Some(event),
            // The thread that tells the end is gone, so the end has come.
            Err(RecvTimeoutError::Disconnected) => Some(Event::Exited),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// The exit status, after [`Event::Exited`].
    pub fn status(&mut self) -> Done<ExitStatus> {
        self.process.wait().map_err(|error| Failure::new(TROUBLE, "command", format!("cannot wait for the command: {error}")))
    }

    /// Passes on a signal, unless the terminal has sent it to the command already.
    pub fn pass_on(&self, signal: Signal) {
        if signal != Signal::INT || !in_foreground() {
            self.send(signal);
        }
    }

    /// Asks the command to end.
    pub fn ask_to_end(&self) {
        self.send(Signal::TERM);
    }

    /// Ends the command.
    pub fn kill(&self) {
        self.send(Signal::KILL);
    }

    fn send(&self, signal: Signal) {
        // Not reaped, so the id is still the command's; that it has ended meanwhile is no error.
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }
}

fn tell_end(handle: OwnedFd, sender: Sender<Event>) -> io::Result<()> {
    let wait = move || {
        // An interrupted wait is taken up again; any other error must not look like an end too early, and status() waits.
        while poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {}
        let _ = sender.send(Event::Exited);
    };
    std::thread::Builder::new().name("command-end".into()).spawn(wait).map(drop)
}

/// Ctrl-C on a terminal goes to its whole foreground group: to this process and to the command alike.
fn in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn not_started(command: &Command, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let name = escape(command.get_program().as_bytes());
    Failure::new(exit, "command", format!("cannot start `{name}`: {error}"))
}

//! Starts processes of this program and gives them the same orders at the same time.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::Reply;
use crate::drive::{CrewError, Interim, Line, Measured, Order, Work};
use crate::progress::Progress;
use crate::target::TargetUrl;

/// How often the counts of all processes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a process may take to end once it has no more orders.
const END_TIME: Duration = Duration::from_secs(10);

/// Processes that wait for their next phase.
pub struct Processes {
    children: Vec<Child>,
    orders: RefCell<Vec<ChildStdin>>,
    replies: Receiver<(usize, Option<Reply>)>,
}

impl Processes {
    /// Starts `count` processes with this one's arguments and waits until all have their sessions.
    pub fn start(count: u16, target: &TargetUrl) -> Result<Self, CrewError> {
        let (teller, replies) = channel();
        let mut all = Self { children: Vec::new(), orders: RefCell::default(), replies };
        for index in 0..count {
            let mut child = Command::new(std::env::current_exe()?)
                .args(arguments(target))
                .args(["--part", &format!("{index}/{count}"), "--clients", "1"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            all.children.push(child);
            let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(CrewError::Ended) };
            all.orders.borrow_mut().push(stdin);
            let teller = teller.clone();
            std::thread::Builder::new().name(format!("client-{index}")).spawn(move || listen(index.into(), stdout, &teller))?;
        }
        for _ in 0..count {
            match all.replies.recv() {
                Ok((_, Some(Reply::Ready))) => {}
                Ok((index, reply)) => return Err(lost(index, reply)),
                Err(_) => return Err(CrewError::Ended),
            }
        }
        Ok(all)
    }

    /// Runs a phase: each process has its share of the operations.
    pub fn run(&self, order: &Order, line: Option<Line>, progress: &Progress) -> Result<Measured, CrewError> {
        self.send(order)?;
        let mut done = vec![0; self.children.len()];
        let mut interim = Interim::new(progress, line);
        let mut measured = Measured::default();
        let mut open = self.children.len();
        let mut next_look = Instant::now() + LOOK_EVERY;
        while open > 0 {
            match self.replies.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok((index, Some(Reply::Done(operations)))) => done[index] = operations,
                Ok((index, Some(Reply::Measured(sent)))) => {
                    let part = Measured::from(*sent);
                    done[index] = part.recorder.operations();
                    measured.merge(part);
                    open -= 1;
                }
                Ok((index, reply)) => return Err(lost(index, reply)),
                Err(RecvTimeoutError::Timeout) => {
                    next_look = Instant::now() + LOOK_EVERY;
                    // The processes keep their latencies to themselves until the end.
                    interim.look(done.iter().sum(), 0);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(CrewError::Ended),
            }
        }
        interim.look(done.iter().sum(), 0);
        measured.course = std::mem::take(&mut interim.course);
        Ok(measured)
    }

    fn send(&self, order: &Order) -> Result<(), CrewError> {
        let count = self.children.len() as u64;
        // Each process has caches of its own, so each goes over all records.
        let sweeps = order.work.iter().any(|work| matches!(work, Work::Sweep));
        let share = |index: u64, all: u64| if sweeps { all } else { all / count + u64::from(index < all % count) };
        for (index, stdin) in self.orders.borrow_mut().iter_mut().enumerate() {
            let mut order = order.clone();
            order.limits.operations = order.limits.operations.map(|all| share(index as u64, all));
            let mut line = serde_json::to_string(&order).map_err(std::io::Error::from)?;
            line.push('\n');
            stdin.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

/// This process's own arguments, for the `run` that a part is, at this target.
fn arguments(target: &TargetUrl) -> Vec<String> {
    let mut kept = vec!["run".to_owned()];
    let mut all = std::env::args().skip(2);
    while let Some(argument) = all.next() {
        let name = argument.split('=').next().unwrap_or_default();
        match name {
            // With a value: the parent's own affair.
            "--clients" | "--json" | "--csv" | "--html" | "--expect" | "--target" | "--interim" | "--rate-sweep"
            | "--sweep-time" | "--rounds" => {
                if !argument.contains('=') {
                    all.next();
                }
            }
            "--load" | "--no-raw" => {}
            _ => kept.push(argument),
        }
    }
    kept.extend(["--target".to_owned(), target.to_string()]);
    kept
}

fn listen(index: usize, from: impl std::io::Read, to: &Sender<(usize, Option<Reply>)>) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        let reply = serde_json::from_str(&line).unwrap_or_else(|error| Reply::Failed(format!("{error} in `{line}`")));
        if to.send((index, Some(reply))).is_err() {
            return;
        }
    }
    // Nobody listens any more when the phase has failed.
    let _ = to.send((index, None));
}

fn lost(index: usize, reply: Option<Reply>) -> CrewError {
    let cause = match reply {
        Some(Reply::Failed(text)) => text,
        Some(reply) => format!("it said {reply:?} out of turn"),
        None => "it ended".into(),
    };
    CrewError::Process { index, cause }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // Without orders they end by themselves.
        self.orders.borrow_mut().clear();
        let until = Instant::now() + END_TIME;
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

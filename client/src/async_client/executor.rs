//! The thread behind asynchronous handles: it owns a session, submits what has come, and answers what has ended.
//! Gets that wait together are submitted together, so their reads share doorbells.

use super::job::{Brought, Job, Task, brought};
use super::mailbox::Mailbox;
use crate::client::Inner;
use crate::driver::WriteSpec;
use crate::error::Error;
use crate::in_flight::{Machine, Sink};
use crate::lock_guard::Held;
use crate::op::{Counter, Done, Lock, LockGoal};
use crate::route::{Router, Ticket};
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::Spin;
use sidewire_common::key::check;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::oneshot;

/// Operations in flight at once; what comes beyond waits in the mailbox.
const IN_FLIGHT_MAX: usize = 1024;
/// Longest sleep, with and without operations in flight.
const SLEEP_BUSY: Duration = Duration::from_millis(5);
const SLEEP_IDLE: Duration = Duration::from_millis(100);

type Reply = oneshot::Sender<Result<Brought, Error>>;

/// The executor's state.
pub(super) struct Executor {
    router: Router,
    deadline: Duration,
    spin: Duration,
    jobs: Receiver<Job>,
    mailbox: Arc<Mailbox>,
    replies: HashMap<u64, (Reply, bool)>,
    /// Unlocks that wait for writes which carry their token.
    unlocks: Vec<Job>,
    closed: bool,
}

impl Executor {
    /// Opens a session for the calling thread.
    pub fn new(client: Arc<Inner>, jobs: Receiver<Job>, mailbox: Arc<Mailbox>) -> Result<Self, Error> {
        let (deadline, spin) = (client.deadline, client.spin);
        let router = Router::open(client)?;
        Ok(Self { router, deadline, spin, jobs, mailbox, replies: HashMap::new(), unlocks: Vec::new(), closed: false })
    }

    /// Runs until all handles are gone and all that was begun has ended.
    pub fn run(mut self) {
        let mut spin = Spin::new(self.spin);
        while !self.closed || !self.replies.is_empty() || !self.unlocks.is_empty() {
            let mut busy = self.take_jobs();
            self.retry_unlocks();
            busy |= self.router.turn();
            busy |= self.answer();
            if busy {
                spin.busy();
            } else if spin.idle() {
                self.sleep();
            }
        }
    }

    fn take_jobs(&mut self) -> bool {
        let mut any = false;
        while self.router.submitted() < IN_FLIGHT_MAX {
            match self.jobs.try_recv() {
                Ok(job) => self.begin(job),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    break;
                }
            }
            any = true;
        }
        any
    }

    fn begin(&mut self, job: Job) {
        let left = job.left();
        if left.is_zero() && !matches!(job.task, Task::Unlock(..)) {
            return answer(job.reply, Err(late(job.deadline)));
        }
        let Job { key, task, reply, since, deadline } = job;
        let with_bytes = matches!(task, Task::Get);
        let id = self.router.next_id();
        let sink = Sink::Submitted(id);
        let begun = match &task {
            Task::Get | Task::Look => self.router.begin_get(&key, left, sink),
            Task::Counter(goal) => self.router.begin(Machine::Counter(Counter::new(*goal)), &key, left, sink),
            Task::LockState => self.router.begin(Machine::Lock(Lock::new(LockGoal::View)), &key, left, sink),
            Task::TryLock => {
                let wait = if check(&key).is_ok() { self.router.locks_open_in(&key) } else { Duration::ZERO };
                if !wait.is_zero() {
                    return answer(reply, Ok(Brought::LocksOpenIn(wait)));
                }
                self.router.begin(Machine::Lock(Lock::new(LockGoal::Take)), &key, left, sink)
            }
            Task::Unlock(held) => {
                if !held.is_ours() {
                    return answer(reply, Err(Error::LeaseLapsed));
                }
                if left.is_zero() {
                    self.router.unlock_later(held, &key);
                    return answer(reply, Err(late(deadline)));
                }
                if self.router.carries(held.taken.word.token()) {
                    return self.unlocks.push(Job { key, task, reply, since, deadline });
                }
                self.router.begin_give_back(held, &key, left, sink)
            }
            Task::Put(value, options) => self.write(&key, WriteSpec::put(value, &options.borrow()), left, sink),
            Task::Delete(options) => self.write(&key, WriteSpec::delete(&options.borrow()), left, sink),
            Task::Create(kind, initial) => self.write(&key, Ok(WriteSpec::create(*kind, *initial)), left, sink),
            Task::AddExactlyOnce(delta) => self.write(&key, Ok(WriteSpec::add(*delta)), left, sink),
            Task::BreakLock => self.write(&key, Ok(WriteSpec::break_lock()), left, sink),
        };
        match begun {
            Ok(_) => {
                self.replies.insert(id, (reply, with_bytes));
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn write(&mut self, key: &[u8], write: Result<WriteSpec<'_>, Error>, left: Duration, sink: Sink) -> Result<Ticket, Error> {
        self.router.begin_write(key, &write?, left, sink)
    }

    /// A fenced write always ends, at its deadline at the latest, or is resolved when the connection is rebuilt.
    fn retry_unlocks(&mut self) {
        for job in std::mem::take(&mut self.unlocks) {
            self.begin(job);
        }
    }

    fn answer(&mut self) -> bool {
        self.router.look_at_deadlines(BootInstant::now());
        let mut any = false;
        while let Some((id, result)) = self.router.take_finished() {
            any = true;
            let Some((reply, with_bytes)) = self.replies.remove(&id) else { continue };
            let unwanted = reply.is_closed();
            let result = result.and_then(|done| match done {
                // The caller has gone: what was taken for it is given back.
                Done::Locked(held) if unwanted => {
                    self.give_back(&held);
                    Ok(Brought::Unlocked)
                }
                done => brought(done, with_bytes),
            });
            answer(reply, result);
        }
        any
    }

    fn give_back(&mut self, held: &Held) {
        let sink = Sink::Submitted(self.router.next_id());
        if let Err(error) = self.router.begin_give_back(held, b"unlock", self.deadline, sink) {
            tracing::debug!(%error, "a lock that nobody wants could not be given back; it ends with the lease");
        }
    }

    fn sleep(&mut self) {
        self.mailbox.listen(self.router.waker());
        if !self.jobs.is_empty() || self.closed && self.replies.is_empty() {
            self.mailbox.awake();
            return;
        }
        let idle = self.replies.is_empty() && self.unlocks.is_empty();
        self.router.sleep(BootInstant::now(), if idle { SLEEP_IDLE } else { SLEEP_BUSY });
        self.mailbox.awake();
    }
}

/// The error of a job whose time was over before its turn came.
fn late(deadline: Duration) -> Error {
    let seen = "it waited for the calls before it".into();
    Error::Deadline { operation: "call of the asynchronous handle", after: deadline, seen }
}

/// Sends an answer; a caller that has gone does not want it.
fn answer(reply: Reply, result: Result<Brought, Error>) {
    let _ = reply.send(result);
}

//! The thread behind asynchronous handles: it owns a session, submits what has come, and answers what has ended.
//! Gets that wait together are submitted together, so their reads share doorbells.

use super::job::{Brought, Job, Task, brought};
use super::mailbox::Mailbox;
use crate::client::Inner;
use crate::driver::{Driver, WriteSpec};
use crate::error::Error;
use crate::in_flight::{Machine, Sink};
use crate::op::{Counter, Done, Lock, LockGoal};
use crate::slab::SlabKey;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::Spin;
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
    driver: Driver,
    deadline: Duration,
    spin: Duration,
    jobs: Receiver<Job>,
    mailbox: Arc<Mailbox>,
    replies: HashMap<SlabKey, (Reply, bool)>,
    /// Unlocks that wait for writes which carry their token.
    unlocks: Vec<Job>,
    closed: bool,
}

impl Executor {
    /// Opens a session for the calling thread.
    pub fn new(client: Arc<Inner>, jobs: Receiver<Job>, mailbox: Arc<Mailbox>) -> Result<Self, Error> {
        let (deadline, spin) = (client.shared.deadline, client.shared.spin);
        let driver = Driver::open(client)?;
        mailbox.listen(driver.waker());
        Ok(Self { driver, deadline, spin, jobs, mailbox, replies: HashMap::new(), unlocks: Vec::new(), closed: false })
    }

    /// Runs until all handles are gone and all that was begun has ended.
    pub fn run(mut self) {
        let mut spin = Spin::new(self.spin);
        while !self.closed || !self.replies.is_empty() || !self.unlocks.is_empty() {
            let mut busy = self.take_jobs();
            self.retry_unlocks();
            busy |= self.driver.turn();
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
        while self.driver.submitted() < IN_FLIGHT_MAX {
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
        let begun = match &task {
            Task::Get | Task::Look => self.driver.begin_get(&key, left, Sink::Submitted),
            Task::Counter(goal) => self.machine(&key, Machine::Counter(Counter::new(*goal)), left),
            Task::LockState => self.machine(&key, Machine::Lock(Lock::new(LockGoal::View)), left),
            Task::TryLock => {
                let wait = self.driver.attached().terms.locks_open_at.since(BootInstant::now());
                if !wait.is_zero() {
                    return answer(reply, Ok(Brought::LocksOpenIn(wait)));
                }
                self.machine(&key, Machine::Lock(Lock::new(LockGoal::Take)), left)
            }
            Task::Unlock(taken, attached) => {
                if attached.has_ended() || !Arc::ptr_eq(attached, self.driver.attached()) {
                    return answer(reply, Err(Error::LeaseLapsed));
                }
                if left.is_zero() {
                    self.driver.unlock_later(&key, *taken);
                    return answer(reply, Err(late(deadline)));
                }
                if self.driver.carries(taken.word.token()) {
                    return self.unlocks.push(Job { key, task, reply, since, deadline });
                }
                self.machine(&key, Machine::Lock(Lock::new(LockGoal::GiveBack(*taken))), left)
            }
            Task::Put(value, options) => self.write(&key, WriteSpec::put(value, &options.borrow()), left),
            Task::Delete(options) => self.write(&key, WriteSpec::delete(&options.borrow()), left),
            Task::Create(kind, initial) => self.write(&key, Ok(WriteSpec::create(*kind, *initial)), left),
            Task::AddExactlyOnce(delta) => self.write(&key, Ok(WriteSpec::add(*delta)), left),
            Task::BreakLock => self.write(&key, Ok(WriteSpec::break_lock()), left),
        };
        match begun {
            Ok(name) => {
                self.replies.insert(name, (reply, with_bytes));
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn machine(&mut self, key: &[u8], machine: Machine, left: Duration) -> Result<SlabKey, Error> {
        self.driver.begin(machine, key, left, Sink::Submitted)
    }

    fn write(&mut self, key: &[u8], write: Result<WriteSpec<'_>, Error>, left: Duration) -> Result<SlabKey, Error> {
        self.driver.begin_write(key, &write?, left, Sink::Submitted)
    }

    /// A fenced write always ends, at its deadline at the latest, or is resolved when the connection is rebuilt.
    fn retry_unlocks(&mut self) {
        for job in std::mem::take(&mut self.unlocks) {
            self.begin(job);
        }
    }

    fn answer(&mut self) -> bool {
        self.driver.look_at_deadlines(BootInstant::now());
        let mut any = false;
        while let Some((name, result)) = self.driver.take_finished() {
            any = true;
            let Some((reply, with_bytes)) = self.replies.remove(&name) else { continue };
            let attached = Arc::clone(self.driver.attached());
            let unwanted = reply.is_closed();
            let result = result.and_then(|done| match done {
                // The caller has gone: what was taken for it is given back.
                Done::Lock(Ok(taken)) if unwanted => {
                    self.give_back(taken);
                    Ok(Brought::Unlocked)
                }
                done => brought(done, with_bytes, &attached),
            });
            answer(reply, result);
        }
        any
    }

    fn give_back(&mut self, taken: crate::op::Taken) {
        let machine = Machine::Lock(Lock::new(LockGoal::GiveBack(taken)));
        if let Err(error) = self.driver.begin(machine, b"unlock", self.deadline, Sink::Submitted) {
            tracing::debug!(%error, "a lock that nobody wants could not be given back; it ends with the lease");
        }
    }

    fn sleep(&mut self) {
        self.mailbox.listen(self.driver.waker());
        if !self.jobs.is_empty() || self.closed && self.replies.is_empty() {
            self.mailbox.awake();
            return;
        }
        let idle = self.replies.is_empty() && self.unlocks.is_empty();
        self.driver.sleep(BootInstant::now(), if idle { SLEEP_IDLE } else { SLEEP_BUSY });
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

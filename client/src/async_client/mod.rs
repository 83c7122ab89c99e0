//! The handle for asynchronous code: requests go to a thread that owns a session, replies come back.

mod executor;
mod guard;
mod job;
mod mailbox;

pub use guard::AsyncLockGuard;

use crate::client::Inner;
use crate::error::Error;
use crate::lock_guard::LockView;
use crate::op::{CounterGoal, check_kind};
use crate::retry::Backoff;
use crate::write::{Write, WriteOptions};
use executor::Executor;
use job::{Brought, Job, Options, Owned, Task};
use mailbox::{JOBS_WAITING, Mailbox};
use sidewire_common::clock::BootInstant;
use sidewire_common::layout::counter_cell::{DELTA_MAX, VALUE_MAX};
use sidewire_common::layout::record::{Kind, Version};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::mpsc::{self as channel, error::TrySendError};

/// First and longest pause between two looks at a lock that another holds.
const LOCK_PAUSE_FIRST: Duration = Duration::from_micros(200);
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(20);

/// A cloneable handle; its operations are those of a [`Session`](crate::Session). Works in any executor.
#[derive(Clone)]
pub struct AsyncClient {
    shared: Arc<Handles>,
}

/// What all clones share; the executor ends with the last of them.
struct Handles {
    /// `None` only while it is dropped.
    jobs: Option<channel::Sender<Job>>,
    mailbox: Arc<Mailbox>,
    client: Arc<Inner>,
}

impl Handles {
    fn jobs(&self) -> &channel::Sender<Job> {
        self.jobs.as_ref().expect("taken by drop alone")
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.jobs = None;
        self.mailbox.ring();
    }
}

impl std::fmt::Debug for AsyncClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncClient").field("servers", &self.shared.client.name()).finish_non_exhaustive()
    }
}

fn unexpected<T>() -> Result<T, Error> {
    Err(Error::Layout { reason: "an operation brought what it never brings".into() })
}

fn check_delta(delta: i64) -> Result<(), Error> {
    if delta.unsigned_abs() <= DELTA_MAX as u64 { Ok(()) } else { Err(Error::DeltaTooLarge { delta, limit: DELTA_MAX }) }
}

#[allow(clippy::missing_errors_doc, reason = "every call fails as the variants of Error tell")]
impl AsyncClient {
    /// Starts the executor's thread.
    pub(crate) fn start(client: Arc<Inner>) -> Result<Self, Error> {
        let (jobs, receiver) = channel::channel(JOBS_WAITING);
        let mailbox = Arc::<Mailbox>::default();
        let (told, opened) = mpsc::sync_channel(1);
        let (its_client, its_mailbox) = (Arc::clone(&client), Arc::clone(&mailbox));
        let thread = std::thread::Builder::new().name("sidewire-async".into()).spawn(move || {
            match Executor::new(its_client, receiver, its_mailbox) {
                Ok(executor) => {
                    if told.send(Ok(())).is_ok() {
                        executor.run();
                    }
                }
                // Whoever asked waits for it.
                Err(error) => drop(told.send(Err(error))),
            }
        });
        let server = client.name();
        thread.map_err(|e| Error::Control { server, reason: format!("no thread for the asynchronous handle: {e}") })?;
        opened.recv().map_err(|_| Error::LeaseLapsed)??;
        Ok(Self { shared: Arc::new(Handles { jobs: Some(jobs), mailbox, client }) })
    }

    async fn ask(&self, key: &[u8], task: Task) -> Result<Brought, Error> {
        self.ask_within(key, task, self.shared.client.deadline).await
    }

    async fn ask_within(&self, key: &[u8], task: Task, deadline: Duration) -> Result<Brought, Error> {
        mailbox::ask(self.shared.jobs(), &self.shared.mailbox, key, task, deadline).await
    }

    async fn find(&self, key: &[u8], task: Task) -> Result<Option<Owned>, Error> {
        match self.ask(key, task).await? {
            Brought::Found(found) => Ok(found),
            _ => unexpected(),
        }
    }

    async fn write(&self, key: &[u8], task: Task) -> Result<Write, Error> {
        match self.ask(key, task).await? {
            Brought::Write(write) => Ok(write),
            _ => unexpected(),
        }
    }

    async fn created(&self, key: &[u8], task: Task) -> Result<bool, Error> {
        match self.ask(key, task).await? {
            Brought::Created(created) => Ok(created),
            _ => unexpected(),
        }
    }

    async fn sum(&self, key: &[u8], task: Task) -> Result<i64, Error> {
        match self.ask(key, task).await? {
            Brought::Sum(sum) => Ok(sum),
            _ => unexpected(),
        }
    }

    /// As [`Session::get`](crate::Session::get).
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.get_versioned(key).await?.map(|(bytes, _)| bytes))
    }

    /// As [`get`](Self::get), with the value's version.
    pub async fn get_versioned(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Version)>, Error> {
        let Some(found) = self.find(key, Task::Get).await? else { return Ok(None) };
        check_kind(Kind::Value, found.kind)?;
        Ok(Some((found.bytes, found.version)))
    }

    /// As [`Session::multi_get`](crate::Session::multi_get).
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Vec<u8>>, Error>> {
        let started = BootInstant::now();
        let mut answers = Vec::with_capacity(keys.len());
        for key in keys {
            let (mut job, answer) = Job::new(key.as_ref(), Task::Get, self.shared.client.deadline);
            // All keys together have one deadline.
            job.since = started;
            if let Err(TrySendError::Full(job)) = self.shared.jobs().try_send(job) {
                self.shared.mailbox.ring();
                // An executor that has ended drops the way back, which the answer then tells.
                let _ = self.shared.jobs().send(job).await;
            }
            answers.push(answer);
        }
        self.shared.mailbox.ring();
        let mut results = Vec::with_capacity(keys.len());
        for answer in answers {
            results.push(match answer.await {
                Ok(Ok(Brought::Found(None))) => Ok(None),
                Ok(Ok(Brought::Found(Some(found)))) => check_kind(Kind::Value, found.kind).map(|()| Some(found.bytes)),
                Ok(Ok(_)) => unexpected(),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Error::LeaseLapsed),
            });
        }
        results
    }

    /// As [`Session::exists`](crate::Session::exists).
    pub async fn exists(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.find(key, Task::Look).await?.is_some())
    }

    /// As [`Session::kind`](crate::Session::kind).
    pub async fn kind(&self, key: &[u8]) -> Result<Option<Kind>, Error> {
        Ok(self.find(key, Task::Look).await?.map(|found| found.kind))
    }

    /// As [`Session::put`](crate::Session::put).
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        match self.put_with(key, value, &WriteOptions::new()).await? {
            Write::Done(version) => Ok(version),
            Write::NotDone(unmet) => Err(Error::Layout { reason: format!("a put without condition was answered {unmet:?}") }),
        }
    }

    /// As [`Session::put_with`](crate::Session::put_with).
    pub async fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        self.write(key, Task::Put(value.to_vec(), Options::of(options))).await
    }

    /// As [`Session::put_if_absent`](crate::Session::put_if_absent).
    pub async fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_absent()).await
    }

    /// As [`Session::put_if_version`](crate::Session::put_if_version).
    pub async fn put_if_version(&self, key: &[u8], value: &[u8], version: Version) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_version(version)).await
    }

    /// As [`Session::delete`](crate::Session::delete).
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(matches!(self.delete_with(key, &WriteOptions::new()).await?, Write::Done(_)))
    }

    /// As [`Session::delete_with`](crate::Session::delete_with).
    pub async fn delete_with(&self, key: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        self.write(key, Task::Delete(Options::of(options))).await
    }

    /// As [`Session::delete_if_version`](crate::Session::delete_if_version).
    pub async fn delete_if_version(&self, key: &[u8], version: Version) -> Result<Write, Error> {
        self.delete_with(key, &WriteOptions::new().if_version(version)).await
    }

    /// As [`Session::create_counter`](crate::Session::create_counter).
    pub async fn create_counter(&self, key: &[u8], initial: i64) -> Result<bool, Error> {
        self.create(key, Kind::Counter, initial).await
    }

    async fn create(&self, key: &[u8], kind: Kind, initial: i64) -> Result<bool, Error> {
        if initial.unsigned_abs() > VALUE_MAX as u64 {
            return Err(Error::OutOfRange { value: initial });
        }
        self.created(key, Task::Create(kind, initial)).await
    }

    /// As [`Session::add`](crate::Session::add).
    pub async fn add(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        check_delta(delta)?;
        self.sum(key, Task::Counter(CounterGoal::Add(delta))).await
    }

    /// As [`Session::add_exactly_once`](crate::Session::add_exactly_once).
    pub async fn add_exactly_once(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        check_delta(delta)?;
        self.sum(key, Task::AddExactlyOnce(delta)).await
    }

    /// As [`Session::counter`](crate::Session::counter).
    pub async fn counter(&self, key: &[u8]) -> Result<Option<i64>, Error> {
        match self.ask(key, Task::Counter(CounterGoal::Read)).await? {
            Brought::Value(value) => Ok(value),
            _ => unexpected(),
        }
    }

    /// As [`Session::create_sequence`](crate::Session::create_sequence).
    pub async fn create_sequence(&self, key: &[u8], first: i64) -> Result<bool, Error> {
        self.create(key, Kind::Sequence, first).await
    }

    /// As [`Session::next`](crate::Session::next).
    pub async fn next(&self, key: &[u8]) -> Result<i64, Error> {
        self.sum(key, Task::Counter(CounterGoal::Next)).await
    }

    /// As [`Session::try_lock`](crate::Session::try_lock).
    pub async fn try_lock(&self, key: &[u8]) -> Result<Option<AsyncLockGuard>, Error> {
        let limit = self.shared.client.deadline;
        let started = BootInstant::now();
        Ok(self.attempt(key, started, limit).await?.ok())
    }

    /// As [`Session::lock`](crate::Session::lock); no thread waits.
    pub async fn lock(&self, key: &[u8], timeout: Duration) -> Result<AsyncLockGuard, Error> {
        let started = BootInstant::now();
        let mut backoff = Backoff::new(LOCK_PAUSE_FIRST, LOCK_PAUSE_MAX);
        let mut seen: Option<LockView> = None;
        loop {
            let view = match (self.attempt(key, started, timeout).await, seen) {
                (Ok(Ok(guard)), _) => return Ok(guard),
                (Ok(Err(view)), _) => view,
                // The last attempt had no time left for itself; what kept the lock is what was seen before.
                (Err(Error::Deadline { .. }), Some(view)) => view,
                (Err(error), _) => return Err(error),
            };
            seen = Some(view);
            let pause = backoff.pause();
            if BootInstant::now().since(started) + pause >= timeout {
                return Err(Error::LockTimeout { holder: view.holder, token: view.token });
            }
            self.pause(pause).await;
        }
    }

    /// One attempt, after the server grants locks.
    async fn attempt(
        &self,
        key: &[u8],
        started: BootInstant,
        limit: Duration,
    ) -> Result<Result<AsyncLockGuard, LockView>, Error> {
        loop {
            let left = limit.saturating_sub(BootInstant::now().since(started));
            match self.ask_within(key, Task::TryLock, left.min(self.shared.client.deadline)).await? {
                Brought::Lock(Ok(held)) => {
                    let token = held.taken.word.token();
                    return Ok(Ok(AsyncLockGuard { client: self.clone(), key: key.to_vec(), held: Some(held), token }));
                }
                Brought::Lock(Err(view)) => return Ok(Err(view)),
                Brought::LocksOpenIn(wait) if BootInstant::now().since(started) + wait <= limit => self.pause(wait).await,
                Brought::LocksOpenIn(opens_in) => return Err(Error::LocksClosed { opens_in }),
                _ => return unexpected(),
            }
        }
    }

    /// Sleeps on the control plane's runtime, so that the caller's may be any.
    async fn pause(&self, pause: Duration) {
        let slept = self.shared.client.runtime().spawn(tokio::time::sleep(pause));
        // It ends by itself; nobody aborts it.
        let _ = slept.await;
    }

    /// As [`Session::lock_state`](crate::Session::lock_state).
    pub async fn lock_state(&self, key: &[u8]) -> Result<Option<LockView>, Error> {
        match self.ask(key, Task::LockState).await? {
            Brought::View(view) => Ok(view),
            _ => unexpected(),
        }
    }

    /// As [`Session::break_lock`](crate::Session::break_lock).
    pub async fn break_lock(&self, key: &[u8]) -> Result<bool, Error> {
        self.created(key, Task::BreakLock).await
    }
}

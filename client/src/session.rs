//! A session: one thread's endpoints to the servers.

use crate::client::Inner;
use crate::error::Error;
use crate::in_flight::{Machine, Sink};
use crate::lock_guard::{LockGuard, LockView};
use crate::op::{Counter, CounterGoal, Done, Found, Lock, LockGoal, Record, check_kind};
use crate::pipeline::{Operation, OperationId, Outcome};
use crate::raw::RawFabric;
use crate::retry::Backoff;
use crate::route::Router;
use crate::stats::ClientStats;
use crate::value::Value;
use crate::write::{Write, WriteOptions};
use sidewire_common::clock::BootInstant;
use sidewire_common::host;
use sidewire_common::layout::counter_cell::{DELTA_MAX, VALUE_MAX};
use sidewire_common::layout::record::{Kind, Version};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// First and longest pause between two looks at a lock that another holds.
const LOCK_PAUSE_FIRST: Duration = Duration::from_micros(50);
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(20);
/// Keys of a `multi_get` that are in flight at once.
const MULTI_GET_MAX: usize = 1024;

/// What a session's handles share; all of them belong to one thread.
pub(crate) struct Core {
    pub router: RefCell<Router>,
    deadline: Cell<Duration>,
}

/// One thread's endpoints to the server, or to all servers of a cluster. Every call ends within the session's deadline.
pub struct Session {
    core: Rc<Core>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Core {
    /// The session's deadline.
    pub fn deadline(&self) -> Duration {
        self.deadline.get()
    }

    /// Brings one operation to its end.
    #[inline]
    pub fn run(&self, machine: Machine, key: &[u8]) -> Result<Done, Error> {
        self.run_within(machine, key, self.deadline.get())
    }

    /// As `run`, with a deadline of its own.
    #[inline]
    pub fn run_within(&self, machine: Machine, key: &[u8], deadline: Duration) -> Result<Done, Error> {
        let mut router = self.router.borrow_mut();
        let name = router.begin(machine, key, deadline, Sink::Call)?;
        router.run(name)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        let mut router = self.router.borrow_mut();
        let name = router.begin_get(key, self.deadline.get(), Sink::Call)?;
        found(router.run(name)?)
    }

    fn write(&self, key: &[u8], write: &WriteSpec<'_>) -> Result<Done, Error> {
        let mut router = self.router.borrow_mut();
        let name = router.begin_write(key, write, self.deadline.get(), Sink::Call)?;
        router.run(name)
    }
}

pub(crate) use crate::driver::WriteSpec;

fn unexpected<T>(done: &Done) -> Result<T, Error> {
    Err(Error::Layout { reason: format!("an operation ended in {done:?}, which it never does") })
}

#[inline]
fn found(done: Done) -> Result<Option<Record>, Error> {
    match done {
        Done::Found(Found::Record(record)) => Ok(Some(record)),
        Done::Found(Found::Absent) => Ok(None),
        other => unexpected(&other),
    }
}

/// A record as the value that a Get is after.
#[inline]
fn value(record: Option<Record>) -> Result<Option<Value>, Error> {
    let Some(record) = record else { return Ok(None) };
    check_kind(Kind::Value, record.whole.kind)?;
    Ok(Some(Value::new(record)))
}

fn write_of(done: Done) -> Result<Write, Error> {
    match done {
        Done::Write(write) => Ok(write),
        other => unexpected(&other),
    }
}

fn created(done: &Done) -> Result<bool, Error> {
    match done {
        Done::Created(created) => Ok(*created),
        other => unexpected(other),
    }
}

fn sum(done: &Done) -> Result<i64, Error> {
    match done {
        Done::Sum(sum) | Done::Asked(sum) => Ok(*sum),
        other => unexpected(other),
    }
}

fn check_delta(delta: i64) -> Result<(), Error> {
    if delta.unsigned_abs() <= DELTA_MAX as u64 { Ok(()) } else { Err(Error::DeltaTooLarge { delta, limit: DELTA_MAX }) }
}

#[allow(clippy::missing_errors_doc, reason = "every call fails as the variants of Error tell")]
impl Session {
    pub(crate) fn open(client: Arc<Inner>) -> Result<Self, Error> {
        let deadline = Cell::new(client.deadline);
        Ok(Self { core: Rc::new(Core { router: RefCell::new(Router::open(client)?), deadline }) })
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Sets the deadline of all later calls.
    pub fn set_deadline(&self, deadline: Duration) {
        self.core.deadline.set(deadline);
    }

    /// The key's value.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        value(self.core.get(key)?)
    }

    /// The values of several keys: one doorbell for their buckets, one for their records.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Value>, Error>> {
        let mut results = Vec::with_capacity(keys.len());
        // All keys together have one deadline. Few of them read no clock.
        let started = (keys.len() > MULTI_GET_MAX).then(BootInstant::now);
        for some in keys.chunks(MULTI_GET_MAX) {
            let mut router = self.core.router.borrow_mut();
            let spent = started.map_or(Duration::ZERO, |started| BootInstant::now().since(started));
            let deadline = self.core.deadline().saturating_sub(spent);
            // All are begun before the first turn, so that their reads make one chain.
            let begun: Vec<_> = some.iter().map(|key| router.begin_get(key.as_ref(), deadline, Sink::Call)).collect();
            results.extend(begun.into_iter().map(|name| value(found(router.run(name?)?)?)));
        }
        results
    }

    /// Whether the key holds anything, of any kind.
    pub fn exists(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.core.get(key)?.is_some())
    }

    /// What the key holds.
    pub fn kind(&self, key: &[u8]) -> Result<Option<Kind>, Error> {
        Ok(self.core.get(key)?.map(|record| record.whole.kind))
    }

    /// Stores a value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        match self.put_with(key, value, &WriteOptions::new())? {
            Write::Done(version) => Ok(version),
            Write::NotDone(unmet) => Err(Error::Layout { reason: format!("a put without condition was answered {unmet:?}") }),
        }
    }

    /// Stores a value under conditions, for a time, or fenced by a lock.
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        write_of(self.core.write(key, &WriteSpec::put(value, options)?)?)
    }

    /// Stores a value if the key holds nothing.
    pub fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_absent())
    }

    /// Stores a value if the key's version is this one.
    pub fn put_if_version(&self, key: &[u8], value: &[u8], version: Version) -> Result<Write, Error> {
        self.put_with(key, value, &WriteOptions::new().if_version(version))
    }

    /// Deletes whatever the key holds; false when it held nothing.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(matches!(self.delete_with(key, &WriteOptions::new())?, Write::Done(_)))
    }

    /// Deletes under conditions, or fenced by a lock.
    pub fn delete_with(&self, key: &[u8], options: &WriteOptions<'_>) -> Result<Write, Error> {
        write_of(self.core.write(key, &WriteSpec::delete(options)?)?)
    }

    /// Deletes the key if its version is this one.
    pub fn delete_if_version(&self, key: &[u8], version: Version) -> Result<Write, Error> {
        self.delete_with(key, &WriteOptions::new().if_version(version))
    }

    /// Creates a counter; false when there was one already, which is left as it is.
    pub fn create_counter(&self, key: &[u8], initial: i64) -> Result<bool, Error> {
        self.create(key, Kind::Counter, initial)
    }

    fn create(&self, key: &[u8], kind: Kind, initial: i64) -> Result<bool, Error> {
        if initial.unsigned_abs() > VALUE_MAX as u64 {
            return Err(Error::OutOfRange { value: initial });
        }
        created(&self.core.write(key, &WriteSpec::create(kind, initial))?)
    }

    /// Adds to a counter and tells its value after that.
    pub fn add(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        check_delta(delta)?;
        sum(&self.core.run(Machine::Counter(Counter::new(CounterGoal::Add(delta))), key)?)
    }

    /// As [`add`](Self::add), carried out by the server's worker, so that a broken connection cannot leave it in
    /// doubt.
    pub fn add_exactly_once(&self, key: &[u8], delta: i64) -> Result<i64, Error> {
        check_delta(delta)?;
        sum(&self.core.write(key, &WriteSpec::add(delta))?)
    }

    /// A counter's or sequence's value.
    pub fn counter(&self, key: &[u8]) -> Result<Option<i64>, Error> {
        match self.core.run(Machine::Counter(Counter::new(CounterGoal::Read)), key)? {
            Done::Value(value) => Ok(value),
            other => unexpected(&other),
        }
    }

    /// Creates a sequence; false when there was one already, which is left as it is.
    pub fn create_sequence(&self, key: &[u8], first: i64) -> Result<bool, Error> {
        self.create(key, Kind::Sequence, first)
    }

    /// The next number of a sequence: numbers may be skipped, never repeated.
    pub fn next(&self, key: &[u8]) -> Result<i64, Error> {
        sum(&self.core.run(Machine::Counter(Counter::new(CounterGoal::Next)), key)?)
    }

    /// Takes a lock if it is free; creates it if there is none. In a server's first lease, while former holders may
    /// still believe in theirs, it waits, up to the deadline.
    pub fn try_lock(&self, key: &[u8]) -> Result<Option<LockGuard>, Error> {
        let waited = self.wait_for_locks(key, self.core.deadline())?;
        Ok(self.attempt(key, self.core.deadline().saturating_sub(waited))?.ok())
    }

    /// Takes a lock, waiting for it up to `timeout`; creates it if there is none.
    pub fn lock(&self, key: &[u8], timeout: Duration) -> Result<LockGuard, Error> {
        let started = BootInstant::now();
        self.wait_for_locks(key, timeout)?;
        let mut backoff = Backoff::new(LOCK_PAUSE_FIRST, LOCK_PAUSE_MAX);
        let mut seen: Option<LockView> = None;
        loop {
            let left = timeout.saturating_sub(BootInstant::now().since(started)).max(LOCK_PAUSE_FIRST);
            let view = match (self.attempt(key, left.min(self.core.deadline())), seen) {
                (Ok(Ok(guard)), _) => return Ok(guard),
                (Ok(Err(view)), _) => view,
                // The last attempt had no time left for itself; what kept the lock is what was seen before.
                (Err(Error::Deadline { .. }), Some(view)) => {
                    return Err(Error::LockTimeout { holder: view.holder, token: view.token });
                }
                (Err(error), _) => return Err(error),
            };
            seen = Some(view);
            let pause = backoff.pause();
            if BootInstant::now().since(started) + pause >= timeout {
                return Err(Error::LockTimeout { holder: view.holder, token: view.token });
            }
            host::sleep(pause);
        }
    }

    /// Waits until the key's server grants locks, and tells how long that took.
    fn wait_for_locks(&self, key: &[u8], limit: Duration) -> Result<Duration, Error> {
        sidewire_common::key::check(key)?;
        let wait = self.core.router.borrow_mut().locks_open_in(key);
        if wait > limit {
            return Err(Error::LocksClosed { opens_in: wait });
        }
        if !wait.is_zero() {
            host::sleep(wait);
        }
        Ok(wait)
    }

    /// One attempt at a lock.
    pub(crate) fn attempt(&self, key: &[u8], deadline: Duration) -> Result<Result<LockGuard, LockView>, Error> {
        match self.core.run_within(Machine::Lock(Lock::new(LockGoal::Take)), key, deadline)? {
            Done::Locked(held) => Ok(Ok(LockGuard::new(Rc::clone(&self.core), key, held))),
            Done::Lock(Err(view)) => Ok(Err(view)),
            other => unexpected(&other),
        }
    }

    /// Who holds a lock.
    pub fn lock_state(&self, key: &[u8]) -> Result<Option<LockView>, Error> {
        match self.core.run(Machine::Lock(Lock::new(LockGoal::View)), key)? {
            Done::View(view) => Ok(view),
            other => unexpected(&other),
        }
    }

    /// Frees a lock, whoever holds it; false when there is no such lock. For administration.
    pub fn break_lock(&self, key: &[u8]) -> Result<bool, Error> {
        created(&self.core.write(key, &WriteSpec::break_lock())?)
    }

    /// Submits an operation; its outcome comes out of [`poll`](Self::poll) or [`wait`](Self::wait).
    /// [`Error::Full`] means: poll first. What is submitted goes out with the next call of the session, together: Gets share
    /// doorbells, writes share messages.
    pub fn submit(&self, operation: Operation<'_>) -> Result<OperationId, Error> {
        let mut router = self.core.router.borrow_mut();
        let deadline = self.core.deadline();
        let id = router.next_id();
        let sink = Sink::Submitted(id);
        match operation {
            Operation::Get { key } => router.begin_get(key, deadline, sink)?,
            Operation::Put { key, value, options } => {
                router.submit_write(key, &WriteSpec::put(value, &options)?, deadline, sink)?
            }
            Operation::Delete { key, options } => router.submit_write(key, &WriteSpec::delete(&options)?, deadline, sink)?,
            Operation::Add { key, delta } => {
                check_delta(delta)?;
                router.begin(Machine::Counter(Counter::new(CounterGoal::Add(delta))), key, deadline, sink)?
            }
        };
        Ok(OperationId(id))
    }

    /// Moves what has ended into `finished` and says how many. Never blocks, unless a broken connection is rebuilt.
    pub fn poll(&self, finished: &mut Vec<(OperationId, Result<Outcome, Error>)>) -> usize {
        let mut router = self.core.router.borrow_mut();
        router.poll_some();
        if router.submitted() > 0 {
            router.look_at_deadlines(BootInstant::now());
        }
        collect(&mut router, finished)
    }

    /// Waits until at least one submitted operation has ended; 0 when none is in flight.
    pub fn wait(&self, finished: &mut Vec<(OperationId, Result<Outcome, Error>)>) -> Result<usize, Error> {
        let mut router = self.core.router.borrow_mut();
        // Every submitted operation has a deadline, so this ends.
        while router.submitted() > 0 {
            router.wait_some();
            let count = collect(&mut router, finished);
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// Submitted operations that have not been polled.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.core.router.borrow().submitted()
    }

    /// What this session counted.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.core.router.borrow().stats()
    }

    /// The raw verbs on this session's own endpoints.
    #[must_use]
    pub fn raw(&self) -> RawFabric<'_> {
        RawFabric::new(self)
    }
}

fn collect(router: &mut Router, finished: &mut Vec<(OperationId, Result<Outcome, Error>)>) -> usize {
    let before = finished.len();
    while let Some((id, result)) = router.take_finished() {
        finished.push((OperationId(id), result.and_then(outcome)));
    }
    finished.len() - before
}

fn outcome(done: Done) -> Result<Outcome, Error> {
    match done {
        Done::Found(Found::Absent) => Ok(Outcome::Value(None)),
        Done::Found(Found::Record(record)) => Ok(Outcome::Value(value(Some(record))?)),
        Done::Write(write) => Ok(Outcome::Write(write)),
        Done::Sum(sum) | Done::Asked(sum) => Ok(Outcome::Sum(sum)),
        other => unexpected(&other),
    }
}

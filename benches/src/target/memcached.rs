//! memcached, through the `memcache` client: one connection a thread. The client has no pipelining; reads in flight
//! go as one multi-get, writes one by one.

use std::collections::HashMap;
use std::time::Duration;

use memcache::{Client, ConnectionManager, MemcacheError};
use r2d2::Pool;
use sidewire::ClientStats;
use url::Url;

use super::store::{Outcomes, Store};
use super::{Keys, Request, Target, Ticket};
use crate::connect::Stop;
use crate::drive::{Crew, CrewError, Plan};
use crate::environment::Environment;
use crate::failure::{Failure, FailureKind};
use crate::mix::Kind;
use crate::server_cost::ServerLook;

/// memcached's own limits, as it is unless told otherwise.
const KEY_BYTES_MAX: u64 = 250;
const VALUE_BYTES_MAX: u64 = (1 << 20) - 512;

/// A memcached server.
pub struct MemcachedStore {
    url: Url,
    deadline: Duration,
}

impl From<MemcacheError> for Stop {
    fn from(error: MemcacheError) -> Self {
        Self::Failed(format!("memcached: {error}"))
    }
}

/// A client of one connection, which is not asked whether it is alive before each use: that would be a round trip.
fn connect(url: &Url, deadline: Duration) -> Result<Client, MemcacheError> {
    let pool = Pool::builder().max_size(1).test_on_check_out(false).connection_timeout(deadline);
    let client = Client::with_pool(pool.build(ConnectionManager::new(url.clone()))?)?;
    client.set_read_timeout(Some(deadline))?;
    client.set_write_timeout(Some(deadline))?;
    Ok(client)
}

impl MemcachedStore {
    /// Finds out whether it answers.
    pub fn open(url: &str, deadline: Duration) -> Result<Self, Stop> {
        let url = Url::parse(&format!("{url}?protocol=ascii"));
        let url = url.map_err(|error| Stop::Usage(format!("--target: {error}")))?;
        let store = Self { url, deadline };
        connect(&store.url, deadline)?.version()?;
        Ok(store)
    }

    /// The client reads statistics in the binary protocol only: in the other it stops at the first line.
    fn stats(&self) -> Result<HashMap<String, String>, Stop> {
        let mut url = self.url.clone();
        url.set_query(None);
        let all = connect(&url, self.deadline)?.stats()?;
        let all = all.into_iter().next().map(|(_, stats)| stats).unwrap_or_default();
        Ok(all.into_iter().map(|(name, value)| (name, value.trim().to_owned())).collect())
    }
}

impl Store for MemcachedStore {
    fn lacks(&self, kind: Kind) -> Option<&'static str> {
        (kind == Kind::Lock)
            .then_some("memcached cannot compare and delete, so a lock that ran out would be taken from its next holder")
    }

    fn longest(&self) -> (u64, u64) {
        (KEY_BYTES_MAX, VALUE_BYTES_MAX)
    }

    fn crew(&self, plan: &Plan, threads: usize) -> Result<Crew, CrewError> {
        let (url, deadline) = (self.url.clone(), self.deadline);
        Crew::start(plan, threads, move |_| {
            let client = connect(&url, deadline)?;
            Ok(MemcachedConnection { client, outcomes: Outcomes::default(), reads: Vec::new() })
        })
    }

    fn missing(&self, keys: &[Vec<u8>]) -> Result<Option<usize>, Stop> {
        let client = connect(&self.url, self.deadline)?;
        for (at, key) in keys.iter().enumerate() {
            if client.get::<Vec<u8>>(text(key)?)?.is_none() {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn look(&self) -> Result<ServerLook, Stop> {
        let stats = self.stats()?;
        let seconds = |name| stats.get(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        let count = |name| stats.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        let cpu = seconds("rusage_user") + seconds("rusage_system");
        Ok(ServerLook { cpu_ns: (cpu * 1e9) as u64, requests: count("cmd_get") + count("cmd_set"), wakeups: 0 })
    }

    fn environment(&self) -> Result<Environment, Stop> {
        let version = self.stats()?.remove("version").unwrap_or_default();
        let unix = self.url.scheme().ends_with("unix");
        Ok(Environment::of_peer(self.url.as_str(), if unix { "unix" } else { "tcp" }, &format!("memcached {version}")))
    }
}

type Answer = Result<Option<Vec<u8>>, Failure>;

/// One thread's connection.
pub struct MemcachedConnection {
    client: Client,
    outcomes: Outcomes<Answer>,
    /// Reads that go with the next multi-get.
    reads: Vec<String>,
}

/// Keys are written by this program, in ASCII.
fn text(key: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(key).map_err(|_| Failure::refused("a key is not text"))
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.text)
    }
}

/// Whole seconds; it knows nothing shorter.
fn seconds(ttl: Option<Duration>) -> u32 {
    ttl.map_or(0, |ttl| ttl.as_secs().clamp(1, u64::from(u32::MAX)) as u32)
}

impl Target for MemcachedConnection {
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure> {
        let value = self.client.get::<Vec<u8>>(text(key)?)?;
        Ok(look(value.as_deref()))
    }

    fn multi_get(&mut self, keys: &Keys, mut look: impl FnMut(usize, Option<&[u8]>)) -> Result<(), Failure> {
        let keys: Vec<&str> = keys.iter().map(text).collect::<Result<_, _>>()?;
        let values = self.client.gets::<Vec<u8>>(&keys)?;
        keys.iter().enumerate().for_each(|(at, key)| look(at, values.get(*key).map(Vec::as_slice)));
        Ok(())
    }

    fn write(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Failure> {
        self.client.set(text(key)?, value, seconds(ttl))?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.client.delete(text(key)?)?;
        Ok(())
    }

    fn add(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.client.increment(text(key)?, 1)?;
        Ok(())
    }

    fn lock_and_unlock(&mut self, _key: &[u8]) -> Result<(), Failure> {
        Err(Failure::refused("memcached has no locks"))
    }

    fn create_counter(&mut self, key: &[u8]) -> Result<(), Failure> {
        match self.client.add(text(key)?, &b"0"[..], 0) {
            Ok(()) | Err(MemcacheError::CommandError(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn submit(&mut self, request: Request<'_>) -> Result<Option<Ticket>, Failure> {
        let done = match request {
            Request::Read { key } => {
                self.reads.push(text(key)?.to_owned());
                // Its place in the multi-get; `wait` puts the value there.
                return Ok(Some(self.outcomes.keep(Ok(None))));
            }
            Request::Write { key, value, ttl } => self.write(key, value, ttl),
            Request::Delete { key } => self.delete(key),
            Request::Add { key } => self.add(key),
        };
        self.reads.push(String::new());
        Ok(Some(self.outcomes.keep(done.map(|()| None))))
    }

    fn wait(&mut self, mut ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        let asked: Vec<&str> = self.reads.iter().filter(|key| !key.is_empty()).map(String::as_str).collect();
        let values = if asked.is_empty() { Ok(HashMap::new()) } else { self.client.gets::<Vec<u8>>(&asked) };
        for key in &self.reads {
            let Some((ticket, answer)) = self.outcomes.take() else { break };
            match (&values, key.is_empty()) {
                (_, true) => ended(ticket, answer.as_ref().map(Option::as_deref).map_err(Clone::clone)),
                (Ok(values), false) => ended(ticket, Ok(values.get(key).map(Vec::as_slice))),
                (Err(error), false) => ended(ticket, Err(failure(error))),
            }
        }
        self.reads.clear();
        Ok(())
    }

    fn stats(&self) -> ClientStats {
        ClientStats::default()
    }
}

#[cold]
fn failure(error: &MemcacheError) -> Failure {
    let text = format!("memcached: {error}");
    let kind = match error {
        MemcacheError::IOError(cause)
            if matches!(cause.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
        {
            FailureKind::Deadline
        }
        MemcacheError::IOError(_) | MemcacheError::PoolError(_) => FailureKind::Unreachable,
        MemcacheError::ServerError(_) if text.contains("out of memory") => FailureKind::Full,
        _ => FailureKind::Refused,
    };
    Failure { kind, text }
}

impl From<MemcacheError> for Failure {
    fn from(error: MemcacheError) -> Self {
        failure(&error)
    }
}

//! The store that a whole run talks to.

use super::kv::KvStore;
use super::lmdb::LmdbStore;
use super::memcached::MemcachedStore;
use super::null::NullStore;
use super::redis::RedisStore;
use super::{TargetUrl, Ticket};
use crate::cli::{Common, Records};
use crate::connect::Stop;
use crate::drive::{Crew, CrewError, Plan};
use crate::environment::Environment;
use crate::mix::{Kind, Mix};
use crate::server_cost::ServerLook;

/// What a run asks of a store.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// The operations.
    pub mix: Mix,
    /// Bytes of keys and of the longest value.
    pub key_bytes: u64,
    /// Bytes of the longest value.
    pub value_bytes: u64,
    /// Whether values are to go away by themselves.
    pub ttl: bool,
    /// Records.
    pub records: u64,
}

/// A store, as the main thread sees it.
pub trait Store {
    /// Why operations of this kind are not offered, if they are not.
    fn lacks(&self, kind: Kind) -> Option<&'static str> {
        let _ = kind;
        None
    }

    /// Why values cannot go away by themselves, if they cannot.
    fn lacks_ttl(&self) -> Option<&'static str> {
        None
    }

    /// Longest key and value it takes.
    fn longest(&self) -> (u64, u64);

    /// Threads with a target each.
    fn crew(&self, plan: &Plan, threads: usize) -> Result<Crew, CrewError>;

    /// Whether it holds all of these keys; says the first that is missing.
    fn missing(&self, keys: &[Vec<u8>]) -> Result<Option<usize>, Stop>;

    /// What its server has used of the CPU so far, if it has one and tells.
    fn look(&self) -> Result<ServerLook, Stop>;

    /// Where a run on it takes place.
    fn environment(&self) -> Result<Environment, Stop>;

    /// Sidewire's client, for what only Sidewire has.
    fn client(&self) -> Option<&sidewire::Client> {
        None
    }
}

/// Opens the store and finds out whether it can do what the run asks for.
pub fn open(url: &TargetUrl, common: &Common, records: &Records, needs: &Needs) -> Result<Box<dyn Store>, Stop> {
    let store: Box<dyn Store> = match url {
        TargetUrl::Kv(address) => Box::new(KvStore::attach(address, common, records)?),
        TargetUrl::Redis(url) => Box::new(RedisStore::open(url, common.deadline)?),
        TargetUrl::Memcached(url) => Box::new(MemcachedStore::open(url, common.deadline)?),
        TargetUrl::Lmdb(folder) => Box::new(LmdbStore::open(folder, needs)?),
        TargetUrl::Null => Box::new(NullStore),
    };
    can_do(&*store, url, needs)?;
    Ok(store)
}

fn can_do(store: &dyn Store, url: &TargetUrl, needs: &Needs) -> Result<(), Stop> {
    let refuse = |what: &str, why: &str| Err(Stop::Usage(format!("target {url} does not offer {what}: {why}")));
    for kind in Kind::ALL.into_iter().filter(|kind| needs.mix.has(*kind)) {
        if let Some(why) = store.lacks(kind) {
            return refuse(&format!("the operation {}", kind.name()), why);
        }
    }
    if let Some(why) = store.lacks_ttl().filter(|_| needs.ttl) {
        return refuse("values that go away by themselves", why);
    }
    let (key, value) = store.longest();
    if needs.key_bytes > key {
        return refuse(&format!("keys of {} bytes", needs.key_bytes), &format!("--key-size may be {key} at most"));
    }
    if needs.value_bytes > value {
        return refuse(
            &format!("values of {} bytes", needs.value_bytes),
            &format!("--value-size: it takes {value} bytes at most"),
        );
    }
    Ok(())
}

/// Operations that a client without pipelining carries out at once: their outcome waits to be asked for.
#[derive(Debug)]
pub struct Outcomes<T> {
    waiting: std::collections::VecDeque<(Ticket, T)>,
    next: Ticket,
}

impl<T> Default for Outcomes<T> {
    fn default() -> Self {
        Self { waiting: std::collections::VecDeque::new(), next: 0 }
    }
}

impl<T> Outcomes<T> {
    /// Keeps an outcome; gives the ticket it is kept under.
    pub fn keep(&mut self, outcome: T) -> Ticket {
        self.next += 1;
        self.waiting.push_back((self.next, outcome));
        self.next
    }

    /// The oldest.
    pub fn take(&mut self) -> Option<(Ticket, T)> {
        self.waiting.pop_front()
    }
}

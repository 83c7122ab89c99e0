//! A client of a schedule: sessions that call at random, and write down what they saw.

use crate::cluster::{ADDRESS, Line};
use crate::keys::Keys;
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;
use sidewire::{Client, Error, Session, Version};
use sidewire_common::fabric::sim::time;
use sidewire_common::host;
use sidewire_tests::history::lives::Lived;
use sidewire_tests::history::{Call, Condition, Event, Outcome, observed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between calls while keys are added slowly, nanoseconds.
const SLOW_PAUSE_MAX: u64 = 60_000_000;

/// What all clients of a schedule write down.
#[derive(Default)]
pub struct Notes {
    /// Calls.
    pub calls: Vec<Lived>,
    /// Locks that are held: by client, key and token, since when and in which life.
    pub held: BTreeMap<(u32, String, u64), (u64, u64)>,
    /// Sessions that have something left to do.
    pub open: BTreeSet<u32>,
    /// What a call told that can never be.
    pub absurd: Option<String>,
    next_stamp: u64,
}

/// Shared by all.
pub type Book = Arc<Mutex<Notes>>;

impl Notes {
    pub(super) fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// Its holder was told that it is surely held.
    pub fn seen_held(&mut self, client: u32, key: &str, token: u64, at: u64) {
        if let Some((since, _)) = self.held.get_mut(&(client, key.to_owned(), token)) {
            *since = at;
        }
    }

    /// A lock was lost without a call of its holder, at some moment since it was taken.
    pub fn lost(&mut self, client: u32, key: &str, token: u64) {
        let Some((since, life)) = self.held.remove(&(client, key.to_owned(), token)) else { return };
        let call = Call::Lost { key: key.into(), token };
        let event = Event { client, invoked: since, returned: None, call, outcome: Outcome::Noted };
        self.calls.push(Lived { event, life, until: None });
    }

    /// A client has died: so has its hold on all locks.
    pub fn died(&mut self, client: u32) {
        let held: Vec<_> = self.held.keys().filter(|(of, _, _)| *of == client).cloned().collect();
        self.open.remove(&client);
        held.into_iter().for_each(|(_, key, token)| self.lost(client, &key, token));
    }
}

/// What a session does.
#[derive(Clone, Copy)]
pub struct Habits {
    /// Its calls.
    pub calls: u32,
    /// Of 100 so many only look at values, at least.
    pub reads: u32,
    /// Whether it pauses for long.
    pub slowly: bool,
}

/// One session at work.
pub struct Worker {
    pub client: Client,
    pub number: u32,
    pub session: Session,
    pub book: Book,
    pub keys: Arc<Keys>,
    pub rng: SmallRng,
    /// Whether guards are asked whether they hold: what they say moves with the map of a cluster.
    pub asks_guards: bool,
    pub(super) versions: BTreeMap<String, Version>,
}

/// Attaches, however long it takes.
pub fn attach(line: &Line, deadline: Duration) -> Client {
    loop {
        let builder = Client::builder().server(ADDRESS).deadline(deadline).spin(Duration::ZERO).location_cache_entries(256);
        match builder.connect_simulated(Arc::new(line.clone())) {
            Ok(client) => return client,
            Err(_) => host::sleep(Duration::from_millis(3)),
        }
    }
}

fn open(client: &Client) -> Session {
    loop {
        match client.session() {
            Ok(session) => return session,
            Err(_) => host::sleep(Duration::from_millis(3)),
        }
    }
}

impl Worker {
    /// A session of a client.
    pub fn new(client: Client, number: u32, book: Book, keys: Arc<Keys>, rng: SmallRng) -> Self {
        let session = open(&client);
        Self { client, number, session, book, keys, rng, asks_guards: false, versions: BTreeMap::new() }
    }

    /// Makes its calls.
    pub fn run(&mut self, habits: Habits) {
        for _ in 0..habits.calls {
            if self.rng.random_range(0..100) < habits.reads {
                let key = self.keys.value(&mut self.rng);
                self.get(&key);
            } else {
                self.one();
            }
            let pause = match self.rng.random_range(0..20) {
                0..8 if habits.slowly => self.rng.random_range(0..SLOW_PAUSE_MAX),
                0 => self.rng.random_range(0..2_000_000),
                1..6 => self.rng.random_range(0..30_000),
                _ => 0,
            };
            if pause > 0 {
                host::sleep(Duration::from_nanos(pause));
            }
        }
        self.book.lock().open.remove(&self.number);
    }

    /// No counter of a schedule comes near the end of its range.
    pub(super) fn in_range<T>(&self, result: &Result<T, Error>) {
        if let Err(Error::OutOfRange { value }) = result {
            self.book
                .lock()
                .absurd
                .get_or_insert_with(|| format!("client {}: a counter is out of range at {value}", self.number));
        }
    }

    /// Writes down a call and its outcome.
    pub(super) fn note<T>(&mut self, call: Call, run: impl FnOnce(&Self) -> T, outcome: impl FnOnce(&T) -> Outcome) -> T {
        let at = self.begun(call);
        let result = run(self);
        self.ended(at, outcome(&result));
        result
    }

    /// Writes down that a call is made; its place in the book.
    pub(super) fn begun(&self, call: Call) -> usize {
        let life = self.client.attachment().incarnation.0;
        let event = Event { client: self.number, invoked: time(), returned: None, call, outcome: Outcome::Unknown };
        let mut book = self.book.lock();
        book.calls.push(Lived { event, life, until: None });
        book.calls.len() - 1
    }

    /// Writes down what came of it.
    pub(super) fn ended(&self, at: usize, outcome: Outcome) {
        let until = self.client.attachment().incarnation.0;
        let mut book = self.book.lock();
        let lived = &mut book.calls[at];
        (lived.event.returned, lived.until, lived.event.outcome) = (Some(time()), Some(until), outcome);
    }

    fn one(&mut self) {
        let key = self.keys.value(&mut self.rng);
        match self.rng.random_range(0..100) {
            0..26 => self.get(&key),
            26..30 => self.pipelined(),
            30..36 => self.multi_get(),
            36..39 => {
                let call = Call::Exists { key: key.clone() };
                drop(self.note(call, |w| w.session.exists(key.as_bytes()), observed::found));
            }
            39..57 => self.put(&key, Condition::None, None),
            57..60 => self.put(&key, Condition::Absent, None),
            60..64 => self.put_if_version(&key),
            64..67 => {
                let ttl = Duration::from_millis(self.rng.random_range(1..30));
                self.put(&key, Condition::None, Some(ttl));
            }
            67..72 => self.delete(&key, None),
            72..74 => {
                let version = self.versions.get(&key).copied();
                self.delete(&key, version);
            }
            74..86 => self.count(),
            86..95 => self.locked(),
            95..97 => self.lock_state(),
            _ => self.pipelined(),
        }
    }
}

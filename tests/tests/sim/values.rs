//! Calls on values.

use crate::client::Worker;
use crate::keys::FILLS_SLOWLY;
use rand::Rng;
use sidewire::{Error, Operation, OperationId, Version, WriteOptions};
use sidewire_common::host;
use sidewire_tests::history::{Call, Condition, Outcome, observed};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest pause while keys are added slowly, nanoseconds: half a heartbeat's period.
const FILL_PAUSE_MAX: u64 = 50_000_000;
/// Bytes of a large value, at most: some forty parts.
const LARGE_MAX: usize = 6_000;

/// Calls that a session has in flight at once, less one.
const CALLS_AT_ONCE: u32 = 10;

/// Calls in flight: their places in the book, their keys, and whether they delete.
type Open = BTreeMap<OperationId, (usize, String, bool)>;

impl Worker {
    /// Adds keys until their segment splits.
    pub fn fill(&mut self, seed: u64, fills: u32) {
        for key in self.keys.fillers(seed, fills) {
            self.put(&key, Condition::None, None);
            self.keys.add(&key);
            if fills == FILLS_SLOWLY && self.rng.random_ratio(1, 8) {
                host::sleep(Duration::from_nanos(self.rng.random_range(0..FILL_PAUSE_MAX)));
            }
        }
    }

    pub(super) fn get(&mut self, key: &str) {
        let result = self.note(Call::Get { key: key.into() }, |w| w.session.get(key.as_bytes()), |r| observed::got(key, r));
        if let Ok(Some(value)) = result {
            self.versions.insert(key.into(), value.version());
        }
    }

    pub(super) fn multi_get(&mut self) {
        let count = self.rng.random_range(2..6);
        let keys: Vec<String> = (0..count).map(|_| self.keys.value(&mut self.rng)).collect();
        let call = Call::MultiGet { keys: keys.clone() };
        drop(self.note(
            call,
            |w| w.session.multi_get(&keys),
            |results| Outcome::Each(results.iter().zip(&keys).map(|(result, key)| observed::got(key, result)).collect()),
        ));
    }

    pub(super) fn bytes(&mut self) -> usize {
        if self.rng.random_ratio(1, 12) { self.rng.random_range(16..LARGE_MAX) } else { self.rng.random_range(16..220) }
    }

    pub(super) fn put(&mut self, key: &str, condition: Condition, ttl: Option<Duration>) {
        let stamp = self.book.lock().stamp();
        let value = observed::value(key, stamp, self.bytes());
        let ttl_nanos = ttl.map(|ttl| ttl.as_nanos() as u64);
        let call = Call::Put { key: key.into(), stamp, ttl: ttl_nanos, condition, fence: None };
        let mut options = WriteOptions::new();
        options = match condition {
            Condition::None => options,
            Condition::Absent => options.if_absent(),
            Condition::Version(version) => options.if_version(Version::from_raw(version)),
        };
        if let Some(ttl) = ttl {
            options = options.ttl(ttl);
        }
        drop(self.note(call, |w| w.session.put_with(key.as_bytes(), &value, &options), observed::put));
    }

    pub(super) fn put_if_version(&mut self, key: &str) {
        match self.versions.get(key) {
            Some(version) => self.put(key, Condition::Version(version.raw()), None),
            None => self.get(key),
        }
    }

    pub(super) fn delete(&mut self, key: &str, version: Option<Version>) {
        let condition = version.map_or(Condition::None, |version| Condition::Version(version.raw()));
        let options = version.map_or(WriteOptions::new(), |version| WriteOptions::new().if_version(version));
        let call = Call::delete(key, condition);
        drop(self.note(call, |w| w.session.delete_with(key.as_bytes(), &options), observed::deleted));
    }

    /// Several calls at once; writes among them that wait together share a message.
    pub(super) fn pipelined(&mut self) {
        let mut open = BTreeMap::new();
        for _ in 0..self.rng.random_range(2..CALLS_AT_ONCE) {
            self.submit(&mut open);
            if self.rng.random_ratio(1, 6) {
                let mut finished = Vec::new();
                self.session.poll(&mut finished);
                self.told(&mut open, finished);
            }
        }
        loop {
            let mut finished = Vec::new();
            if !self.session.wait(&mut finished).is_ok_and(|count| count > 0) {
                break;
            }
            self.told(&mut open, finished);
        }
    }

    fn submit(&mut self, open: &mut Open) {
        let key = self.keys.value(&mut self.rng);
        let stamp = self.book.lock().stamp();
        let value = observed::value(&key, stamp, self.bytes());
        let options = WriteOptions::new();
        let (call, operation, is_delete) = match self.rng.random_range(0..8) {
            0..2 => (Call::Get { key: key.clone() }, Operation::Get { key: key.as_bytes() }, false),
            2 => (Call::delete(&key, Condition::None), Operation::Delete { key: key.as_bytes(), options }, true),
            3 => {
                let call = Call::Put { key: key.clone(), stamp, ttl: None, condition: Condition::Absent, fence: None };
                (call, Operation::Put { key: key.as_bytes(), value: &value, options: options.if_absent() }, false)
            }
            _ => (Call::put(&key, stamp), Operation::Put { key: key.as_bytes(), value: &value, options }, false),
        };
        // Before it is submitted: a client that is killed right then may have sent it.
        let at = self.begun(call);
        match self.session.submit(operation) {
            Ok(id) => drop(open.insert(id, (at, key, is_delete))),
            Err(error) => self.ended(at, observed::failed(&error)),
        }
    }

    fn told(&mut self, open: &mut Open, finished: Vec<(OperationId, Result<sidewire::Outcome, Error>)>) {
        for (id, result) in finished {
            let Some((at, key, is_delete)) = open.remove(&id) else { continue };
            let outcome = match result {
                Err(error) => observed::failed(&error),
                Ok(sidewire::Outcome::Value(value)) => observed::got(&key, &Ok(value)),
                Ok(sidewire::Outcome::Write(write)) if is_delete => observed::deleted(&Ok(write)),
                Ok(sidewire::Outcome::Write(write)) => observed::put(&Ok(write)),
                Ok(sidewire::Outcome::Sum(sum)) => Outcome::Number(sum),
            };
            self.ended(at, outcome);
        }
    }
}

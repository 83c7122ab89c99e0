//! Calls on values.

use crate::client::Worker;
use crate::keys::FILLS_SLOWLY;
use rand::Rng;
use sidewire::{Operation, Version, WriteOptions};
use sidewire_common::host;
use sidewire_tests::history::{Call, Condition, Outcome, observed};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest pause while keys are added slowly, nanoseconds: half a heartbeat's period.
const FILL_PAUSE_MAX: u64 = 50_000_000;
/// Bytes of a large value, at most: it must fit half a staging ring.
const LARGE_MAX: usize = 6_000;

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

    /// Several calls at once.
    pub(super) fn pipelined(&mut self) {
        let mut open = BTreeMap::new();
        for _ in 0..self.rng.random_range(2..8) {
            let key = self.keys.value(&mut self.rng);
            let stamp = self.book.lock().stamp();
            let is_put = self.rng.random_ratio(1, 2);
            let value = observed::value(&key, stamp, self.bytes());
            let call = if is_put { Call::put(&key, stamp) } else { Call::Get { key: key.clone() } };
            let operation = if is_put {
                Operation::Put { key: key.as_bytes(), value: &value, options: WriteOptions::new() }
            } else {
                Operation::Get { key: key.as_bytes() }
            };
            // Before it is submitted: a client that is killed right then may have sent it.
            let at = self.begun(call);
            match self.session.submit(operation) {
                Ok(id) => drop(open.insert(id, (at, key))),
                Err(error) => self.ended(at, observed::failed(&error)),
            }
        }
        let mut finished = Vec::new();
        while self.session.wait(&mut finished).is_ok_and(|count| count > 0) {
            for (id, result) in finished.drain(..) {
                let Some((at, key)) = open.remove(&id) else { continue };
                let outcome = match result {
                    Err(error) => observed::failed(&error),
                    Ok(sidewire::Outcome::Value(value)) => observed::got(&key, &Ok(value)),
                    Ok(sidewire::Outcome::Write(write)) => observed::put(&Ok(write)),
                    Ok(sidewire::Outcome::Sum(sum)) => Outcome::Number(sum),
                };
                self.ended(at, outcome);
            }
        }
    }
}

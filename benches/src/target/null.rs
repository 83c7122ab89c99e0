//! A store that costs nothing: what is left is the generator's own cost. It keeps values only if asked to.

use std::collections::HashMap;
use std::time::Duration;

use sidewire::ClientStats;

use super::store::Store;
use super::{Keys, Request, Target, Ticket};
use crate::connect::Stop;
use crate::drive::{Crew, CrewError, Plan};
use crate::environment::Environment;
use crate::failure::{Failure, FailureKind};
use crate::server_cost::ServerLook;

/// Values in a map, or one value for all.
#[derive(Debug, Default)]
pub struct NullTarget {
    /// What was written.
    pub values: HashMap<Vec<u8>, Vec<u8>>,
    /// Counters, by key.
    pub counters: HashMap<Vec<u8>, u64>,
    /// How often each lock was taken.
    pub locked: HashMap<Vec<u8>, u64>,
    /// Answered to every read instead, if set.
    fixed: Option<Vec<u8>>,
    /// Every write fails.
    broken: bool,
    /// After so many reads one takes this long.
    pub stall: Option<(u64, Duration)>,
    /// In flight: the value, for reads.
    open: Vec<(Ticket, Option<Vec<u8>>)>,
    next: Ticket,
    gets: u64,
}

/// In flight at most.
const DEPTH: usize = 8;

impl NullTarget {
    /// Every write fails.
    #[cfg(test)]
    pub fn broken() -> Self {
        Self { broken: true, ..Self::default() }
    }

    /// Every read brings these bytes.
    pub fn fixed(value: Vec<u8>) -> Self {
        Self { fixed: Some(value), ..Self::default() }
    }

    #[inline]
    fn stall(&self) {
        if let Some((_, time)) = self.stall.filter(|(reads, _)| *reads == self.gets) {
            std::thread::sleep(time);
        }
    }

    fn ticket(&mut self, value: Option<Vec<u8>>) -> Option<Ticket> {
        self.next += 1;
        self.open.push((self.next, value));
        Some(self.next)
    }
}

impl Target for NullTarget {
    #[inline]
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure> {
        self.gets += 1;
        self.stall();
        match &self.fixed {
            Some(value) => Ok(look(Some(std::hint::black_box(value)))),
            None => Ok(look(self.values.get(key).map(Vec::as_slice))),
        }
    }

    fn multi_get(&mut self, keys: &Keys, mut look: impl FnMut(usize, Option<&[u8]>)) -> Result<(), Failure> {
        for (at, key) in keys.iter().enumerate() {
            self.read(key, |value| look(at, value))?;
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, key: &[u8], value: &[u8], _ttl: Option<Duration>) -> Result<(), Failure> {
        if self.fixed.is_some() {
            std::hint::black_box(value);
            return Ok(());
        }
        if self.broken {
            return Err(Failure { kind: FailureKind::Full, text: "full".into() });
        }
        self.values.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.values.remove(key);
        Ok(())
    }

    fn add(&mut self, key: &[u8]) -> Result<(), Failure> {
        *self.counters.entry(key.to_vec()).or_default() += 1;
        Ok(())
    }

    fn lock_and_unlock(&mut self, key: &[u8]) -> Result<(), Failure> {
        *self.locked.entry(key.to_vec()).or_default() += 1;
        Ok(())
    }

    fn create_counter(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.counters.entry(key.to_vec()).or_default();
        Ok(())
    }

    fn submit(&mut self, request: Request<'_>) -> Result<Option<Ticket>, Failure> {
        if self.open.len() == DEPTH {
            return Ok(None);
        }
        let value = match request {
            Request::Read { key } => {
                self.gets += 1;
                self.stall();
                self.fixed.clone().or_else(|| self.values.get(key).cloned())
            }
            Request::Write { key, value, ttl } => self.write(key, value, ttl).map(|()| None)?,
            Request::Delete { key } => self.delete(key).map(|()| None)?,
            Request::Add { key } => self.add(key).map(|()| None)?,
        };
        Ok(self.ticket(value))
    }

    fn wait(&mut self, mut ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        // The newest first: operations may end in any order.
        if let Some((ticket, value)) = self.open.pop() {
            ended(ticket, Ok(value.as_deref()));
        }
        Ok(())
    }

    fn stats(&self) -> ClientStats {
        ClientStats { gets: self.gets, reads: self.gets, ..ClientStats::default() }
    }
}

/// The store of all null targets.
pub struct NullStore;

impl Store for NullStore {
    fn longest(&self) -> (u64, u64) {
        (4_096, 1 << 30)
    }

    fn crew(&self, plan: &Plan, threads: usize) -> Result<Crew, CrewError> {
        let value = vec![0; plan.values.typical() as usize];
        Crew::start(plan, threads, move |_| Ok(NullTarget::fixed(value.clone())))
    }

    fn missing(&self, _keys: &[Vec<u8>]) -> Result<Option<usize>, Stop> {
        Ok(None)
    }

    fn look(&self) -> Result<ServerLook, Stop> {
        Ok(ServerLook { cpu_ns: 0, requests: 0, wakeups: 0 })
    }

    fn environment(&self) -> Result<Environment, Stop> {
        Ok(Environment::of_peer("null:", "none", env!("CARGO_PKG_VERSION")))
    }
}

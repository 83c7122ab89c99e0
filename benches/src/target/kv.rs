//! Sidewire, through its client library.

use std::time::Duration;

use sidewire::{Admin, Client, ClientStats, Error, Operation, OperationId, Outcome, Session, WriteOptions};
use sidewire_common::limits::KEY_BYTES_MAX;

use super::store::Store;
use super::{Keys, Request, Target, Ticket};
use crate::cli::{Common, Records};
use crate::connect::{Stop, attach_to};
use crate::drive::{Crew, CrewError, Plan};
use crate::environment::Environment;
use crate::failure::{Failure, FailureKind};
use crate::server_cost::ServerLook;

/// A server that this process is attached to.
pub struct KvStore {
    client: Client,
    admin: Admin,
    deadline: Duration,
}

impl KvStore {
    /// Attaches.
    pub fn attach(address: &str, common: &Common, records: &Records) -> Result<Self, Stop> {
        let client = attach_to(address, common, records.location_cache)?;
        let admin = client.admin();
        Ok(Self { client, admin, deadline: common.deadline })
    }
}

impl Store for KvStore {
    fn longest(&self) -> (u64, u64) {
        (KEY_BYTES_MAX as u64, self.client.attachment().value_bytes_max)
    }

    fn crew(&self, plan: &Plan, threads: usize) -> Result<Crew, CrewError> {
        let (client, deadline) = (self.client.clone(), self.deadline);
        Crew::start(plan, threads, move |_| Ok(SidewireSession { session: client.session()?, finished: Vec::new(), deadline }))
    }

    fn missing(&self, keys: &[Vec<u8>]) -> Result<Option<usize>, Stop> {
        let session = self.client.session()?;
        for (at, key) in keys.iter().enumerate() {
            if session.get(key)?.is_none() {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn look(&self) -> Result<ServerLook, Stop> {
        Ok(ServerLook::of(&self.admin.info()?))
    }

    fn environment(&self) -> Result<Environment, Stop> {
        Ok(Environment::of(&self.client, &self.admin.info()?))
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

/// A thread's session.
pub struct SidewireSession {
    session: Session,
    /// Filled and emptied by each `wait`.
    finished: Vec<(OperationId, Result<Outcome, Error>)>,
    deadline: Duration,
}

fn options(ttl: Option<Duration>) -> WriteOptions<'static> {
    ttl.map_or_else(WriteOptions::new, |ttl| WriteOptions::new().ttl(ttl))
}

impl SidewireSession {
    fn tell(&mut self, mut ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) {
        for (id, result) in self.finished.drain(..) {
            match result {
                Ok(Outcome::Value(value)) => ended(id.0, Ok(value.as_deref())),
                Ok(Outcome::Write(_) | Outcome::Sum(_)) => ended(id.0, Ok(None)),
                Err(error) => ended(id.0, Err(error.into())),
            }
        }
    }
}

impl Target for SidewireSession {
    #[inline]
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure> {
        let value = self.session.get(key)?;
        Ok(look(value.as_deref()))
    }

    fn multi_get(&mut self, keys: &Keys, mut look: impl FnMut(usize, Option<&[u8]>)) -> Result<(), Failure> {
        let keys: Vec<&[u8]> = keys.iter().collect();
        for (at, value) in self.session.multi_get(&keys).into_iter().enumerate() {
            look(at, value?.as_deref());
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Failure> {
        self.session.put_with(key, value, &options(ttl))?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.session.delete(key)?;
        Ok(())
    }

    fn add(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.session.add(key, 1)?;
        Ok(())
    }

    fn lock_and_unlock(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.session.lock(key, self.deadline)?.unlock()?;
        Ok(())
    }

    fn create_counter(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.session.create_counter(key, 0)?;
        Ok(())
    }

    fn submit(&mut self, request: Request<'_>) -> Result<Option<Ticket>, Failure> {
        let operation = match request {
            Request::Read { key } => Operation::Get { key },
            Request::Write { key, value, ttl } => Operation::Put { key, value, options: options(ttl) },
            Request::Delete { key } => Operation::Delete { key, options: WriteOptions::new() },
            Request::Add { key } => Operation::Add { key, delta: 1 },
        };
        match self.session.submit(operation) {
            Ok(id) => Ok(Some(id.0)),
            Err(Error::Full) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn wait(&mut self, ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        self.session.wait(&mut self.finished)?;
        self.tell(ended);
        Ok(())
    }

    fn poll(&mut self, ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        self.session.poll(&mut self.finished);
        self.tell(ended);
        Ok(())
    }

    fn stats(&self) -> ClientStats {
        self.session.stats()
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Deadline { .. } | Error::LockTimeout { .. } => FailureKind::Deadline,
            Error::Indeterminate { .. } => FailureKind::Indeterminate,
            Error::LeaseLapsed | Error::ServerGone { .. } | Error::Fabric(_) | Error::Control { .. } => FailureKind::Unreachable,
            Error::OutOfMemory { .. } | Error::IndexFull { .. } | Error::OutOfCells { .. } => FailureKind::Full,
            _ => FailureKind::Refused,
        };
        Self { kind, text: error.to_string() }
    }
}

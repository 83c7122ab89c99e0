//! A session of the client library.

use sidewire::{ClientStats, Error, Operation, OperationId, Outcome, Session, WriteOptions};

use super::{Target, Ticket};
use crate::failure::Failure;

/// A thread's session.
pub struct SidewireSession {
    session: Session,
    /// Filled and emptied by each `wait`.
    finished: Vec<(OperationId, Result<Outcome, Error>)>,
}

impl SidewireSession {
    /// Operations of `session`.
    pub fn new(session: Session) -> Self {
        Self { session, finished: Vec::new() }
    }

    fn submit(&mut self, operation: Operation<'_>) -> Result<Option<Ticket>, Failure> {
        match self.session.submit(operation) {
            Ok(id) => Ok(Some(id.0)),
            Err(Error::Full) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Target for SidewireSession {
    #[inline]
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure> {
        let value = self.session.get(key)?;
        Ok(look(value.as_deref()))
    }

    #[inline]
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.session.put(key, value)?;
        Ok(())
    }

    fn submit_read(&mut self, key: &[u8]) -> Result<Option<Ticket>, Failure> {
        self.submit(Operation::Get { key })
    }

    fn submit_write(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Ticket>, Failure> {
        self.submit(Operation::Put { key, value, options: WriteOptions::new() })
    }

    fn wait(&mut self, mut ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        self.session.wait(&mut self.finished)?;
        for (id, result) in self.finished.drain(..) {
            match result {
                Ok(Outcome::Value(value)) => ended(id.0, Ok(value.as_deref())),
                Ok(Outcome::Write(_) | Outcome::Sum(_)) => ended(id.0, Ok(None)),
                Err(error) => ended(id.0, Err(error.into())),
            }
        }
        Ok(())
    }

    fn stats(&self) -> ClientStats {
        self.session.stats()
    }
}

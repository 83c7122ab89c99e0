//! A store that costs nothing: what is left is the generator's own cost. It keeps values only if asked to.

use std::collections::HashMap;

use sidewire::ClientStats;

use super::{Target, Ticket};
use crate::failure::{Failure, FailureKind};

/// Values in a map, or one value for all.
#[derive(Debug, Default)]
pub struct NullTarget {
    /// What was written.
    pub values: HashMap<Vec<u8>, Vec<u8>>,
    /// Answered to every read instead, if set.
    fixed: Option<Vec<u8>>,
    /// Every write fails.
    broken: bool,
    /// In flight: the value, for reads.
    open: Vec<(Ticket, Option<Vec<u8>>)>,
    next: Ticket,
    gets: u64,
}

/// In flight at most.
const DEPTH: usize = 8;

impl NullTarget {
    /// Every write fails.
    pub fn broken() -> Self {
        Self { broken: true, ..Self::default() }
    }

    /// Every read brings these bytes.
    pub fn fixed(value: Vec<u8>) -> Self {
        Self { fixed: Some(value), ..Self::default() }
    }

    fn ticket(&mut self, value: Option<Vec<u8>>) -> Option<Ticket> {
        if self.open.len() == DEPTH {
            return None;
        }
        self.next += 1;
        self.open.push((self.next, value));
        Some(self.next)
    }
}

impl Target for NullTarget {
    #[inline]
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure> {
        self.gets += 1;
        match &self.fixed {
            Some(value) => Ok(look(Some(std::hint::black_box(value)))),
            None => Ok(look(self.values.get(key).map(Vec::as_slice))),
        }
    }

    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        if self.broken {
            return Err(Failure { kind: FailureKind::Full, text: "full".into() });
        }
        self.values.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn submit_read(&mut self, key: &[u8]) -> Result<Option<Ticket>, Failure> {
        let value = self.values.get(key).cloned();
        let ticket = self.ticket(value);
        self.gets += u64::from(ticket.is_some());
        Ok(ticket)
    }

    fn submit_write(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Ticket>, Failure> {
        if self.open.len() < DEPTH {
            self.write(key, value)?;
        }
        Ok(self.ticket(None))
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

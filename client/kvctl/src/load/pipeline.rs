//! Many puts in flight at once, and which lines they came from.

use super::entry::{Content, Entry};
use crate::counter::exists;
use crate::failure::{Failure, TROUBLE};
use sidewire::{Error, Operation, OperationId, Outcome, Session, WriteOptions};
use std::collections::HashMap;

/// A line that came to its end.
pub struct Settled {
    /// The line.
    pub line: u64,
    /// Bytes of key and value that were stored, or why not.
    pub outcome: Result<u64, Failure>,
}

/// Puts in flight.
pub struct Pipeline<'a> {
    session: &'a Session,
    in_flight: HashMap<OperationId, (u64, u64)>,
    finished: Vec<(OperationId, Result<Outcome, Error>)>,
}

impl<'a> Pipeline<'a> {
    /// Nothing is in flight yet.
    pub fn new(session: &'a Session) -> Self {
        Self { session, in_flight: HashMap::new(), finished: Vec::new() }
    }

    /// Sends an entry on its way, and tells what has ended meanwhile.
    pub fn store(&mut self, entry: &Entry, settled: &mut Vec<Settled>) {
        match &entry.content {
            Content::Value(value) => self.put(entry, value, settled),
            Content::Counter(number) => self.create(entry, settled, |session| session.create_counter(&entry.key, *number)),
            Content::Sequence(number) => self.create(entry, settled, |session| session.create_sequence(&entry.key, *number)),
        }
        self.session.poll(&mut self.finished);
        self.settle(settled);
    }

    /// Waits until nothing is in flight.
    pub fn drain(&mut self, settled: &mut Vec<Settled>) {
        while !self.in_flight.is_empty() && self.wait(settled) {}
    }

    fn put(&mut self, entry: &Entry, value: &[u8], settled: &mut Vec<Settled>) {
        let bytes = (entry.key.len() + value.len()) as u64;
        loop {
            let mut options = WriteOptions::new();
            if let Some(ttl) = entry.ttl {
                options = options.ttl(ttl);
            }
            match self.session.submit(Operation::Put { key: &entry.key, value, options }) {
                Ok(id) => {
                    self.in_flight.insert(id, (entry.line, bytes));
                    return;
                }
                Err(Error::Full) if !self.in_flight.is_empty() && self.wait(settled) => {}
                Err(error) => return settled.push(Settled { line: entry.line, outcome: Err(error.into()) }),
            }
        }
    }

    fn create(&mut self, entry: &Entry, settled: &mut Vec<Settled>, create: impl Fn(&Session) -> Result<bool, Error>) {
        let outcome = match create(self.session) {
            Ok(true) => Ok(entry.key.len() as u64),
            Ok(false) => Err(exists(&entry.key)),
            Err(error) => Err(error.into()),
        };
        settled.push(Settled { line: entry.line, outcome });
    }

    /// Waits for at least one; false when nothing more will end.
    fn wait(&mut self, settled: &mut Vec<Settled>) -> bool {
        let outcome = self.session.wait(&mut self.finished);
        self.settle(settled);
        match outcome {
            Ok(_) => true,
            Err(error) => {
                let mut failure = Failure::from(error);
                failure.exit = TROUBLE;
                let lines = self.in_flight.drain().map(|(_, (line, _))| line);
                let told = lines.map(|line| Settled { line, outcome: Err(failure.clone()) });
                settled.extend(told);
                false
            }
        }
    }

    fn settle(&mut self, settled: &mut Vec<Settled>) {
        for (id, outcome) in self.finished.drain(..) {
            let Some((line, bytes)) = self.in_flight.remove(&id) else { continue };
            settled.push(Settled { line, outcome: outcome.map(|_| bytes).map_err(Failure::from) });
        }
    }
}

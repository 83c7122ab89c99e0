//! The raw verbs on a session's own endpoints: the baseline of benchmarks.

use crate::error::Error;
use crate::op::Done;
use crate::session::Session;
use std::cell::Cell;

/// Key of the counter that raw atomics use.
const SCRATCH: &[u8] = b"sidewire.raw.scratch";

/// Raw verbs, one at a time, each posted, polled and waited for as the session's own operations are.
#[derive(Debug)]
pub struct RawFabric<'a> {
    session: &'a Session,
    /// Units of remote memory over which reads are spread.
    spread: Cell<u64>,
    step: Cell<u64>,
    cell: Cell<Option<u32>>,
}

impl<'a> RawFabric<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session, spread: Cell::new(1), step: Cell::new(0), cell: Cell::new(None) }
    }

    /// Spreads reads over this many bytes of the server's memory, as a workload of that size would; unless set, all
    /// read the same place, which is then in every cache.
    pub fn spread(&self, bytes: u64) {
        self.spread.set((bytes / 64).max(1));
    }

    fn next_step(&self) -> u64 {
        // A stride that visits all units in an order that no prefetcher follows.
        let step = self.step.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.step.set(step);
        (step >> 16) % self.spread.get()
    }

    /// One Read of this many bytes.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn read(&self, bytes: usize) -> Result<(), Error> {
        self.read_chain(bytes, 1)
    }

    /// `count` Reads of this many bytes with one doorbell.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes, or that many reads do not fit an endpoint.
    pub fn read_chain(&self, bytes: usize, count: usize) -> Result<(), Error> {
        let core = self.session.core();
        let mut router = core.router.borrow_mut();
        let driver = router.first_driver()?;
        let name = driver.begin_raw_reads(bytes, count, core.deadline(), || self.next_step())?;
        ended(driver.run(name))
    }

    /// One Write of this many bytes into the session's staging ring, of which the server is not told.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes, or the ring is shorter.
    pub fn write(&self, bytes: usize) -> Result<(), Error> {
        let core = self.session.core();
        ended(core.router.borrow_mut().first_driver()?.run_raw_write(bytes, core.deadline()))
    }

    /// One request of this many bytes (at least 64) and its ack. The request asks after sequence 0, which no write
    /// has: the worker answers from the session's window, without looking at key or index. Longer ones carry a key
    /// that the worker copies; beyond that, bytes are written in front of it with the same doorbell.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn write_imm_ack(&self, bytes: usize) -> Result<(), Error> {
        let core = self.session.core();
        ended(core.router.borrow_mut().first_driver()?.run_raw_request(bytes, core.deadline()))
    }

    /// One fetch-and-add of 1 on a scratch counter.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes, or the counter cannot be created.
    pub fn fetch_add(&self) -> Result<(), Error> {
        self.atomic(true)
    }

    /// One compare-and-swap on a scratch counter's cell, which changes nothing.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes, or the counter cannot be created.
    pub fn compare_swap(&self) -> Result<(), Error> {
        self.atomic(false)
    }

    /// Breaks the read connection as a wrong key would: a Read of memory that no region holds. Gives the error with
    /// which it ended. The session rebuilds the connection by itself. For tests of recovery.
    ///
    /// # Errors
    /// When the session has no connection to break.
    pub fn break_reads(&self) -> Result<Error, Error> {
        let core = self.session.core();
        core.router.borrow_mut().first_driver()?.run_bad_read(core.deadline())
    }

    /// Breaks the write connection to the first worker as a wrong key would, whatever is in flight on it: a Write to
    /// memory that no region holds. Gives the error with which it ended. The session rebuilds the connection by itself
    /// and resolves the writes that were open. For tests of recovery.
    ///
    /// # Errors
    /// When the session has no connection to break.
    pub fn break_writes(&self) -> Result<Error, Error> {
        let core = self.session.core();
        core.router.borrow_mut().first_driver()?.run_bad_write(core.deadline())
    }

    fn atomic(&self, add: bool) -> Result<(), Error> {
        if self.cell.get().is_none() {
            self.session.create_counter(SCRATCH, 0)?;
            self.session.add(SCRATCH, 0)?;
        }
        let core = self.session.core();
        let mut router = core.router.borrow_mut();
        let driver = router.first_driver()?;
        let cell = match self.cell.get() {
            Some(cell) => cell,
            None => driver.known_counter_cell(SCRATCH).ok_or(Error::NotFound)?,
        };
        self.cell.set(Some(cell));
        ended(driver.run_raw_atomic(cell, add, core.deadline()))
    }
}

fn ended(result: Result<Done, Error>) -> Result<(), Error> {
    result.map(|_| ())
}

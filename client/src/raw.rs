//! The raw verbs on a session's own endpoints: the baseline of benchmarks.

use crate::error::Error;
use crate::session::Session;

/// Raw verbs, one at a time, each waited for as the session's own operations are.
#[derive(Debug)]
pub struct RawFabric<'a> {
    _session: &'a Session,
}

impl<'a> RawFabric<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { _session: session }
    }

    /// One Read of this many bytes.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn read(&self, bytes: usize) -> Result<(), Error> {
        let _ = bytes;
        Err(Error::Busy)
    }

    /// `count` Reads of this many bytes with one doorbell.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn read_chain(&self, bytes: usize, count: usize) -> Result<(), Error> {
        let _ = (bytes, count);
        Err(Error::Busy)
    }

    /// One Write of this many bytes into the session's staging ring, of which the server is not told.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn write(&self, bytes: usize) -> Result<(), Error> {
        let _ = bytes;
        Err(Error::Busy)
    }

    /// One request of this many bytes and its ack: the server answers it without touching the index.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn write_imm_ack(&self, bytes: usize) -> Result<(), Error> {
        let _ = bytes;
        Err(Error::Busy)
    }

    /// One fetch-and-add of 1 on a scratch counter.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn fetch_add(&self) -> Result<(), Error> {
        Err(Error::Busy)
    }

    /// One compare-and-swap on a scratch counter's cell.
    ///
    /// # Errors
    /// When the fabric fails or the deadline passes.
    pub fn compare_swap(&self) -> Result<(), Error> {
        Err(Error::Busy)
    }
}

//! What is put under load. A target is one thread's access to a store.

#[cfg(test)]
pub mod null;
mod sidewire_session;

pub use sidewire_session::SidewireSession;

use crate::failure::Failure;

/// Names an operation in flight.
pub type Ticket = u64;

/// A store, from one thread.
pub trait Target {
    /// Reads a value and shows it where it lies; `None` when there is none.
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure>;

    /// Stores a value.
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Begins a read; `None` when too much is in flight already.
    fn submit_read(&mut self, key: &[u8]) -> Result<Option<Ticket>, Failure>;

    /// Begins a write; `None` when too much is in flight already. Key and value may change after this call.
    fn submit_write(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Ticket>, Failure>;

    /// Waits until at least one operation ended and shows those that did: for reads with the value, if there is one.
    fn wait(&mut self, ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure>;

    /// Its own counts so far.
    fn stats(&self) -> sidewire::ClientStats;
}

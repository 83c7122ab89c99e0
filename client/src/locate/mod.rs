//! What the client remembers of where things lie. Shared by all sessions, lock-free; everything found through it
//! is validated by the record or bucket that is read.

mod cell_cache;
mod directory;
mod location_cache;

pub(crate) use cell_cache::CellCache;
pub(crate) use directory::{Directory, Known};
pub(crate) use location_cache::LocationCache;

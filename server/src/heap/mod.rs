//! A worker's heap: blocks of size classes, carved from slabs of pages.
//!
//! A block goes back to its class at once when its record was superseded: the record's checksum and tag guard
//! late readers. Pages that leave a class wait for an epoch ([`crate::pools`]), since in another class a late reader
//! would take the middle of a value for a record's start.

mod size_class;
mod slab;
mod spares;

pub use size_class::{PAGE_BYTES, PAGE_UNITS, SizeClass, class_of};
pub use slab::{Heap, HeapError};

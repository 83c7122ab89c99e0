//! Memory that others may write, and memory that hardware may write.
//!
//! Three kinds, each behind a safe interface; with `fabric/{verbs,shm}` the only place of unsafe code:
//!
//! | type | bytes may change under us | how they are touched |
//! | --- | --- | --- |
//! | [`Mapping`] | owner of a mapped range, no access by itself | |
//! | [`View`] | yes: another process or a NIC reads and writes | atomic words, byte-wise atomic copies, never a `&[u8]` |
//! | [`Buffer`] | only while [lent](Buffer::lend) to posted work | `&[u8]` when it is not lent |
#![allow(unsafe_code, reason = "the home of mappings and views; every block carries its proof")]

mod barrier;
mod buffer;
mod buffer_classes;
mod mapping;
mod prefetch;
mod view;

pub(crate) use mapping::PAGE_BYTES;

pub use barrier::to_device_barrier;
pub use buffer::{Buffer, BufferPool, Lent};
pub use buffer_classes::{Buffers, BuffersError};
pub use mapping::{HugepageMode, Mapping, MappingError, PageKind, Seals};
pub use view::{OutOfView, View};

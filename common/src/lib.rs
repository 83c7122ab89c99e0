//! What servers and clients of Sidewire share: byte layouts, memory that others may write,
//! and the fabric that moves bytes between them.
//!
//! ```text
//!   layout    pure: words and bytes in, values out        (no I/O, no unsafe)
//!   memory    mappings, views, registered buffers          (unsafe, proved)
//!   fabric    ports, endpoints, work and completions
//!     ├ verbs   libibverbs, reliable connected             (unsafe, proved)
//!     └ shm     memfds and rings on one host               (unsafe, proved)
//! ```
//!
//! `layout` knows nothing of `fabric`; nothing here knows tokio or tonic.

pub mod clock;
pub mod cluster;
pub mod fabric;
pub mod host;
pub mod id;
pub mod key;
pub mod layout;
pub mod limits;
pub mod memory;
pub mod pace;
pub mod staging_ring;
pub mod units;

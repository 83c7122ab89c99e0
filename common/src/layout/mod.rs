//! Every byte layout, once: constants, words and their transitions, encoders and checkers.
//!
//! Little endian throughout, [`LAYOUT_VERSION`]. Pure: bytes and words in, values out. Golden bytes in
//! `tests/golden` pin each of them.

pub mod ack;
pub mod beat;
pub mod bits;
pub mod bucket;
pub mod cell_reference;
pub mod count;
pub mod counter_cell;
pub mod descriptor;
pub mod digest;
pub mod directory;
pub mod location;
pub mod lock_word;
pub mod packed;
pub mod record;
pub mod replica_entry;
pub mod request;
pub mod segment;
pub mod wire;

/// Version of all layouts below; checked at attach.
pub const LAYOUT_VERSION: u32 = 3;

//! The store descriptor: one 64-byte line at the start of chunk 0, the first thing a client reads over the data
//! plane. It proves that keys, addresses and layouts are those of the life the client attached to.
//!
//! | at | field |
//! | --- | --- |
//! | 0 | magic "SIDEWIRE" |
//! | 8 | layout version 4, shard bits 2, directory bits 2 |
//! | 16 | incarnation |
//! | 24 | place of the first directory entry |

use super::LAYOUT_VERSION;
use super::location::Place;
use super::wire::{put, u16_at, u32_at, u64_at};
use crate::id::Incarnation;
use crate::key::SHARD_BITS;

/// Bytes of the descriptor.
pub const DESCRIPTOR_BYTES: usize = 64;
const MAGIC: u64 = u64::from_le_bytes(*b"SIDEWIRE");

/// What it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The server's life.
    pub incarnation: Incarnation,
    /// Directory bits of each shard.
    pub directory_bits: u32,
    /// Where the directories of all shards begin, one behind the other.
    pub directories: Place,
}

/// A field that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store descriptor's {field} is {value:#x}, expected {expected:#x}")]
pub struct DescriptorError {
    /// The field.
    pub field: &'static str,
    /// What was read.
    pub value: u64,
    /// What it had to be.
    pub expected: u64,
}

impl Descriptor {
    /// The line in memory.
    #[must_use]
    pub fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 8, &LAYOUT_VERSION.to_le_bytes());
        put(&mut bytes, 12, &(SHARD_BITS as u16).to_le_bytes());
        put(&mut bytes, 14, &(self.directory_bits as u16).to_le_bytes());
        put(&mut bytes, 16, &self.incarnation.0.to_le_bytes());
        put(&mut bytes, 24, &self.directories.pack().to_le_bytes());
        bytes
    }

    /// Checks a line that was read against what the control plane said.
    ///
    /// # Errors
    /// The first field that differs.
    pub fn check(&self, bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<(), DescriptorError> {
        let same = |field, value: u64, expected: u64| {
            if value == expected { Ok(()) } else { Err(DescriptorError { field, value, expected }) }
        };
        same("magic", u64_at(bytes, 0), MAGIC)?;
        same("layout version", u32_at(bytes, 8).into(), LAYOUT_VERSION.into())?;
        same("shard bits", u16_at(bytes, 12).into(), SHARD_BITS.into())?;
        same("directory bits", u16_at(bytes, 14).into(), self.directory_bits.into())?;
        same("incarnation", u64_at(bytes, 16), self.incarnation.0)?;
        same("directory place", u64_at(bytes, 24), self.directories.pack())
    }
}

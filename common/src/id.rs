//! Names of clients, sessions and server lives.

use std::fmt;

/// A client process's identity: 128 random bits, new after every lapsed lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u128);

impl ClientId {
    /// A new random identity.
    #[must_use]
    pub fn random() -> Self {
        Self(crate::host::random())
    }

    /// The sixteen bytes that travel, little endian.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Four bytes that tell clients apart in reports, little endian: the topmost of the identity. All of it opens the
    /// client's sessions to whoever knows it.
    #[must_use]
    pub const fn name_bytes(self) -> [u8; 4] {
        ((self.0 >> 96) as u32).to_le_bytes()
    }

    /// The identity in sixteen bytes, little endian.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientId({:08x}…)", (self.0 >> 96) as u32)
    }
}

/// A server's n-th life. Random, so that two lives never share it; not ordered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

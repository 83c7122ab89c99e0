//! What a server tells people and tools.

use crate::error::Error;
use sidewire_common::layout::record::{Kind, Version};
use sidewire_proto::v1;

/// A server's administration, without attaching to it.
#[derive(Clone, Debug)]
pub struct Admin {
    _server: (),
}

/// A key, as a scan tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanItem {
    /// The key.
    pub key: Vec<u8>,
    /// Its value; empty unless asked for.
    pub value: Vec<u8>,
    /// What it holds.
    pub kind: Kind,
    /// Its version.
    pub version: Version,
    /// Milliseconds left, if it goes away by itself.
    pub ttl_ms: Option<u64>,
    /// Bytes of its value.
    pub value_bytes: u64,
    /// Of counters and sequences: the value. Of locks: the word.
    pub cell: i64,
}

impl Admin {
    pub(crate) fn of() -> Self {
        Self { _server: () }
    }

    /// Connects to a server: `host:port` or `kv://host:port`.
    ///
    /// # Errors
    /// When the address cannot be used, or the server does not answer.
    pub fn connect(address: &str) -> Result<Self, Error> {
        Err(Error::Address { address: address.into(), reason: "not built yet".into() })
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn info(&self) -> Result<v1::InfoReply, Error> {
        Err(Error::Busy)
    }

    /// All keys that begin with `prefix`, in no order; `limit` 0 means all. A key that exists throughout is told at
    /// least once.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn scan(
        &self,
        prefix: &[u8],
        values: bool,
        limit: u64,
    ) -> Result<impl Iterator<Item = Result<ScanItem, Error>> + use<>, Error> {
        let _ = (prefix, values, limit);
        Ok(std::iter::empty())
    }
}

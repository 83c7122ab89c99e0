//! What a server tells people and tools.

use crate::address::Address;
use crate::control::{CALL_LIMIT, Control, ControlError, Plane};
use crate::error::Error;
use sidewire_common::layout::record::{Kind, Version};
use sidewire_proto::v1;
use std::time::Duration;
use tokio::sync::mpsc;

/// Batches of a scan that wait to be taken.
const BATCHES_WAITING: usize = 4;

/// A server's administration, without attaching to it.
#[derive(Clone, Debug)]
pub struct Admin {
    control: Control,
    deadline: Duration,
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
    pub(crate) fn of(control: Control, deadline: Duration) -> Self {
        Self { control, deadline }
    }

    /// Connects to a server: `host:port` or `kv://host:port`. Its calls have a deadline of 5 s.
    ///
    /// # Errors
    /// When the address cannot be used, or the server does not answer.
    pub fn connect(address: &str) -> Result<Self, Error> {
        Self::connect_within(address, CALL_LIMIT)
    }

    /// As [`connect`](Self::connect); this call and all later ones have this deadline. Of a scan each batch has it.
    ///
    /// # Errors
    /// When the address cannot be used, or the server does not answer.
    pub fn connect_within(address: &str, deadline: Duration) -> Result<Self, Error> {
        let admin = Self { control: Plane::start()?.server(Address::parse(address)?)?, deadline };
        admin.info()?;
        Ok(admin)
    }

    fn error(&self, error: ControlError) -> Error {
        error.into_error(self.control.address().as_str())
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn info(&self) -> Result<v1::InfoReply, Error> {
        let mut client = self.control.admin();
        self.control.call(self.deadline, async move { client.info(v1::InfoRequest {}).await }).map_err(|e| self.error(e))
    }

    /// Who is in the server's cluster, and the map.
    ///
    /// # Errors
    /// When it does not answer, or belongs to no cluster.
    pub fn cluster_status(&self) -> Result<v1::StatusReply, Error> {
        let mut client = self.control.cluster();
        self.control.call(self.deadline, async move { client.status(v1::StatusRequest {}).await }).map_err(|e| self.error(e))
    }

    /// Changes a node of the server's cluster; tells the epoch of the map that has it.
    ///
    /// # Errors
    /// When the server does not answer, belongs to no cluster, or the map cannot be changed so, or not now.
    pub fn change_node(&self, node: &str, change: v1::change_node_request::Change) -> Result<u32, Error> {
        let mut client = self.control.cluster();
        let request = v1::ChangeNodeRequest { node: node.into(), change: Some(change) };
        let changed = self.control.call(self.deadline, async move { client.change_node(request).await });
        changed.map(|reply| reply.epoch).map_err(|e| self.error(e))
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
        let request = v1::ScanRequest { prefix: prefix.to_vec(), values, batch: 0, limit };
        let (mut client, deadline) = (self.control.admin(), self.deadline);
        // The whole stream may take longer than one call; each batch has the call's deadline.
        let mut request = tonic::Request::new(request);
        request.set_timeout(SCAN_LIMIT);
        let mut stream = self.control.call(deadline, async move { client.scan(request).await }).map_err(|e| self.error(e))?;
        let (told, mut batches) = mpsc::channel(BATCHES_WAITING);
        self.control.runtime().spawn(async move {
            loop {
                let batch = match tokio::time::timeout(deadline, stream.message()).await {
                    Ok(batch) => batch.transpose(),
                    Err(_) => Some(Err(tonic::Status::deadline_exceeded(format!("no batch of keys within {deadline:?}")))),
                };
                let Some(batch) = batch else { return };
                let failed = batch.is_err();
                // Nobody takes any more: the stream is dropped, which ends it at the server.
                if told.send(batch).await.is_err() || failed {
                    return;
                }
            }
        });
        let server = self.control.address().as_str().to_owned();
        let control = self.control.clone();
        let mut items = Vec::new().into_iter();
        let mut ended = false;
        Ok(std::iter::from_fn(move || {
            // The runtime lives as long as the stream is read.
            let _ = &control;
            loop {
                if let Some(item) = items.next() {
                    return Some(item_of(item));
                }
                if ended {
                    return None;
                }
                match batches.blocking_recv()? {
                    Ok(batch) => items = batch.items.into_iter(),
                    Err(status) => {
                        ended = true;
                        return Some(Err(ControlError::from(status).into_error(&server)));
                    }
                }
            }
        }))
    }
}

/// Longest time for a whole scan.
const SCAN_LIMIT: Duration = Duration::from_secs(3600);

fn item_of(item: v1::Item) -> Result<ScanItem, Error> {
    let kind = [Kind::Value, Kind::Counter, Kind::Sequence, Kind::Lock].into_iter().find(|k| k.name() == item.kind);
    let Some(kind) = kind else {
        return Err(Error::Layout { reason: format!("a scan told the kind `{}`", item.kind) });
    };
    Ok(ScanItem {
        key: item.key,
        value: item.value,
        kind,
        version: Version::from_raw(item.version),
        ttl_ms: (item.ttl_ms > 0).then_some(item.ttl_ms),
        value_bytes: item.value_bytes,
        cell: item.cell,
    })
}

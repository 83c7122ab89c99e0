//! Scan: every worker's keys in turn, page by page, never more in memory than a few messages.

use super::Core;
use super::ask::ask;
use super::refusal::Refusal;
use crate::worker::{Command, ScanCursor, ScanItem, ScanPage};
use sidewire_common::limits::KEY_BYTES_MAX;
use sidewire_proto::v1::{Item, ScanReply, ScanRequest};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tonic::Status;

/// Bytes of one message, unless a single item is larger.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes that an item may take besides its key and value: tags, lengths, numbers.
const ITEM_OVERHEAD_BYTES: usize = 96;
/// Items of a message when the request does not say.
const BATCH_DEFAULT: u32 = 512;
/// Most items of a message.
const BATCH_MAX: u32 = 10_000;
/// Time for a reader to take a message before its scan is given up.
const READER_PATIENCE: Duration = Duration::from_secs(60);

/// A checked request.
pub(super) struct Wish {
    prefix: Arc<[u8]>,
    values: bool,
    batch: usize,
    limit: u64,
}

impl TryFrom<ScanRequest> for Wish {
    type Error = Refusal;

    fn try_from(request: ScanRequest) -> Result<Self, Refusal> {
        if request.prefix.len() > KEY_BYTES_MAX {
            let length = format!("{} bytes long", request.prefix.len());
            return Err(Refusal::field("prefix", length, "at most 4096 bytes, as keys are"));
        }
        if request.batch > BATCH_MAX {
            return Err(Refusal::field("batch", request.batch, "at most 10000"));
        }
        let batch = if request.batch == 0 { BATCH_DEFAULT } else { request.batch };
        let limit = if request.limit == 0 { u64::MAX } else { request.limit };
        Ok(Self { prefix: request.prefix.into(), values: request.values, batch: batch as usize, limit })
    }
}

/// The reader hung up or does not read.
struct Gone;

/// Messages being filled.
struct Messages<'a> {
    to: &'a Sender<Result<ScanReply, Status>>,
    batch: usize,
    items: Vec<Item>,
    bytes: usize,
}

impl Messages<'_> {
    async fn add(&mut self, item: Item) -> Result<(), Gone> {
        let bytes = item.key.len() + item.value.len() + ITEM_OVERHEAD_BYTES;
        if self.bytes + bytes > MESSAGE_BYTES_MAX || self.items.len() >= self.batch {
            self.flush().await?;
        }
        self.bytes += bytes;
        self.items.push(item);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        self.bytes = 0;
        if self.items.is_empty() {
            return Ok(());
        }
        let reply = ScanReply { items: std::mem::take(&mut self.items) };
        match tokio::time::timeout(READER_PATIENCE, self.to.send(Ok(reply))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }
}

/// Streams what is asked for. A reader that is gone ends it quietly.
pub(super) async fn run(core: &Core, wish: Wish, to: &Sender<Result<ScanReply, Status>>) -> Result<(), Refusal> {
    let mut messages = Messages { to, batch: wish.batch, items: Vec::new(), bytes: 0 };
    let mut left = wish.limit;
    for worker in 0..core.workers.count() {
        let mut cursor = Some(ScanCursor::default());
        while let Some(from) = cursor {
            let page = page(core, worker, from, &wish).await?;
            cursor = page.next;
            let now = core.store.clock_ms();
            for item in page.items.into_iter().filter_map(|item| told(item, now)) {
                if left == 0 {
                    let _ = messages.flush().await;
                    return Ok(());
                }
                left -= 1;
                if messages.add(item).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    let _ = messages.flush().await;
    Ok(())
}

async fn page(core: &Core, worker: u32, cursor: ScanCursor, wish: &Wish) -> Result<ScanPage, Refusal> {
    let (prefix, values) = (Arc::clone(&wish.prefix), wish.values);
    ask(&format!("worker {worker}"), |reply| {
        let command = Command::Scan { cursor, prefix, values, reply };
        core.workers.send(worker, command).map_err(|_| Refusal::Stopping)
    })
    .await
}

/// The wire form of an item; `None` when it has expired.
fn told(item: ScanItem, now_ms: u64) -> Option<Item> {
    let ttl_ms = item.expiry_ms.saturating_sub(now_ms);
    if item.expiry_ms != 0 && ttl_ms == 0 {
        return None;
    }
    Some(Item {
        key: item.key,
        value: item.value.unwrap_or_default(),
        kind: item.kind.name().into(),
        version: item.version.raw(),
        ttl_ms,
        value_bytes: item.value_bytes,
        // A counter's word is a signed value; a lock's is bits, told as they are.
        cell: item.cell as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidewire_common::layout::record::{Kind, Version};
    use tokio::sync::mpsc;

    fn item(key: &[u8], value_bytes: usize, expiry_ms: u64) -> ScanItem {
        let value = Some(vec![1; value_bytes]);
        let (kind, version) = (Kind::Value, Version::new(1, 2));
        ScanItem { key: key.to_vec(), value, kind, version, expiry_ms, value_bytes: value_bytes as u64, cell: 0 }
    }

    #[test]
    fn what_has_expired_is_not_told() {
        assert_eq!(told(item(b"a", 1, 0), 50).unwrap().ttl_ms, 0);
        assert_eq!(told(item(b"a", 1, 60), 50).unwrap().ttl_ms, 10);
        assert!(told(item(b"a", 1, 50), 50).is_none());
        assert!(told(item(b"a", 1, 40), 50).is_none());
    }

    #[test]
    fn wishes_are_bounded() {
        let wish = |prefix, batch| Wish::try_from(ScanRequest { prefix: vec![b'x'; prefix], values: false, batch, limit: 0 });
        assert!(wish(KEY_BYTES_MAX, BATCH_MAX).is_ok());
        assert!(wish(KEY_BYTES_MAX + 1, 0).is_err());
        assert!(wish(0, BATCH_MAX + 1).is_err());
    }

    #[tokio::test]
    async fn messages_stay_under_their_bound_unless_one_item_is_larger() {
        let (to, mut from) = mpsc::channel(16);
        let mut messages = Messages { to: &to, batch: 100, items: Vec::new(), bytes: 0 };
        for value_bytes in [MESSAGE_BYTES_MAX / 2, MESSAGE_BYTES_MAX / 2, 3 * MESSAGE_BYTES_MAX, 0] {
            messages.add(told(item(b"k", value_bytes, 0), 0).unwrap()).await.ok().unwrap();
        }
        messages.flush().await.ok().unwrap();
        let mut counts = Vec::new();
        while let Ok(reply) = from.try_recv() {
            counts.push(reply.unwrap().items.len());
        }
        assert_eq!(counts, [1, 1, 1, 1]);
    }
}

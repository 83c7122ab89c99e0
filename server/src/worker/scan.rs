//! Pages of a worker's keys, for administration.

use super::poll_loop::Worker;
use super::{ScanCursor, ScanItem, ScanPage};
use sidewire_common::key::SHARD_BITS;
use sidewire_common::layout::bucket::{BucketHeader, SLOTS, slot_offset};
use sidewire_common::layout::cell_reference::{CellReference, REFERENCE_BYTES};
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::{HEADER_BYTES, Kind};
use sidewire_common::layout::segment::{HOME_BUCKETS, home_offset, overflow_offset};

/// Longest value that is told with its key: reading longer ones is left to whoever wants them.
const VALUE_BYTES_MAX: usize = 512 << 10;
/// Keys looked at for one page: bounds the time that writes wait.
const KEYS_MAX: usize = 512;
/// Bytes gathered before a page ends; the last bucket may go beyond it.
const BYTES_MAX: usize = 1 << 20;

impl Worker {
    pub(super) fn scan(&mut self, from: ScanCursor, prefix: &[u8], values: bool) -> ScanPage {
        let mut page = ScanPage::default();
        let (mut keys, mut bytes) = (0, 0);
        let mut cursor = Some(from);
        while let Some(at) = cursor {
            if keys >= KEYS_MAX || bytes >= BYTES_MAX {
                break;
            }
            let Some(shard) = self.index.shard_numbers().into_iter().find(|&shard| shard >= at.shard) else {
                cursor = None;
                break;
            };
            let at = if shard == at.shard { at } else { ScanCursor { shard, ..ScanCursor::default() } };
            let before = page.items.len();
            keys += self.scan_bucket(at, prefix, values, &mut page.items);
            bytes += page.items[before..].iter().map(|i| i.key.len() + i.value.as_ref().map_or(0, Vec::len)).sum::<usize>();
            cursor = Some(self.after(at));
        }
        page.next = cursor;
        page
    }

    /// The position behind a home bucket, in whatever segment serves it now.
    pub(super) fn after(&self, at: ScanCursor) -> ScanCursor {
        if at.bucket + 1 < HOME_BUCKETS {
            return ScanCursor { bucket: at.bucket + 1, ..at };
        }
        let bits = self.index.directory_bits();
        let depth = self.index.entry(at.shard, at.entry).map_or(SHARD_BITS + bits, |entry| entry.depth());
        let width = 1 << (SHARD_BITS + bits - depth);
        let next = (at.entry & !(width - 1)) + width;
        if next < 1 << bits {
            ScanCursor { shard: at.shard, entry: next, bucket: 0 }
        } else {
            ScanCursor { shard: at.shard + 1, entry: 0, bucket: 0 }
        }
    }

    /// Looks at a home bucket and its overflow bucket; returns how many keys were looked at.
    fn scan_bucket(&mut self, at: ScanCursor, prefix: &[u8], values: bool, items: &mut Vec<ScanItem>) -> usize {
        let places = self.records_at(at);
        for &place in &places {
            items.extend(self.scan_record(place, prefix, values));
        }
        places.len()
    }

    /// Records that a home bucket and its overflow bucket name.
    pub(super) fn records_at(&mut self, at: ScanCursor) -> Vec<Place> {
        let Some(entry) = self.index.entry(at.shard, at.entry) else { return Vec::new() };
        let home = home_offset(at.bucket);
        let header = BucketHeader::from_raw(self.memory.load(entry.segment(), home));
        let mut places = Vec::new();
        for bucket in std::iter::once(home).chain(header.overflow().map(overflow_offset)) {
            for slot in 0..SLOTS {
                let location = Location::from_raw(self.memory.load(entry.segment(), bucket + slot_offset(slot) as u64));
                if !location.is_empty() {
                    places.push(location.place());
                }
            }
        }
        places
    }

    fn scan_record(&mut self, at: Place, prefix: &[u8], values: bool) -> Option<ScanItem> {
        let header = self.memory.header(at);
        let kind = Kind::from_raw(header.kind)?;
        let over = header.expiry_ms != 0 && header.expiry_ms <= self.store.clock_ms();
        let key = self.key_at(at, &header);
        if over || !key.starts_with(prefix) {
            return None;
        }
        let value_at = HEADER_BYTES as u64 + key.len() as u64;
        let mut item = ScanItem {
            key,
            value: None,
            kind,
            version: header.version,
            expiry_ms: header.expiry_ms,
            value_bytes: header.value_len.into(),
            cell: 0,
        };
        if let Some(count) = self.count_at(at, &header) {
            item.cell = count as u64;
        } else if kind != Kind::Value {
            let mut reference = [0; REFERENCE_BYTES];
            self.memory.read(at, value_at, &mut reference);
            let reference = CellReference::decode(&reference, self.store.cells().count())?;
            item.cell = self.store.cells().peek(reference.index);
        } else if values && header.value_len as usize <= VALUE_BYTES_MAX {
            let mut value = vec![0; header.value_len as usize];
            self.memory.read(at, value_at, &mut value);
            item.value = Some(value);
        }
        Some(item)
    }
}

//! Entries to backups: made when they are sent, out of what the memory holds then.

use super::super::counts::kind_in_cell;
use super::super::poll_loop::Worker;
use super::Ticket;
use super::link::{LinkName, Sent, State};
use super::write::Change;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::MemberId;
use sidewire_common::fabric::{Verb, WorkId, WorkRequest};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::location::Place;
use sidewire_common::layout::record::{HEADER_BYTES, Kind, UNIT_BYTES, Version};
use sidewire_common::layout::replica_entry::{ENTRY_BYTES, Entry, What};
use sidewire_common::layout::request::immediate;
use sidewire_common::limits::MESSAGE_CREDITS;
use sidewire_common::memory::Buffers;
use std::sync::Arc;

/// What a copy is to be told.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A write that waits for it.
    Write { shard: u32, ticket: Ticket },
    /// What a key holds at the moment of sending.
    Key { shard: u32, key: Box<[u8]> },
    /// The last value of a counter whose cell is frozen.
    Count { shard: u32, key: Box<[u8]>, count: i64 },
    /// Something about the shard as a whole.
    Plain(Entry),
}

impl Message {
    /// The shard that it is about.
    pub fn shard(&self) -> u32 {
        match self {
            Self::Write { shard, .. } | Self::Key { shard, .. } | Self::Count { shard, .. } => *shard,
            Self::Plain(entry) => entry.shard,
        }
    }
}

/// An entry, its key, and where its value lies.
struct Draft {
    entry: Entry,
    key: Box<[u8]>,
    value: Option<(Place, u64)>,
}

impl Worker {
    /// Puts a message into the queue of a copy.
    pub(super) fn tell(&mut self, member: MemberId, message: Message) {
        let Some(name) = self.link_of(member, message.shard()) else { return };
        if let Some(link) = self.replication.links.get_mut(&name) {
            link.queue.push_back(message);
        }
    }

    /// Sends what there is room for; true when something was sent.
    pub(super) fn pump_links(&mut self) -> bool {
        let names: Vec<LinkName> =
            self.replication.links.iter().filter(|(_, l)| !l.queue.is_empty()).map(|(&name, _)| name).collect();
        let mut sent = false;
        for name in names {
            while self.send_one(name) {
                sent = true;
            }
        }
        sent
    }

    /// Sends the first message of a link's queue. False when there is none, or no room.
    fn send_one(&mut self, name: LinkName) -> bool {
        let Some(link) = self.replication.links.get(&name) else { return false };
        let (State::Up(endpoint), Some(staging)) = (&link.state, link.staging) else { return false };
        let endpoint = *endpoint;
        let full = link.unanswered.len() >= MESSAGE_CREDITS as usize || self.port.room(endpoint) == 0;
        let Some(message) = link.queue.front().cloned().filter(|_| !full) else { return false };
        let Some(draft) = self.draft_of(&message) else {
            // It concerns nobody any more.
            self.replication.links.get_mut(&name).map(|link| link.queue.pop_front());
            return true;
        };
        let bytes = draft.entry.total_bytes();
        if bytes as u64 * 2 > staging.bytes {
            tracing::error!(member = %name.0, bytes, ring = staging.bytes, "a record does not fit into a backup's staging ring; raise its --staging");
            self.give_up_copy(message.shard(), name.0);
            self.replication.links.get_mut(&name).map(|link| link.queue.pop_front());
            return true;
        }
        let Some(link) = self.replication.links.get_mut(&name) else { return false };
        let Some(span) = link.ring.take(bytes) else { return false };
        link.sequence += 1;
        let sequence = link.sequence;
        link.queue.pop_front();
        link.unanswered.push_back(Sent { sequence, span, message, at: BootInstant::now() });
        let at = u64::from(span.unit) * UNIT_BYTES as u64;
        let Some(to) = staging.at(at, bytes as u64) else { return false };
        self.post_entry(endpoint, draft, sequence, to, immediate(span.unit, sequence))
    }

    fn post_entry(
        &mut self,
        endpoint: sidewire_common::fabric::EndpointId,
        draft: Draft,
        sequence: u64,
        to: sidewire_common::fabric::RemoteAddr,
        imm: u32,
    ) -> bool {
        let Draft { entry, key, value } = draft;
        let map_epoch = self.replication.map.as_ref().map_or(0, |map| map.epoch);
        let entry =
            Entry { map_epoch, sequence, clock_us: self.store.clock_us(), token_floor: self.store.token_floor(), ..entry };
        let fabric = Arc::clone(self.store.fabric());
        let buffers = self.replication.buffers.get_or_insert_with(|| Buffers::new(fabric));
        let bytes = entry.total_bytes();
        let mut buffer = match buffers.take(bytes) {
            Ok(buffer) => buffer,
            Err(error) => {
                tracing::error!(worker = self.number, %error, "no buffer for a backup's entry");
                self.link_broke(endpoint);
                return false;
            }
        };
        let image = buffer.bytes_mut();
        image[..ENTRY_BYTES].copy_from_slice(&entry.encode());
        image[ENTRY_BYTES..entry.value_at()].copy_from_slice(&key);
        if let Some((place, offset)) = value {
            self.memory.read(place, offset, &mut image[entry.value_at()..bytes]);
        }
        let id = WorkId(self.next_work());
        let from = buffer.lend(0..bytes, id);
        let mut chain = vec![WorkRequest { id, verb: Verb::WriteImm { from, to, imm } }];
        match self.port.post(endpoint, &mut chain) {
            Ok(()) => {
                self.replication.lent.insert(id, buffer);
                true
            }
            Err(error) => {
                chain.clear();
                buffer.give_back(id);
                tracing::debug!(worker = self.number, %error, "an entry was refused");
                self.link_broke(endpoint);
                false
            }
        }
    }

    /// What a message is now; `None` when it concerns nobody any more.
    fn draft_of(&mut self, message: &Message) -> Option<Draft> {
        if let Message::Plain(entry) = message {
            let current = self.replication.reign(entry.shard) == Some(entry.reign);
            return current.then(|| Draft { entry: *entry, key: Box::default(), value: None });
        }
        let reign = self.replication.reign(message.shard())?;
        match message {
            Message::Plain(_) => None,
            Message::Write { ticket, .. } => self.draft_of_write(*ticket, reign),
            Message::Key { shard, key } => Some(self.draft_of_key(*shard, reign, key)),
            Message::Count { shard, key, count } => {
                let mut draft = self.draft_of_key(*shard, reign, key);
                if draft.entry.what == What::Put {
                    (draft.entry.what, draft.entry.figure) = (What::Count, *count as u64);
                }
                Some(draft)
            }
        }
    }

    fn draft_of_write(&mut self, ticket: Ticket, reign: u32) -> Option<Draft> {
        let write = self.replication.writes.get(&ticket)?;
        let (change, key) = (write.change, super::work_key(&write.work));
        let plain = Entry {
            position: write.position,
            origin: Some(write.origin),
            figure: write.ended().figure,
            ..Entry::new(What::Delete, write.shard, reign)
        };
        match change {
            Change::Delete { .. } => Some(Draft { entry: Entry { key_len: key.len() as u16, ..plain }, key, value: None }),
            Change::Put { draft, .. } => Some(self.record_at(draft.location.place(), plain, key)),
        }
    }

    fn draft_of_key(&mut self, shard: u32, reign: u32, key: &[u8]) -> Draft {
        let hash = KeyHash::of(key, self.store.hash_seed());
        let plain = Entry::new(What::Delete, shard, reign);
        match self.index.find(&mut self.memory, hash, key) {
            None => Draft { entry: Entry { key_len: key.len() as u16, ..plain }, key: key.into(), value: None },
            Some(found) => self.record_at(found.location.place(), plain, key.into()),
        }
    }

    /// The record at a place. References to cells mean nothing elsewhere and are left out.
    fn record_at(&mut self, place: Place, plain: Entry, key: Box<[u8]>) -> Draft {
        let header = self.memory.header(place);
        let kind = Kind::from_raw(header.kind).unwrap_or(Kind::Value);
        let entry = Entry {
            what: What::Put,
            kind,
            version: Version::from_raw(header.version.raw()),
            expiry_ms: header.expiry_ms,
            key_len: header.key_len,
            value_len: if kind_in_cell(&header).is_some() { 0 } else { header.value_len },
            ..plain
        };
        let offset = HEADER_BYTES as u64 + u64::from(header.key_len);
        Draft { entry, key, value: (entry.value_len > 0).then_some((place, offset)) }
    }

    /// A buffer comes back.
    pub(in super::super) fn entry_posted(&mut self, id: WorkId) -> bool {
        match self.replication.lent.remove(&id) {
            Some(mut buffer) => {
                buffer.give_back(id);
                true
            }
            None => false,
        }
    }

    /// A copy that cannot follow leaves the shard, by the map.
    pub(super) fn give_up_copy(&mut self, shard: u32, member: MemberId) {
        let Some(reign) = self.replication.reign(shard) else { return };
        self.store.cluster().wish(sidewire_common::cluster::change::Change::Drop { shard, reign, member });
    }
}

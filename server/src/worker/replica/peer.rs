//! From another server's worker: its ring, its entries in their order, what they are answered.

use super::super::OpenError;
use super::super::OpenedEndpoint;
use super::super::poll_loop::Worker;
use crate::refusals::Cause;
use sidewire_common::cluster::MemberId;
use sidewire_common::fabric::{EndpointId, PeerInfo};
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::replica_entry::{ENTRY_BYTES, Entry, EntryError};
use sidewire_common::layout::request::{immediate_fits, immediate_offset};
use sidewire_common::limits::value_bytes_max;
use sidewire_common::memory::View;
use std::collections::VecDeque;

/// The way from another server's worker.
pub(in super::super) struct Peer {
    member: MemberId,
    worker: u32,
    ring: View,
    /// Answers that wait to be sent.
    pub acks: Vec<Ack>,
    /// Immediates whose entries wait for memory, or for a shard to be emptied, and all behind them.
    waiting: VecDeque<(u32, u32)>,
}

impl Peer {
    /// Whether no entry of it waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Applied {
    /// It is answered.
    Answer(Outcome, [u64; 2]),
    /// It cannot be taken yet.
    Later,
}

/// A key and where the value lies in the ring.
pub(super) struct Content<'a> {
    pub key: &'a [u8],
    pub ring: &'a View,
    pub value_at: usize,
}

impl Worker {
    /// Opens the ring for a primary's worker. An earlier one of it is closed.
    pub(in super::super) fn open_peer(
        &mut self,
        member: MemberId,
        worker: u32,
        peer: &PeerInfo,
    ) -> Result<OpenedEndpoint, OpenError> {
        let same = |p: &Peer| p.member == member && p.worker == worker;
        let old: Vec<EndpointId> = self.replication.peers.iter().filter(|(_, p)| same(p)).map(|(&e, _)| e).collect();
        for endpoint in old {
            self.disconnect(endpoint);
        }
        let (endpoint, ring, opened) = self.open_ring(peer)?;
        self.replication.peers.insert(endpoint, Peer { member, worker, ring, acks: Vec::new(), waiting: VecDeque::new() });
        Ok(opened)
    }

    /// An entry has arrived.
    pub(in super::super) fn entry_arrived(&mut self, endpoint: EndpointId, imm: u32, bytes: u32) {
        if let Some(peer) = self.replication.peers.get_mut(&endpoint) {
            peer.waiting.push_back((imm, bytes));
            self.take_entries(endpoint);
        }
    }

    /// Takes entries that have waited; true when one was taken.
    pub(super) fn take_waiting(&mut self) -> bool {
        let waiting: Vec<EndpointId> =
            self.replication.peers.iter().filter(|(_, p)| !p.waiting.is_empty()).map(|(&e, _)| e).collect();
        let mut any = false;
        for endpoint in waiting {
            any |= self.take_entries(endpoint);
        }
        any
    }

    fn take_entries(&mut self, endpoint: EndpointId) -> bool {
        let mut any = false;
        loop {
            let Some(peer) = self.replication.peers.get(&endpoint) else { return any };
            let Some(&(imm, bytes)) = peer.waiting.front() else { return any };
            let ring = peer.ring.clone();
            let limit = value_bytes_max(self.store.settings().staging_bytes);
            let mut key = std::mem::take(&mut self.scratch.key);
            let entry = receive(&ring, imm, bytes, limit, &mut key);
            let applied = match &entry {
                Ok(entry) => {
                    let content = Content { key: &key, ring: &ring, value_at: immediate_offset(imm) + entry.value_at() };
                    self.apply(entry, &content)
                }
                Err(error) => {
                    let what = error.to_string();
                    self.scratch.key = key;
                    self.violation(endpoint, Cause::Replica, &what);
                    return any;
                }
            };
            self.scratch.key = key;
            let (Ok(entry), Applied::Answer(outcome, figures)) = (entry, applied) else { return any };
            any = true;
            if let Some(peer) = self.replication.peers.get_mut(&endpoint) {
                peer.waiting.pop_front();
                if peer.acks.is_empty() {
                    self.acks_due.push_back(endpoint);
                }
                peer.acks.push(Ack { sequence: entry.sequence, outcome, detail: 0, figures });
            }
        }
    }
}

/// Copies an entry's header and key out of the ring and checks them.
fn receive(ring: &View, imm: u32, bytes: u32, value_bytes_max: usize, key: &mut Vec<u8>) -> Result<Entry, EntryError> {
    let offset = immediate_offset(imm);
    let refuse = |field, value: usize, limit: usize| EntryError { field, value: value as u64, limit: limit as u64 };
    let mut head = [0; ENTRY_BYTES];
    let fits = offset.checked_add(bytes as usize).is_some_and(|end| end <= ring.len()) && bytes as usize >= ENTRY_BYTES;
    if !fits || ring.copy_out(offset, &mut head).is_err() {
        return Err(refuse("length", bytes as usize, ring.len()));
    }
    let entry = Entry::decode(&head, value_bytes_max)?;
    if !immediate_fits(imm, entry.sequence) {
        return Err(refuse("sequence", (imm & 0xff) as usize, (entry.sequence & 0xff) as usize));
    }
    if entry.total_bytes() != bytes as usize {
        return Err(refuse("length", bytes as usize, entry.total_bytes()));
    }
    key.clear();
    key.resize(entry.key_len as usize, 0);
    ring.copy_out(offset + ENTRY_BYTES, key).map_err(|_| refuse("key length", key.len(), ring.len()))?;
    Ok(entry)
}

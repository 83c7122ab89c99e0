//! Answers of copies.

use super::super::poll_loop::Worker;
use super::link::LinkName;
use super::send::Message;
use super::{Phase, Role};
use sidewire_common::fabric::EndpointId;
use sidewire_common::layout::ack::{self, Ack, Outcome};
use sidewire_common::layout::replica_entry::What;
use sidewire_common::limits::MESSAGE_BYTES;

impl Worker {
    /// A message of answers.
    pub(in super::super) fn link_message(&mut self, endpoint: EndpointId, slot: u32) {
        let mut message = [0; MESSAGE_BYTES];
        let taken = self.port.take_message(endpoint, slot, &mut message).map_err(|error| error.to_string());
        let acks: Result<Vec<Ack>, String> =
            taken.and_then(|length| ack::decode(&message[..length]).map(Iterator::collect).map_err(|error| error.to_string()));
        match acks {
            Ok(acks) => acks.into_iter().for_each(|ack| self.entry_answered(endpoint, ack)),
            Err(error) => {
                tracing::warn!(worker = self.number, error, "a backup's answer makes no sense");
                self.link_broke(endpoint);
            }
        }
    }

    fn entry_answered(&mut self, endpoint: EndpointId, ack: Ack) {
        let Some(&name) = self.replication.ends.get(&endpoint) else { return };
        let Some(link) = self.replication.links.get_mut(&name) else { return };
        // One link is answered in order.
        let Some(sent) = link.unanswered.pop_front_if(|sent| sent.sequence == ack.sequence) else {
            tracing::warn!(worker = self.number, sequence = ack.sequence, "a backup answers what was not asked");
            return self.link_broke(endpoint);
        };
        link.ring.give_back(sent.span);
        match ack.outcome {
            Outcome::Done => self.entry_done(name, sent.message, ack.figures),
            Outcome::WrongPrimary => self.deposed(sent.message.shard(), ack.figures[0]),
            outcome => self.entry_refused(name, &sent.message, outcome, ack.figures),
        }
    }

    fn entry_done(&mut self, name: LinkName, message: Message, figures: [u64; 2]) {
        match message {
            Message::Write { ticket, .. } => self.write_answered(ticket, name.0),
            Message::Plain(entry) if entry.what == What::Ask => self.position_told(entry.shard, name.0, figures),
            Message::Plain(entry) if entry.what == What::Adopt => self.follower_ready(entry.shard, name.0),
            Message::Plain(entry) if entry.what == What::Clear => self.fill_cleared(entry.shard, name.0, entry.position),
            _ => {}
        }
    }

    /// A copy knows of a later reign: this primary's time is over, whatever the map said last.
    fn deposed(&mut self, shard: u32, reign: u64) {
        let Some(primary) = self.replication.primary(shard) else { return };
        if reign > u64::from(primary.reign) && primary.phase != Phase::Deposed {
            tracing::warn!(
                shard,
                reign = primary.reign,
                later = reign,
                "a backup serves a later primary: nothing is published any more"
            );
            primary.phase = Phase::Deposed;
            self.abandon_writes(shard);
        }
    }

    /// A copy cannot take something: it leaves the shard, or begins anew.
    fn entry_refused(&mut self, name: LinkName, message: &Message, outcome: Outcome, figures: [u64; 2]) {
        let shard = message.shard();
        let Some(Role::Primary(primary)) = self.replication.shards.get(&shard).map(|s| &s.role) else { return };
        if !primary.followers.contains_key(&name.0) && !primary.fills.contains_key(&name.0) {
            return;
        }
        tracing::warn!(worker = self.number, shard, member = %name.0, ?outcome, ?figures, "a backup cannot follow and leaves the shard");
        self.give_up_copy(shard, name.0);
    }
}

//! Writes whose server is gone: whoever has their shard now tells what became of them.

use super::Cluster;
use crate::control::ControlError;
use crate::error::Error;
use crate::op::Done;
use crate::slab::SlabKey;
use crossbeam::channel::{Receiver, TryRecvError, bounded};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::{MemberId, Reign};
use sidewire_common::id::ClientId;
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::request::Operation;
use sidewire_proto::v1;

type Reply = Result<v1::ResolveReply, ControlError>;

/// A write that was sent, and whose ack is not believed.
pub(crate) struct Doubt {
    /// Who it was sent to, and as whom.
    pub member: MemberId,
    pub client: ClientId,
    pub session: u32,
    pub sequence: u64,
    /// The reign in which it was sent.
    pub reign: Reign,
    /// The attachment over which it was sent.
    pub life: u64,
    /// Decides which figure of a reply counts.
    pub operation: Operation,
    asked: Option<Receiver<Reply>>,
}

impl Doubt {
    /// About a write that nobody was asked about yet.
    pub fn new(
        (member, client, session, sequence): (MemberId, ClientId, u32, u64),
        (reign, life): (Reign, u64),
        operation: Operation,
    ) -> Self {
        Self { member, client, session, sequence, reign, life, operation, asked: None }
    }

    /// The successor's word as the ack that the server would have sent.
    fn ack(&self, reply: &v1::ResolveReply) -> Option<Ack> {
        let outcome = u8::try_from(reply.outcome).ok().and_then(Outcome::from_raw)?;
        let first = if self.operation == Operation::Add { reply.value as u64 } else { reply.version };
        Some(Ack { sequence: self.sequence, outcome, detail: 0, figures: [first, 0] })
    }
}

/// What is known of a write.
pub(super) enum Word {
    /// There is no doubt: it may be sent.
    None,
    /// Nobody has told yet.
    Awaited,
    /// It has ended so.
    Ended(Result<Done, Error>),
}

impl Cluster {
    /// Asks after a write in doubt, when there is somebody to ask, and takes what was told.
    pub(super) fn ask_after(&mut self, name: SlabKey, now: BootInstant) -> Word {
        let Some(op) = self.hall.find(name) else { return Word::Awaited };
        let shard = op.hash.shard();
        let Some(wander) = op.wander.as_mut() else { return Word::None };
        if let Some(asked) = wander.doubt.as_mut().and_then(|doubt| doubt.asked.take()) {
            let told = asked.try_recv();
            if let (Err(TryRecvError::Empty), Some(doubt)) = (&told, &mut wander.doubt) {
                doubt.asked = Some(asked);
                return Word::Awaited;
            }
            wander.pause();
            return match told {
                Ok(Ok(reply)) => self.on_word(name, &reply),
                Ok(Err(error)) => {
                    tracing::debug!(reason = error.reason, "a write could not be asked after");
                    self.members.refresh(self.map.epoch + 1, None);
                    Word::Awaited
                }
                Err(_) => Word::Awaited,
            };
        }
        let is_due = now >= wander.try_at;
        if wander.doubt.is_some() && is_due {
            wander.pause();
        }
        let Some(doubt) = wander.doubt.as_mut() else { return Word::None };
        if !is_due {
            return Word::Awaited;
        }
        let assigned = self.map.shard(shard);
        let is_later = assigned.reign > doubt.reign || !self.map.members.contains_key(&doubt.member);
        match assigned.primary() {
            Some(primary) if is_later => {
                let Ok(control) = self.members.control(primary) else { return Word::Awaited };
                let (told, answer) = bounded(1);
                doubt.asked = Some(answer);
                let request = v1::ResolveRequest {
                    client_id: doubt.client.to_bytes().to_vec(),
                    session: doubt.session,
                    sequence: doubt.sequence,
                    shard,
                    reign: doubt.reign,
                };
                control.resolve(request, move |reply| {
                    // The operation may have had its time.
                    let _ = told.send(reply);
                });
                Word::Awaited
            }
            _ if self.members.is_another_life(doubt.member, doubt.life) => {
                // It is still the primary, and has swept what this client was to it.
                Word::Ended(Err(Error::Indeterminate { operation: op.machine.name() }))
            }
            _ => {
                self.members.refresh(self.map.epoch + 1, None);
                Word::Awaited
            }
        }
    }

    /// The successor has told.
    fn on_word(&mut self, name: SlabKey, reply: &v1::ResolveReply) -> Word {
        if reply.map_epoch > self.map.epoch {
            self.members.refresh(reply.map_epoch, None);
        }
        let has_bytes = self.hall.has_bytes(name);
        let Some(op) = self.hall.find(name) else { return Word::Awaited };
        let Some(wander) = op.wander.as_mut() else { return Word::None };
        let Some(ack) = wander.doubt.as_ref().and_then(|doubt| doubt.ack(reply)) else { return Word::Awaited };
        match ack.outcome {
            Outcome::Busy | Outcome::WrongPrimary => Word::Awaited,
            Outcome::NeverDone => {
                self.stats.resolved.add(1);
                wander.doubt = None;
                wander.try_at = BootInstant::from_nanos(0);
                if op.machine.needs_image() && !has_bytes {
                    // Its bytes were still the fabric's when the server went.
                    return Word::Ended(Err(Error::LeaseLapsed));
                }
                Word::None
            }
            _ => {
                self.stats.resolved.add(1);
                Word::Ended(op.machine.settled(&ack))
            }
        }
    }
}

//! What a copy does with an entry.

use super::super::poll_loop::Worker;
use super::close::Step;
use super::outcomes::Ended;
use super::peer::{Applied, Content};
use super::{Copy, Phase, Role};
use crate::cells::Cells;
use crate::shard::{PutAsk, Unmet, discard_draft, draft};
use sidewire_common::clock::BootInstant;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::counter_cell::VALUE_MAX;
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::replica_entry::{Entry, What};
use sidewire_common::layout::request::Condition;

fn plain(outcome: Outcome) -> Applied {
    Applied::Answer(outcome, [0; 2])
}

impl Worker {
    /// Takes an entry in.
    pub(super) fn apply(&mut self, entry: &Entry, content: &Content<'_>) -> Applied {
        if !self.index.owns_shard(entry.shard) {
            return plain(Outcome::Refused);
        }
        self.store.hear_clock(entry.clock_us);
        self.store.raise_token_floor(entry.token_floor);
        let shard = self.replication.shards.entry(entry.shard).or_default();
        if entry.reign < shard.copy.fence || matches!(&shard.role, Role::Primary(p) if p.reign >= entry.reign) {
            return Applied::Answer(Outcome::WrongPrimary, [shard.copy.fence.into(), 0]);
        }
        shard.copy.fence = entry.reign;
        if let Role::Primary(primary) = &mut shard.role
            && primary.phase != Phase::Deposed
        {
            tracing::warn!(
                shard = entry.shard,
                reign = primary.reign,
                later = entry.reign,
                "another primary reigns: nothing is published any more"
            );
            // Whoever has handed over, or has not begun, has nothing that the other lacks.
            shard.copy.whole &=
                !matches!(primary.phase, Phase::Open | Phase::Closing(_)) || primary.phase == Phase::Closing(Step::Done);
            primary.phase = Phase::Deposed;
        }
        match entry.what {
            What::Clear => self.clear_for(entry),
            What::Ask => ask(&shard.copy, self.store.clock_is_behind()),
            What::Adopt => adopt(&mut shard.copy, entry),
            // A new primary tells a copy what it lacks before it makes it its own.
            _ if shard.copy.reign != entry.reign && !(shard.copy.whole && entry.position == 0) => plain(Outcome::Refused),
            What::Whole => {
                (shard.copy.position, shard.copy.whole) = (shard.copy.position.max(entry.position), true);
                plain(Outcome::Done)
            }
            What::Outcome => {
                self.note_outcome(entry);
                plain(Outcome::Done)
            }
            What::Put | What::Delete | What::Count => self.apply_change(entry, content),
            What::Beat => plain(Outcome::Done),
        }
    }

    /// The shard is told anew: what is there goes first, some of it each turn.
    fn clear_for(&mut self, entry: &Entry) -> Applied {
        let shard = self.replication.shards.entry(entry.shard).or_default();
        shard.copy = Copy { reign: entry.reign, fence: entry.reign, position: 0, whole: false };
        shard.recent.clear();
        shard.told_epoch = shard.told_epoch.max(entry.map_epoch);
        if self.empty_some(entry.shard) { plain(Outcome::Done) } else { Applied::Later }
    }

    fn apply_change(&mut self, entry: &Entry, content: &Content<'_>) -> Applied {
        let copy = self.replication.shards.entry(entry.shard).or_default().copy;
        if entry.position != 0 && entry.position <= copy.position {
            return plain(Outcome::Done);
        }
        if entry.position > copy.position + 1 {
            return Applied::Answer(Outcome::Refused, [copy.position, entry.position]);
        }
        let hash = KeyHash::of(content.key, self.store.hash_seed());
        if hash.shard() != entry.shard {
            return plain(Outcome::Refused);
        }
        let done = match entry.what {
            What::Delete => {
                self.forget_key(hash, content.key);
                Ok(())
            }
            _ => self.copy_record(entry, hash, content),
        };
        match done {
            Ok(()) => {}
            Err(unmet) if unmet.outcome == Outcome::Busy => return Applied::Later,
            Err(unmet) => return Applied::Answer(unmet.outcome, unmet.figures),
        }
        if entry.position != 0 {
            let shard = self.replication.shards.entry(entry.shard).or_default();
            shard.copy.position = entry.position;
            shard.remember(entry.position, content.key);
        }
        self.note_outcome(entry);
        plain(Outcome::Done)
    }

    fn note_outcome(&mut self, entry: &Entry) {
        if let Some(origin) = &entry.origin {
            let ended = Ended { version: entry.version.raw(), figure: entry.figure };
            self.replication.outcomes.add(origin, entry.shard, ended, BootInstant::now());
        }
    }

    /// The key holds nothing any more.
    pub(super) fn forget_key(&mut self, hash: KeyHash, key: &[u8]) {
        let Some(found) = self.index.find(&mut self.memory, hash, key) else { return };
        let cell = self.cell_in(&found);
        self.remove(hash, &found);
        if let Some(cell) = cell {
            self.store.cells().retire(cell);
        }
    }

    /// The key holds this record now, under the version that it has at the primary.
    fn copy_record(&mut self, entry: &Entry, hash: KeyHash, content: &Content<'_>) -> Result<(), Unmet> {
        let mut value = std::mem::take(&mut self.scratch.value);
        value.clear();
        let mut cell = None;
        if entry.value_len > 0 || entry.kind == Kind::Value {
            value.resize(entry.value_len as usize, 0);
            content.ring.copy_out(content.value_at, &mut value).expect("the whole entry lies in the ring, checked by its length");
        } else if entry.what == What::Count {
            let count = (entry.figure as i64).clamp(-VALUE_MAX, VALUE_MAX);
            let taken = self.take_cell(entry.kind, count as u64)?;
            cell = Some(taken.index);
            value.extend_from_slice(&taken.encode());
        } else {
            value.extend_from_slice(&Cells::reserved(entry.kind).encode());
        }
        let found = self.index.find(&mut self.memory, hash, content.key);
        let replaced = found.and_then(|found| self.cell_in(&found));
        let (version, expiry_ms) = (entry.version, entry.expiry_ms);
        let ask = PutAsk {
            key: content.key,
            hash,
            value: &value,
            kind: entry.kind,
            condition: Condition::None,
            expiry_ms,
            version,
            found,
        };
        let done = draft(&mut self.memory, &mut self.heap, &ask, &mut self.scratch.image).and_then(|draft| {
            let published = self.publish_record(hash, &draft, found.as_ref());
            published.inspect_err(|_| discard_draft(&mut self.heap, &draft))
        });
        self.scratch.value = value;
        if let Some(unused) = if done.is_ok() { replaced } else { cell } {
            self.store.cells().retire(unused);
        }
        self.version_seen(version);
        done
    }
}

/// How far a copy is; one that is not whole cannot follow.
fn ask(copy: &Copy, behind: bool) -> Applied {
    let outcome = if copy.whole { Outcome::Done } else { Outcome::NotFound };
    Applied::Answer(outcome, [behind.into(), copy.position])
}

fn adopt(copy: &mut Copy, entry: &Entry) -> Applied {
    if !copy.whole || copy.reign > entry.reign {
        return Applied::Answer(Outcome::Refused, [copy.reign.into(), copy.position]);
    }
    // Told again after a link broke, it may come behind entries that had followed it.
    let position = if copy.reign == entry.reign { copy.position.max(entry.position) } else { entry.position };
    (copy.reign, copy.position) = (entry.reign, position);
    plain(Outcome::Done)
}

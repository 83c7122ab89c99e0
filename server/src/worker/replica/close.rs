//! Hand-over: the shard takes no more writes, what is open ends, cells are taken from the clients, and the heir has it all.

use super::super::ScanCursor;
use super::super::counts::kind_in_cell;
use super::super::deferred::Stage;
use super::super::intake::Work;
use super::super::poll_loop::Worker;
use super::Phase;
use super::send::Message;
use sidewire_common::cluster::MemberId;
use sidewire_common::cluster::change::Change as Wanted;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::counter_cell;
use sidewire_common::layout::lock_word::LockWord;
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::replica_entry::{Entry, What};

/// How far the closing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Step {
    /// Open writes end.
    Ending,
    /// Cells from here on are still the clients'.
    Cells(ScanCursor),
    /// The last of them are on their way.
    Settling,
    /// The heir is asked whether it has everything.
    Asked,
    /// The map is to name the heir.
    Done,
    /// There is no heir any more; what is on its way ends first.
    Withdrawn,
    /// The map is to begin another reign.
    Over,
}

impl Worker {
    /// The map names an heir.
    pub(super) fn begin_close(&mut self, shard: u32) {
        let heir = self.replication.heir(shard);
        tracing::info!(shard, ?heir, "closes for its heir");
        if let Some(primary) = self.replication.primary(shard) {
            primary.closes_for = heir;
        }
        self.enter(shard, Phase::Closing(Step::Ending));
    }

    /// Brings a closing on; true when there was something to do.
    pub(super) fn close_some(&mut self, shard: u32, step: Step) -> bool {
        let busy = self.deferrals.any_in(shard) || self.oldest_open(shard).is_some();
        match step {
            Step::Ending if !busy => {
                self.enter(shard, Phase::Closing(Step::Cells(Self::beginning_of(shard))));
                true
            }
            Step::Cells(at) => {
                let (keys, next) = self.keys_at(at);
                for (hash, key, header) in keys {
                    if let Some(kind) = kind_in_cell(&header) {
                        self.surrender(hash, key, kind);
                    }
                }
                self.enter(shard, Phase::Closing(next.map_or(Step::Settling, Step::Cells)));
                true
            }
            Step::Settling if !busy => self.ask_heir(shard),
            Step::Withdrawn if !busy => self.begin_again(shard),
            _ => false,
        }
    }

    /// Takes a cell from the clients.
    fn surrender(&mut self, hash: KeyHash, key: Vec<u8>, kind: Kind) {
        let Some(found) = self.index.find(&mut self.memory, hash, &key) else { return };
        let cell = self.reference_in(&found).index;
        if self.store.cells().is_reserved(cell) {
            return;
        }
        let stage = if kind == Kind::Lock { Stage::Seize } else { Stage::Surrender };
        self.defer(Work::of_server(hash, key), cell, stage);
    }

    /// A cell was taken from the clients: its last word.
    pub(in super::super) fn surrendered(&mut self, work: &Work, stage: Stage, word: u64) {
        let shard = work.hash.shard();
        if stage == Stage::Seize {
            self.store.raise_token_floor(LockWord::from_raw(word).token());
            return;
        }
        if let Some(heir) = self.replication.primary(shard).and_then(|primary| primary.closes_for) {
            let count = match counter_cell::classify(word) {
                counter_cell::CounterState::Frozen => counter_cell::thawed(word),
                counter_cell::CounterState::Counted(count) | counter_cell::CounterState::OutOfRange(count) => count,
            };
            self.tell(heir, Message::Count { shard, key: super::work_key(work), count });
        }
    }

    /// A cell could not be taken: the shard is gone through once more.
    pub(in super::super) fn surrender_again(&mut self, shard: u32) {
        let closing =
            self.replication.primary(shard).filter(|p| matches!(p.phase, Phase::Closing(Step::Cells(_) | Step::Settling)));
        if closing.is_some() {
            self.enter(shard, Phase::Closing(Step::Cells(Self::beginning_of(shard))));
        }
    }

    fn ask_heir(&mut self, shard: u32) -> bool {
        let Some(primary) = self.replication.primary(shard) else { return false };
        let (Some(heir), reign) = (primary.closes_for, primary.reign) else { return false };
        self.enter(shard, Phase::Closing(Step::Asked));
        self.tell(heir, Message::Plain(Entry::new(What::Ask, shard, reign)));
        true
    }

    /// Cells were taken from the clients in vain.
    fn begin_again(&mut self, shard: u32) -> bool {
        let Some(reign) = self.replication.reign(shard) else { return false };
        self.enter(shard, Phase::Closing(Step::Over));
        self.store.cluster().wish(Wanted::BeginAgain { shard, reign });
        true
    }

    /// A follower has answered the last question: if it is the heir, the shard is its own.
    pub(super) fn heir_has_all(&mut self, shard: u32, member: MemberId) {
        let Some(primary) = self.replication.primary(shard) else { return };
        if primary.closes_for == Some(member) && primary.phase == Phase::Closing(Step::Asked) {
            let reign = primary.reign;
            primary.phase = Phase::Closing(Step::Done);
            self.store.cluster().wish(Wanted::HandedOver { shard, reign, to: member });
        }
    }
}

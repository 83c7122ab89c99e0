//! Sweeps: what a client held is taken back, in the one order that is safe.
//!
//! 1. Every worker destroys the client's endpoints, refuses it, and finishes or refuses what it had accepted.
//! 2. Only then its lock cells are released: no write that carries one of its tokens can be applied any more.
//! 3. Its link ends, and its ids are free.
//!
//! No step is waited for: each turn moves every sweep as far as it goes.

use super::locks::Locks;
use super::table::Why;
use crate::cells::Cells;
use crate::worker::{Command, Workers};
use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded};
use sidewire_common::clock::BootInstant;
use sidewire_common::id::ClientId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time after which a worker that has not expelled a client is reported. The sweep goes on waiting: to release the
/// client's locks before would be unsafe.
const EXPEL_REPORT: Duration = Duration::from_secs(5);

enum Stage {
    Expelling { replies: Receiver<()>, missing: usize, report_at: BootInstant },
    Releasing,
}

struct Sweep {
    holder: u32,
    why: Why,
    started: BootInstant,
    locks: usize,
    stage: Stage,
    waiting: Vec<Sender<()>>,
}

/// A sweep that has ended.
pub(super) struct Swept {
    pub(super) client: ClientId,
    pub(super) why: Why,
    pub(super) locks: usize,
    pub(super) took: Duration,
    waiting: Vec<Sender<()>>,
}

impl Swept {
    /// Tells those who waited for it.
    pub(super) fn tell(self) {
        for waiting in self.waiting {
            let _ = waiting.send(());
        }
    }
}

/// All sweeps under way.
#[derive(Default)]
pub(super) struct Sweeps(BTreeMap<ClientId, Sweep>);

impl Sweeps {
    /// Whether there is none.
    pub(super) fn is_idle(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins with step 1. The table has marked the client, so no `Open…` can follow the `Expel`.
    pub(super) fn begin(&mut self, now: BootInstant, client: ClientId, holder: u32, why: Why, workers: &Workers) {
        let count = workers.count();
        let (reply, replies) = bounded(count as usize);
        let mut missing = 0;
        for worker in 0..count {
            let command = Command::Expel { client, reply: reply.clone() };
            missing += usize::from(workers.send(worker, command).is_ok());
        }
        let stage = Stage::Expelling { replies, missing, report_at: now.plus(EXPEL_REPORT) };
        self.0.insert(client, Sweep { holder, why, started: now, locks: 0, stage, waiting: Vec::new() });
    }

    /// `reply` is told when the sweep of `client` ends; at once if there is none.
    pub(super) fn on_end(&mut self, client: ClientId, reply: Sender<()>) {
        match self.0.get_mut(&client) {
            Some(sweep) => sweep.waiting.push(reply),
            None => drop(reply.send(())),
        }
    }

    /// Moves every sweep on and returns those that have ended.
    pub(super) fn advance(&mut self, now: BootInstant, locks: &mut Locks, cells: &Cells) -> Vec<Swept> {
        // A look at all cells takes a while, and other clients' beats go on: one a turn.
        let mut looks = 1;
        let mut ended = Vec::new();
        for (client, sweep) in &mut self.0 {
            if let Stage::Expelling { replies, missing, report_at } = &mut sweep.stage {
                count_replies(replies, missing);
                if *missing > 0 {
                    if now >= *report_at {
                        *report_at = now.plus(EXPEL_REPORT);
                        tracing::error!(client = %client, workers = *missing, "workers do not answer; the client's locks stay held");
                    }
                    continue;
                }
                if looks == 0 {
                    continue;
                }
                looks -= 1;
                let held = cells.held_by(sweep.holder);
                sweep.locks = held.len();
                locks.release(*client, sweep.holder, &held);
                sweep.stage = Stage::Releasing;
            }
            if locks.is_done(*client) {
                ended.push(*client);
            }
        }
        ended.into_iter().filter_map(|client| self.end(now, client)).collect()
    }

    fn end(&mut self, now: BootInstant, client: ClientId) -> Option<Swept> {
        let Sweep { why, started, locks, waiting, .. } = self.0.remove(&client)?;
        Some(Swept { client, why, locks, took: now.since(started), waiting })
    }
}

fn count_replies(replies: &Receiver<()>, missing: &mut usize) {
    while *missing > 0 {
        match replies.try_recv() {
            Ok(()) => *missing -= 1,
            Err(TryRecvError::Empty) => return,
            // The workers that did not answer have ended, and their endpoints with them.
            Err(TryRecvError::Disconnected) => *missing = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_ended_is_not_waited_for() {
        let (reply, replies) = bounded(2);
        let other = reply.clone();
        let mut missing = 2;
        count_replies(&replies, &mut missing);
        assert_eq!(missing, 2);
        reply.send(()).unwrap();
        drop(reply);
        count_replies(&replies, &mut missing);
        assert_eq!(missing, 1);
        drop(other);
        count_replies(&replies, &mut missing);
        assert_eq!(missing, 0);
    }
}

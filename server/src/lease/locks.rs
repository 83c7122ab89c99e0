//! Locks of a swept client: taken back by CAS from the exact word, through the one executor of atomics.

use crate::cells::Cells;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{EndpointId, Port, Status, Verb, WorkId, WorkRequest};
use sidewire_common::id::ClientId;
use sidewire_common::layout::lock_word::{LockState, LockWord};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Pause before a loopback endpoint that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// One cell to be released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Release {
    client: ClientId,
    holder: u32,
    cell: u32,
    word: LockWord,
}

/// What the word that a CAS found means for a release.
fn again(release: Release, found: LockWord) -> Option<Release> {
    let swapped = found == release.word;
    let still_held = found.state() == LockState::Held { holder: release.holder };
    (!swapped && still_held).then_some(Release { word: found, ..release })
}

/// Releases in progress.
pub(super) struct Locks {
    depth: u32,
    endpoint: Option<EndpointId>,
    not_before: BootInstant,
    queue: VecDeque<Release>,
    posted: HashMap<u64, Release>,
    ids: u64,
    open: HashMap<ClientId, usize>,
}

impl Locks {
    pub(super) fn new(depth: u32) -> Self {
        let not_before = BootInstant::from_nanos(0);
        let (queue, posted, open) = (VecDeque::new(), HashMap::new(), HashMap::new());
        Self { depth, endpoint: None, not_before, queue, posted, ids: 0, open }
    }

    /// Takes on the cells that a client was seen to hold.
    pub(super) fn release(&mut self, client: ClientId, holder: u32, held: &[(u32, LockWord)]) {
        if !held.is_empty() {
            self.open.insert(client, held.len());
            self.queue.extend(held.iter().map(|&(cell, word)| Release { client, holder, cell, word }));
        }
    }

    /// Whether every cell of the client has been dealt with.
    pub(super) fn is_done(&self, client: ClientId) -> bool {
        !self.open.contains_key(&client)
    }

    /// Posts what there is room for.
    pub(super) fn pump(&mut self, now: BootInstant, port: &mut dyn Port, cells: &Cells) {
        if self.queue.is_empty() {
            return;
        }
        let Some(endpoint) = self.loopback(now, port) else { return };
        for _ in 0..port.room(endpoint) {
            let Some(release) = self.queue.pop_front() else { return };
            let Some(free) = release.word.released() else {
                self.finish(release.client);
                continue;
            };
            self.ids += 1;
            let verb = Verb::CompareSwap { at: cells.remote(release.cell), expect: release.word.raw(), swap: free.raw() };
            let mut chain = vec![WorkRequest { id: WorkId(self.ids), verb }];
            if let Err(error) = port.post(endpoint, &mut chain) {
                tracing::warn!(%error, "a lock of a lost client could not be released yet");
                self.queue.push_front(release);
                self.give_up_endpoint(now, port);
                return;
            }
            self.posted.insert(self.ids, release);
        }
    }

    fn loopback(&mut self, now: BootInstant, port: &mut dyn Port) -> Option<EndpointId> {
        if self.endpoint.is_none() && now >= self.not_before {
            match port.loopback(self.depth) {
                Ok(endpoint) => self.endpoint = Some(endpoint),
                Err(error) => {
                    tracing::error!(%error, "no loopback endpoint to release locks with");
                    self.not_before = now.plus(RETRY);
                }
            }
        }
        self.endpoint
    }

    fn give_up_endpoint(&mut self, now: BootInstant, port: &mut dyn Port) {
        if let Some(endpoint) = self.endpoint.take() {
            port.close(endpoint);
            self.not_before = now.plus(RETRY);
        }
    }

    /// Whether an endpoint is the loopback.
    pub(super) fn owns(&self, endpoint: EndpointId) -> bool {
        self.endpoint == Some(endpoint)
    }

    /// A CAS has ended. One that failed is issued again: from the exact word it does no harm if it was done after all.
    pub(super) fn done(&mut self, now: BootInstant, port: &mut dyn Port, id: WorkId, status: Status, old: u64) {
        let Some(release) = self.posted.remove(&id.0) else { return };
        if !status.is_ok() {
            tracing::warn!(?status, cell = release.cell, "releasing a lock failed; trying again");
            self.queue.push_back(release);
            self.give_up_endpoint(now, port);
            return;
        }
        match again(release, LockWord::from_raw(old)) {
            Some(next) => self.queue.push_back(next),
            None => self.finish(release.client),
        }
    }

    /// The loopback endpoint broke; its open work comes back flushed.
    pub(super) fn broken(&mut self, now: BootInstant, port: &mut dyn Port) {
        self.give_up_endpoint(now, port);
    }

    fn finish(&mut self, client: ClientId) {
        if let Some(left) = self.open.get_mut(&client) {
            *left -= 1;
            if *left == 0 {
                self.open.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: u32, token: u64) -> LockWord {
        LockWord::free(token - 1).acquired_by(holder).unwrap()
    }

    #[test]
    fn a_release_follows_the_word_until_it_is_not_that_holders() {
        let release = Release { client: ClientId(1), holder: 7, cell: 3, word: held(7, 10) };
        assert_eq!(again(release, held(7, 10)), None, "swapped");
        assert_eq!(again(release, held(7, 12)).map(|r| r.word), Some(held(7, 12)), "taken once more before the end");
        assert_eq!(again(release, held(8, 11)), None, "somebody else's now");
        assert_eq!(again(release, LockWord::free(10)), None, "free already");
        assert_eq!(again(release, held(7, 10).retired()), None);
    }
}

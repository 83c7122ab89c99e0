//! A request's way: it arrives, moves its words one by one, and its answer comes back.

use super::agenda::Event as Happening;
use super::endpoint::{Progress, Stage, Work};
use super::state::State;
use crate::fabric::{Event, Status};

/// Times that a NIC repeats what was not answered.
const RETRIES_MAX: u32 = 6;
/// Longest time between two repetitions, and until a NIC gives up on a peer that is not there.
const RETRY_PAUSE: u64 = 6_000_000;
const GIVE_UP_MAX: u64 = 25_000_000;
const WORD: usize = 8;
/// Pieces from which on several are moved in one step.
const LONG: usize = 96;

impl State {
    /// A request arrives at its target.
    pub(super) fn start_request(&mut self, number: u32, serial: u64) {
        let Some(pair) = self.pairs.get(&number) else { return };
        if pair.stage == Stage::Broken {
            return;
        }
        let Some(peer) = pair.peer else { return };
        if self.is_cut_off(number, peer) {
            return self.repeat(number, serial, Happening::Start { pair: number, serial }, Status::Unreachable);
        }
        let answers = self.pairs.get(&peer).is_some_and(|p| p.stage == Stage::Ready && p.peer == Some(number));
        if !answers {
            let delay = self.dice.below(GIVE_UP_MAX);
            return self.later(delay, Happening::GiveUp { pair: number, serial });
        }
        match self.admit(number, peer, serial) {
            Ok(()) => {
                let delay = self.dice.step();
                self.later(delay, Happening::Step { pair: number, serial });
                self.let_others_go(number, serial);
            }
            Err(status) => self.refuse(number, peer, status),
        }
    }

    /// The target refuses: both ends fail, and rxe tells the target's owner nothing.
    fn refuse(&mut self, number: u32, peer: u32, status: Status) {
        if let Some(peer) = self.pairs.get_mut(&peer) {
            peer.stage = Stage::Broken;
        }
        self.fail(number, status);
    }

    fn is_cut_off(&self, number: u32, peer: u32) -> bool {
        let process = |number: &u32| self.pairs.get(number).map(|pair| pair.process);
        match (process(&number), process(&peer)) {
            (Some(one), Some(other)) => self.is_cut(one, other),
            _ => false,
        }
    }

    /// What was not answered is tried again, a few times; then the pair fails with `status`.
    fn repeat(&mut self, number: u32, serial: u64, what: Happening, status: Status) {
        let Some(request) = self.request(number, serial) else { return };
        request.retries += 1;
        if request.retries > RETRIES_MAX {
            return self.fail(number, status);
        }
        let delay = self.dice.below(RETRY_PAUSE);
        self.later(delay, what);
    }

    /// Requests behind one that does not hold them set out; those behind one that does, when it is done.
    fn let_others_go(&mut self, number: u32, serial: u64) {
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        if pair.request(serial).is_some_and(|request| !request.holds_others()) {
            pair.busy = false;
            self.begin_next(number);
        }
    }

    /// Moves the next word, or some.
    pub(super) fn step_request(&mut self, number: u32, serial: u64) {
        let left = self.request(number, serial).map(|request| request.pieces.len());
        let Some(left) = left else { return };
        let steps = if left > LONG { 1 + self.dice.below(24) as usize } else { 1 };
        for _ in 0..steps {
            if !self.move_piece(number, serial) {
                return self.end_request(number, serial);
            }
        }
        let delay = self.dice.step();
        self.later(delay, Happening::Step { pair: number, serial });
    }

    /// False when there was none left.
    fn move_piece(&mut self, number: u32, serial: u64) -> bool {
        // Not by `request`, which would borrow the regions too.
        let Some(request) = self.pairs.get_mut(&number).and_then(|pair| pair.request(serial)) else { return false };
        let Some(piece) = request.pieces.pop() else { return false };
        // A region that was deregistered in the middle of a transfer takes and gives nothing any more.
        let Some(region) = self.regions.get(&request.target.0) else { return true };
        let at = request.target.1 + piece.at;
        match &request.work {
            Work::Read { into, .. } => {
                let mut bytes = [0; WORD];
                region.read(at, &mut bytes[..piece.bytes]);
                if let Some(lent) = into {
                    lent.land(piece.at, &bytes[..piece.bytes]);
                }
            }
            Work::Write { data, .. } => region.land(at, &data[piece.at..piece.at + piece.bytes]),
            _ => {}
        }
        true
    }

    /// All words have moved; what else it does happens now.
    fn end_request(&mut self, number: u32, serial: u64) {
        if !self.take_effect(number, serial) {
            // No receive was posted for it: the NIC tries again.
            return self.repeat(number, serial, Happening::Step { pair: number, serial }, Status::ReceiverNotReady);
        }
        if self.is_trapped(number, serial) {
            return self.fail(number, Status::Unreachable);
        }
        if let Some(request) = self.request(number, serial) {
            request.progress = Progress::Done;
            let held = request.holds_others();
            let delay = self.dice.latency();
            self.later(delay, Happening::Finish { pair: number, serial });
            if held && let Some(pair) = self.pairs.get_mut(&number) {
                pair.busy = false;
                self.begin_next(number);
            }
        }
    }

    /// Whether a request that was done is one whose answer shall be lost, and its pair with it.
    fn is_trapped(&mut self, number: u32, serial: u64) -> bool {
        let Some(pair) = self.pairs.get_mut(&number) else { return false };
        let process = pair.process;
        let changes = pair.request(serial).is_some_and(|request| !matches!(request.work, Work::Read { .. } | Work::Send { .. }));
        changes && self.traps.remove(&process)
    }

    /// Atomics, immediates, messages. False when the peer has no receive posted.
    fn take_effect(&mut self, number: u32, serial: u64) -> bool {
        let Some(pair) = self.pairs.get_mut(&number) else { return true };
        let Some(peer) = pair.peer else { return true };
        let Some(request) = pair.request(serial) else { return true };
        let (key, at) = request.target;
        match &request.work {
            Work::Read { .. } | Work::Write { imm: None, .. } => true,
            &Work::FetchAdd { delta, .. } => self.change(number, serial, key, at, |old| old.wrapping_add(delta)),
            &Work::CompareSwap { expect, swap, .. } => {
                self.change(number, serial, key, at, |old| if old == expect { swap } else { old })
            }
            &Work::Write { imm: Some(imm), ref data, .. } => {
                let bytes = data.len() as u32;
                self.deliver(peer, |_| Event::Written { imm, bytes })
            }
            Work::Send { message } => {
                let message = message.clone();
                self.deliver(peer, |pair| {
                    let slot = pair.next_slot;
                    pair.next_slot = pair.next_slot.wrapping_add(1);
                    pair.messages.insert(slot, message);
                    Event::Message { slot }
                })
            }
        }
    }

    fn change(&mut self, number: u32, serial: u64, key: u32, at: usize, change: impl FnOnce(u64) -> u64) -> bool {
        let old = self.regions.get_mut(&key).map_or(0, |region| region.atomic(at, change));
        if let Some(request) = self.request(number, serial) {
            request.old = old;
        }
        true
    }

    /// Its answer arrives, if there is a way.
    pub(super) fn finish_request(&mut self, number: u32, serial: u64) {
        let peer = self.pairs.get(&number).and_then(|pair| pair.peer);
        if peer.is_some_and(|peer| self.is_cut_off(number, peer)) {
            return self.repeat(number, serial, Happening::Finish { pair: number, serial }, Status::Unreachable);
        }
        if let Some(request) = self.request(number, serial) {
            request.progress = Progress::Answered;
        }
        self.tell_answered(number);
    }

    /// There has been no answer for too long.
    pub(super) fn give_up_request(&mut self, number: u32, serial: u64) {
        if self.request(number, serial).is_some() {
            let status = if self.dice.one_in(2) { Status::Unreachable } else { Status::RemoteAccess };
            self.fail(number, status);
        }
    }
}

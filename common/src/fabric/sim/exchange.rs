//! Between ports and queue pairs: posting, completions, messages, ends.

use super::agenda::Event as Happening;
use super::endpoint::{Progress, QueuePair, Request, Stage, Work};
use super::state::State;
use crate::fabric::{Completion, EndpointId, Event, PostError, Status, Verb, WorkRequest};
use crate::limits::MESSAGE_BYTES;

impl State {
    /// The pair behind an endpoint of a port.
    pub(super) fn pair_of(&mut self, port: u32, endpoint: EndpointId) -> Option<(u32, &mut QueuePair)> {
        let number = *self.ports.get(&port)?.pairs.get(&endpoint)?;
        self.pairs.get_mut(&number).map(|pair| (number, pair))
    }

    /// A work request of a pair that has not been answered.
    pub(super) fn request(&mut self, number: u32, serial: u64) -> Option<&mut Request> {
        self.pairs.get_mut(&number)?.request(serial)
    }

    pub(super) fn post(&mut self, port: u32, endpoint: EndpointId, chain: &mut Vec<WorkRequest<'_>>) -> Result<(), PostError> {
        self.flush();
        let (number, pair) = self.pair_of(port, endpoint).ok_or(PostError::Unknown)?;
        if pair.stage != Stage::Ready {
            return Err(PostError::Broken);
        }
        if pair.room() < chain.len() {
            return Err(PostError::Full { asked: chain.len(), room: pair.room() });
        }
        for request in chain.iter() {
            match &request.verb {
                verb if !pair.allows(verb) && !pair.loopback => return Err(PostError::Malformed("not of this role")),
                Verb::FetchAdd { at, .. } | Verb::CompareSwap { at, .. } if at.addr % 8 != 0 => {
                    return Err(PostError::Malformed("an atomic on a word that is not aligned"));
                }
                Verb::Send { bytes } if bytes.len() > MESSAGE_BYTES => {
                    return Err(PostError::Malformed("a message longer than MESSAGE_BYTES"));
                }
                _ => {}
            }
        }
        pair.in_flight += chain.len() as u32;
        pair.requests.extend(chain.drain(..).map(|request| Request::new(request.id, request.verb)));
        self.begin_next(number);
        Ok(())
    }

    /// Sends the next request of a pair on its way, unless one is that holds the others.
    pub(super) fn begin_next(&mut self, number: u32) {
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        if !pair.busy && pair.next_start < pair.end() {
            pair.busy = true;
            let serial = pair.next_start;
            pair.next_start += 1;
            let delay = self.dice.latency();
            self.later(delay, Happening::Start { pair: number, serial });
        }
    }

    /// Puts a completion into a port's queue and wakes its thread.
    pub(super) fn complete(&mut self, port: u32, endpoint: EndpointId, event: Event) {
        let Some(state) = self.ports.get_mut(&port) else { return };
        state.out.push_back(Completion { endpoint, event });
        if state.asleep {
            let thread = state.thread;
            self.rouse(thread);
        }
    }

    /// Tells the owner of all requests that were answered, in their order.
    pub(super) fn tell_answered(&mut self, number: u32) {
        loop {
            let Some(pair) = self.pairs.get_mut(&number) else { return };
            if pair.requests.front().is_none_or(|request| request.progress != Progress::Answered) {
                break;
            }
            let Some(request) = pair.requests.pop_front() else { break };
            pair.first += 1;
            let (port, endpoint, closed) = (pair.port, pair.endpoint, pair.stage == Stage::Closed);
            if !closed {
                self.complete(port, endpoint, Event::Done { id: request.id, status: Status::Ok, old: request.old });
            }
        }
        self.bury(number);
    }

    /// A closed pair goes when nothing of it is on the way any more.
    fn bury(&mut self, number: u32) {
        if self.pairs.get(&number).is_some_and(|pair| pair.stage == Stage::Closed && pair.requests.is_empty()) {
            self.pairs.remove(&number);
        }
    }

    /// The pair fails: its oldest open request ends in `status`, the rest is flushed, whatever was done of it.
    pub(super) fn fail(&mut self, number: u32, status: Status) {
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        if pair.stage == Stage::Closed {
            pair.requests.clear();
            self.pairs.remove(&number);
            return;
        }
        if pair.stage == Stage::Broken {
            return;
        }
        pair.stage = Stage::Broken;
        let (port, endpoint) = (pair.port, pair.endpoint);
        let mut first = Some(status);
        let requests = std::mem::take(&mut pair.requests);
        pair.first += requests.len() as u64;
        for request in requests {
            let event = match request.progress {
                Progress::Answered => Event::Done { id: request.id, status: Status::Ok, old: request.old },
                _ => Event::Done { id: request.id, status: first.take().unwrap_or(Status::Flushed), old: 0 },
            };
            self.complete(port, endpoint, event);
        }
        self.complete(port, endpoint, Event::Broken);
    }

    /// Its owner closes an endpoint. What was posted comes back as flushed; what is on the way may still arrive.
    pub(super) fn close(&mut self, port: u32, endpoint: EndpointId) {
        let Some(state) = self.ports.get_mut(&port) else { return };
        let Some(number) = state.pairs.remove(&endpoint) else { return };
        state.out.retain(|waiting| waiting.endpoint != endpoint || matches!(waiting.event, Event::Done { .. }));
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        let ids: Vec<_> = pair.requests.iter().map(|request| (request.id, request.progress, request.old)).collect();
        for request in &mut pair.requests {
            if let Work::Read { into, .. } = &mut request.work {
                *into = None;
            }
        }
        pair.stage = if pair.stage == Stage::Ready { Stage::Closed } else { Stage::Broken };
        for (id, progress, old) in ids {
            let status = if progress == Progress::Answered { Status::Ok } else { Status::Flushed };
            self.complete(port, endpoint, Event::Done { id, status, old: if status.is_ok() { old } else { 0 } });
        }
        self.leave_ghost(number);
    }

    /// Of a closed pair's requests those stay that a NIC may have sent already.
    fn leave_ghost(&mut self, number: u32) {
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        if pair.stage != Stage::Closed {
            self.pairs.remove(&number);
            return;
        }
        let open = pair.requests.len() as u64;
        let sent = (pair.next_start - pair.first).min(open);
        let kept = sent + self.dice.below(open - sent + 1);
        if let Some(pair) = self.pairs.get_mut(&number) {
            pair.requests.truncate(kept as usize);
        }
        self.bury(number);
    }

    /// A message or an immediate reaches a pair; false when it has no receive for it.
    pub(super) fn deliver(&mut self, number: u32, event: impl FnOnce(&mut QueuePair) -> Event) -> bool {
        let Some(pair) = self.pairs.get_mut(&number) else { return true };
        if pair.receives == 0 {
            return false;
        }
        pair.receives -= 1;
        let event = event(pair);
        let (port, endpoint) = (pair.port, pair.endpoint);
        self.complete(port, endpoint, event);
        true
    }

    /// Buffers of a registration are gone: nothing lands there any more.
    pub(super) fn forget_buffers(&mut self, key: u32) {
        for request in self.pairs.values_mut().flat_map(|pair| &mut pair.requests) {
            if let Work::Read { into, .. } = &mut request.work
                && into.as_ref().is_some_and(|lent| lent.lkey() == key)
            {
                *into = None;
            }
        }
    }
}

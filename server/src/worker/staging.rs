//! Taking requests out of a staging ring. Every byte there is hostile, and may change while it is looked at:
//! header and keys are copied out once and only the copies are used.

use sidewire_common::layout::packed::{REQUESTS_MAX, claimed_bytes, claimed_key_bytes, next_at};
use sidewire_common::layout::request::{HEADER_BYTES, Request, RequestError, RequestField, immediate_fits, immediate_offset};
use sidewire_common::memory::View;
use std::ops::Range;

/// A request that may be carried out.
#[derive(Debug)]
pub struct Received {
    /// Its header.
    pub request: Request,
    /// Where the value begins in the ring.
    pub value_at: usize,
}

/// Why there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intake {
    /// A limit was passed; the sequence can be answered.
    Refused {
        /// The request's number.
        sequence: u64,
        /// Which limit.
        error: RequestError,
    },
    /// Nothing that an honest client sends: it loses the connection.
    Violation(RequestError),
}

fn beyond(value: usize, field: RequestField, limit: usize) -> Intake {
    Intake::Violation(RequestError { field, value: value as u64, limit: limit as u64 })
}

/// A message in the ring, whose requests are taken out one after the other.
#[derive(Debug)]
pub struct Message {
    imm: u32,
    /// Where the next request begins.
    at: usize,
    end: usize,
    taken: usize,
    /// The next request's sequence; of the first one the immediate tells a part.
    sequence: Option<u64>,
}

impl Message {
    /// The message that an immediate names; `bytes` is what the peer says it wrote.
    ///
    /// # Errors
    /// When it does not lie in the ring.
    pub fn new(ring: &View, imm: u32, bytes: u32) -> Result<Self, Intake> {
        let at = immediate_offset(imm);
        match at.checked_add(bytes as usize).filter(|&end| end <= ring.len()) {
            Some(end) => Ok(Self { imm, at, end, taken: 0, sequence: None }),
            None => Err(beyond(at, RequestField::RingUnit, ring.len())),
        }
    }

    /// The next request, or `None` behind the last one. After a violation there is none to be had any more; a refused
    /// one does not keep those behind it from being taken.
    ///
    /// # Errors
    /// When it cannot be carried out. Nothing was changed.
    pub fn next(
        &mut self,
        ring: &View,
        value_bytes_max: usize,
        key: &mut Vec<u8>,
        fence_key: &mut Vec<u8>,
    ) -> Option<Result<Received, Intake>> {
        if self.taken > 0 && self.at >= self.end {
            return None;
        }
        self.taken += 1;
        let taken = self.take(ring, value_bytes_max, key, fence_key);
        if matches!(taken, Err(Intake::Violation(_))) {
            self.at = self.end;
        }
        Some(taken)
    }

    /// Where the keys of its requests lie, by what their headers claim now; nothing if there is but one of a message that
    /// came `alone`.
    pub fn keys_ahead(&self, ring: &View, alone: bool) -> impl Iterator<Item = Range<usize>> {
        let end = self.end;
        let claimed = move |at: usize| {
            let mut head = [0; HEADER_BYTES];
            ring.copy_out(at, &mut head).ok()?;
            Some((at + HEADER_BYTES..at + HEADER_BYTES + claimed_key_bytes(&head), next_at(at + claimed_bytes(&head))))
        };
        let first = claimed(self.at).filter(|&(_, next)| !alone || next < end);
        std::iter::successors(first, move |&(_, next)| (next < end).then(|| claimed(next)).flatten())
            .map(|(key, _)| key)
            .take_while(move |key| key.end <= end)
    }

    fn take(
        &mut self,
        ring: &View,
        value_bytes_max: usize,
        key: &mut Vec<u8>,
        fence_key: &mut Vec<u8>,
    ) -> Result<Received, Intake> {
        if self.taken > REQUESTS_MAX {
            return Err(beyond(self.taken, RequestField::Requests, REQUESTS_MAX));
        }
        let (at, left) = (self.at, self.end - self.at);
        let mut head = [0; HEADER_BYTES];
        if left < HEADER_BYTES || ring.copy_out(at, &mut head).is_err() {
            return Err(beyond(left, RequestField::Length, HEADER_BYTES));
        }
        let request = match Request::decode(&head, value_bytes_max) {
            Ok(request) => request,
            Err(error) => return Err(self.refuse(&head, error)),
        };
        if !self.expects(request.sequence) {
            return Err(self.unexpected(request.sequence));
        }
        let total = request.total_bytes();
        // A request ends the message, or another one begins behind it.
        if total > left || (total < left && next_at(at + total) >= self.end) {
            return Err(beyond(left, RequestField::Length, total));
        }
        self.step(request.sequence, total);
        copy_key(ring, at + HEADER_BYTES, request.key_len, key);
        copy_key(ring, at + request.fence_key_at(), request.fence_key_len, fence_key);
        Ok(Received { request, value_at: at + request.value_at() })
    }

    /// Whether a request with this sequence may be the next.
    fn expects(&self, sequence: u64) -> bool {
        self.sequence.map_or_else(|| immediate_fits(self.imm, sequence), |expected| expected == sequence)
    }

    fn unexpected(&self, sequence: u64) -> Intake {
        let limit = self.sequence.unwrap_or(sequence & 0xff);
        let value = self.sequence.map_or(u64::from(self.imm & 0xff), |_| sequence);
        Intake::Violation(RequestError { field: RequestField::Sequence, value, limit })
    }

    fn step(&mut self, sequence: u64, bytes: usize) {
        self.sequence = Some(sequence.wrapping_add(1));
        self.at = next_at(self.at + bytes).min(self.end);
    }

    /// Limits that a client may pass by mistake are answered, and what lies behind the request is looked at if its own
    /// lengths tell where that is; anything else is a violation.
    fn refuse(&mut self, head: &[u8; HEADER_BYTES], error: RequestError) -> Intake {
        let mistake = matches!(
            error.field,
            RequestField::KeyLength
                | RequestField::ValueLength
                | RequestField::FenceKeyLength
                | RequestField::Ttl
                | RequestField::Argument
        );
        let sequence = sidewire_common::layout::wire::u64_at(head, 8);
        if mistake && sequence != 0 && self.expects(sequence) {
            self.step(sequence, claimed_bytes(head));
            Intake::Refused { sequence, error }
        } else {
            Intake::Violation(error)
        }
    }
}

fn copy_key(ring: &View, at: usize, len: u16, into: &mut Vec<u8>) {
    into.clear();
    into.resize(len as usize, 0);
    ring.copy_out(at, into).expect("the whole request lies in the ring, checked by its length");
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidewire_common::layout::request::{Operation, immediate};
    use sidewire_common::memory::Mapping;
    use std::sync::Arc;

    fn ring() -> View {
        View::whole(Arc::new(Mapping::anonymous("ring", 4096).unwrap()))
    }

    fn receive_at(ring: &View, imm: u32, bytes: u32) -> Result<Received, Intake> {
        let mut message = Message::new(ring, imm, bytes)?;
        message.next(ring, 1024, &mut Vec::new(), &mut Vec::new()).unwrap()
    }

    /// Lays requests one behind the other and tells the length of the whole.
    fn pack(ring: &View, requests: &[Request]) -> u32 {
        let mut end = 0;
        for request in requests {
            let at = next_at(end);
            ring.copy_in(at, &request.encode()).unwrap();
            ring.copy_in(at + HEADER_BYTES, &vec![b'k'; request.key_len.into()]).unwrap();
            end = at + request.total_bytes();
        }
        end as u32
    }

    /// Sequences that are taken out of a message, or the field that is refused of each.
    fn taken(ring: &View, imm: u32, bytes: u32) -> Vec<Result<u64, RequestField>> {
        let mut message = Message::new(ring, imm, bytes).unwrap();
        let (mut key, mut fence_key) = (Vec::new(), Vec::new());
        std::iter::from_fn(|| message.next(ring, 1024, &mut key, &mut fence_key))
            .map(|one| match one {
                Ok(received) => Ok(received.request.sequence),
                Err(Intake::Refused { error, .. } | Intake::Violation(error)) => Err(error.field),
            })
            .collect()
    }

    fn delete(sequence: u64, key_len: u16) -> Request {
        Request { key_len, ..Request::new(Operation::Delete, sequence) }
    }

    #[test]
    fn packed_requests_are_taken_out_in_their_order() {
        let ring = ring();
        let length = pack(&ring, &[delete(255, 3), delete(256, 64), delete(257, 1)]);
        assert_eq!(length, 128 + 128 + 65);
        assert_eq!(taken(&ring, immediate(0, 255), length), [Ok(255), Ok(256), Ok(257)]);
        assert_eq!(taken(&ring, immediate(2, 256), length - 128), [Ok(256), Ok(257)], "what the immediate names is the first");
    }

    #[test]
    fn a_refused_one_does_not_spoil_those_behind_it() {
        let ring = ring();
        let long = Request { value_len: 1025, ..delete(2, 3) };
        let long = Request { operation: Operation::Put, ..long };
        let length = pack(&ring, &[delete(1, 3), long, delete(3, 3)]);
        assert_eq!(taken(&ring, immediate(0, 1), length), [Ok(1), Err(RequestField::ValueLength), Ok(3)]);
        // One that claims more than there is hides what may lie behind it.
        ring.copy_in(128 + 48, &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(taken(&ring, immediate(0, 1), length), [Ok(1), Err(RequestField::ValueLength)]);
    }

    #[test]
    fn a_lie_in_a_packed_message_is_a_violation_and_the_last() {
        use RequestField::{Length, Magic, Requests, Sequence};
        let ring = ring();
        let length = pack(&ring, &[delete(1, 3), delete(2, 3), delete(3, 3)]);
        assert_eq!(taken(&ring, immediate(0, 1), length - 1), [Ok(1), Ok(2), Err(Length)], "the last is cut off");
        assert_eq!(taken(&ring, immediate(0, 1), length + 61), [Ok(1), Ok(2), Err(Length)], "nothing fills the end");
        assert_eq!(taken(&ring, immediate(0, 1), length + 62), [Ok(1), Ok(2), Ok(3), Err(Length)], "no header fits there");
        assert_eq!(taken(&ring, immediate(0, 1), length + 125), [Ok(1), Ok(2), Ok(3), Err(Magic)]);
        for sequence in [0, 1, 3, 258, u64::MAX] {
            pack(&ring, &[delete(1, 3), delete(sequence, 3), delete(3, 3)]);
            assert_eq!(taken(&ring, immediate(0, 1), length), [Ok(1), Err(Sequence)], "{sequence} behind 1");
        }
        let length = pack(&ring, &[delete(u64::MAX, 3), delete(255, 3)]);
        assert_eq!(taken(&ring, immediate(0, 255), length), [Ok(u64::MAX), Err(Sequence)], "nothing comes behind the last");
        let ring = View::whole(Arc::new(Mapping::anonymous("ring", 16 << 10).unwrap()));
        let many: Vec<_> = (1..=65).map(|n| delete(n, 1)).collect();
        let length = pack(&ring, &many);
        assert_eq!(taken(&ring, immediate(0, 1), length).last(), Some(&Err(Requests)), "more than there are credits");
        assert_eq!(taken(&ring, immediate(0, 1), length).len(), 65);
    }

    #[test]
    fn keys_ahead_lie_in_the_message_whatever_headers_claim() {
        let ring = ring();
        let length = pack(&ring, &[delete(1, 3), delete(2, 64), delete(3, 1)]);
        let ahead = |bytes, alone| -> Vec<Range<usize>> {
            Message::new(&ring, immediate(0, 1), bytes).unwrap().keys_ahead(&ring, alone).collect()
        };
        assert_eq!(ahead(length, true), [64..67, 192..256, 320..321]);
        assert!(ahead(67, true).is_empty(), "one that is alone is not worth it");
        assert!(ahead(67, false).into_iter().eq(std::iter::once(64..67)));
        ring.copy_in(128 + 48, &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(ahead(length, true), [64..67, 192..256], "nothing is looked for behind one that claims the rest");
        ring.copy_in(6, &u16::MAX.to_le_bytes()).unwrap();
        assert!(ahead(length, false).is_empty(), "a key that is claimed to end outside is not looked at");
    }

    #[test]
    fn a_whole_request_is_taken_out() {
        let ring = ring();
        let request = Request { key_len: 3, value_len: 5, ..Request::new(Operation::Put, 7) };
        ring.copy_in(128, &request.encode()).unwrap();
        ring.copy_in(192, b"keyvalue").unwrap();
        let mut key = Vec::new();
        let received =
            Message::new(&ring, immediate(2, 7), 72).unwrap().next(&ring, 1024, &mut key, &mut Vec::new()).unwrap().unwrap();
        assert_eq!((received.request, received.value_at, key.as_slice()), (request, 195, &b"key"[..]));
    }

    #[test]
    fn each_lie_is_a_violation() {
        let ring = ring();
        let request = Request { key_len: 3, ..Request::new(Operation::Delete, 7) };
        ring.copy_in(128, &request.encode()).unwrap();
        let field = |imm, bytes| match receive_at(&ring, imm, bytes) {
            Err(Intake::Violation(error)) => error.field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(immediate(2, 7), 66), RequestField::Length);
        assert_eq!(field(immediate(2, 7), 0), RequestField::Length);
        assert_eq!(field(immediate(2, 8), 67), RequestField::Sequence);
        assert_eq!(field(immediate(64, 7), 67), RequestField::RingUnit);
        assert_eq!(field(immediate(63, 7), 67), RequestField::RingUnit);
        assert_eq!(field(u32::MAX, u32::MAX), RequestField::RingUnit);
        assert_eq!(field(immediate(8, 7), 67), RequestField::Magic);
    }

    #[test]
    fn a_limit_that_was_passed_is_answered() {
        let ring = ring();
        let request = Request { key_len: 3, value_len: 1025, ..Request::new(Operation::Put, 7) };
        ring.copy_in(0, &request.encode()).unwrap();
        let refused = receive_at(&ring, immediate(0, 7), 1092).unwrap_err();
        assert!(matches!(refused, Intake::Refused { sequence: 7, error } if error.limit == 1024));
    }
}

//! Taking a request out of a staging ring. Every byte there is hostile, and may change while it is looked at:
//! header and keys are copied out once and only the copies are used.

use sidewire_common::layout::request::{HEADER_BYTES, Request, RequestError, RequestField, immediate_fits, immediate_offset};
use sidewire_common::memory::View;

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

/// Reads the request that an immediate names; `bytes` is what the peer says it wrote.
///
/// # Errors
/// When it cannot be carried out. Nothing was changed.
pub fn receive(
    ring: &View,
    imm: u32,
    bytes: u32,
    value_bytes_max: usize,
    key: &mut Vec<u8>,
    fence_key: &mut Vec<u8>,
) -> Result<Received, Intake> {
    let offset = immediate_offset(imm);
    let mut head = [0; HEADER_BYTES];
    let beyond =
        |value: usize, field, limit: usize| Intake::Violation(RequestError { field, value: value as u64, limit: limit as u64 });
    let end = offset.checked_add(bytes as usize).filter(|&end| end <= ring.len());
    if end.is_none() {
        return Err(beyond(offset, RequestField::RingUnit, ring.len()));
    }
    if (bytes as usize) < HEADER_BYTES || ring.copy_out(offset, &mut head).is_err() {
        return Err(beyond(bytes as usize, RequestField::Length, HEADER_BYTES));
    }
    let request = Request::decode(&head, value_bytes_max).map_err(|error| judge(&head, imm, error))?;
    if !immediate_fits(imm, request.sequence) {
        return Err(beyond((imm & 0xff) as usize, RequestField::Sequence, (request.sequence & 0xff) as usize));
    }
    if request.total_bytes() != bytes as usize {
        return Err(beyond(bytes as usize, RequestField::Length, request.total_bytes()));
    }
    copy_key(ring, offset + HEADER_BYTES, request.key_len, key);
    copy_key(ring, offset + request.fence_key_at(), request.fence_key_len, fence_key);
    Ok(Received { request, value_at: offset + request.value_at() })
}

/// Limits that a client may pass by mistake are answered; anything else is a violation.
fn judge(head: &[u8; HEADER_BYTES], imm: u32, error: RequestError) -> Intake {
    let mistake = matches!(
        error.field,
        RequestField::KeyLength
            | RequestField::ValueLength
            | RequestField::FenceKeyLength
            | RequestField::Ttl
            | RequestField::Argument
    );
    let sequence = sidewire_common::layout::wire::u64_at(head, 8);
    if mistake && sequence != 0 && immediate_fits(imm, sequence) {
        Intake::Refused { sequence, error }
    } else {
        Intake::Violation(error)
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
        receive(ring, imm, bytes, 1024, &mut Vec::new(), &mut Vec::new())
    }

    #[test]
    fn a_whole_request_is_taken_out() {
        let ring = ring();
        let request = Request { key_len: 3, value_len: 5, ..Request::new(Operation::Put, 7) };
        ring.copy_in(128, &request.encode()).unwrap();
        ring.copy_in(192, b"keyvalue").unwrap();
        let mut key = Vec::new();
        let received = receive(&ring, immediate(2, 7), 72, 1024, &mut key, &mut Vec::new()).unwrap();
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

//! Packed requests: several in one message, that is, behind one Write-with-Immediate.
//!
//! | where | what |
//! | --- | --- |
//! | the unit that the immediate names | the first request, as if it were alone |
//! | the first multiple of 64 bytes behind a request | the next one; its sequence is one higher |
//! | the end of the message | the end of the last request |
//!
//! Bytes between two requests mean nothing. A message of one request is packed, too, and looks as it always did.
//! Every length is hostile to the server, which looks at each header anew.

use super::record::UNIT_BYTES;
use super::request::HEADER_BYTES;
use super::wire::{u16_at, u32_at};
use crate::limits::{MESSAGE_CREDITS, STAGING_BYTES_MIN};

/// Most requests in one message: a client never has more unanswered.
pub const REQUESTS_MAX: usize = MESSAGE_CREDITS as usize;
/// Longest message that a client makes of several requests, bytes. A request that is longer travels alone, uncopied.
pub const PACK_BYTES_MAX: usize = STAGING_BYTES_MIN / 4;

const _: () = assert!(PACK_BYTES_MAX.is_multiple_of(UNIT_BYTES) && HEADER_BYTES.is_multiple_of(UNIT_BYTES));

/// Where the next request begins, if the one before ends at `end`, both counted from the message's beginning or both
/// from the ring's.
#[must_use]
#[inline]
pub const fn next_at(end: usize) -> usize {
    end.next_multiple_of(UNIT_BYTES)
}

/// Bytes that a header claims for its request, whatever else is to be said of that: up to about 4 GiB.
#[must_use]
#[inline]
pub fn claimed_bytes(head: &[u8; HEADER_BYTES]) -> usize {
    HEADER_BYTES + claimed_key_bytes(head) + usize::from(u16_at(head, 52)) + u32_at(head, 48) as usize
}

/// Bytes of the key that it claims.
#[must_use]
#[inline]
pub fn claimed_key_bytes(head: &[u8; HEADER_BYTES]) -> usize {
    usize::from(u16_at(head, 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::request::{Operation, Request};

    #[test]
    fn a_header_claims_what_its_request_takes() {
        let request = Request { key_len: 300, fence_key_len: 7, value_len: 70_000, ..Request::new(Operation::Put, 1) };
        assert_eq!(claimed_bytes(&request.encode()), request.total_bytes());
        assert_eq!(claimed_bytes(&[0xff; HEADER_BYTES]), HEADER_BYTES + 2 * 0xffff + 0xffff_ffff);
    }

    #[test]
    fn the_next_begins_at_a_unit() {
        assert_eq!((next_at(64), next_at(65), next_at(128)), (64, 128, 128));
    }
}

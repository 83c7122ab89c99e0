//! Requests in a staging ring, as a worker takes them out.
//! Input: immediate 4 bytes · length that the peer announces 4 · options 1 · ring.

use super::cut::Cut;
use kv_server::worker::staging::{Intake, Message, Received};
use sidewire_common::layout::packed::{REQUESTS_MAX, claimed_bytes, next_at};
use sidewire_common::layout::request::{
    HEADER_BYTES, Request, RequestError, RequestField, immediate, immediate_fits, immediate_offset,
};
use sidewire_common::limits::{KEY_BYTES_MAX, TTL_MS_MAX};
use sidewire_common::memory::{Mapping, View};
use std::sync::Arc;

/// Bytes of the ring.
const RING_BYTES: usize = 8192;
/// Longest value that it takes.
const VALUE_BYTES_MAX: usize = RING_BYTES / 2;
/// Limits that a client passes by mistake and is told of.
const MISTAKES: [RequestField; 5] =
    [RequestField::KeyLength, RequestField::ValueLength, RequestField::FenceKeyLength, RequestField::Ttl, RequestField::Argument];
/// The announced length is that which the header says.
const RIGHT_LENGTH: u8 = 1;
/// The immediate is that of the header's sequence.
const RIGHT_IMMEDIATE: u8 = 2;
/// Behind the request lies another, like it but for its sequence, and the message ends with that one.
const AND_ANOTHER: u8 = 4;

thread_local! {
    static RING: View = View::whole(Arc::new(Mapping::anonymous("fuzz", RING_BYTES).expect("a page or two")));
}

/// Feeds the intake and the decoder under it.
///
/// # Panics
/// When what is accepted lies outside the ring or its limits, or a refusal does not hold.
pub fn run(bytes: &[u8]) -> bool {
    let mut cut = Cut::new(bytes);
    let (mut imm, mut length, options) = (u32::from_le_bytes(cut.array()), u32::from_le_bytes(cut.array()), cut.byte());
    let mut image = [0; RING_BYTES];
    let begin = immediate_offset(imm).min(RING_BYTES - HEADER_BYTES);
    let rest = cut.bytes(RING_BYTES - begin);
    image[begin..begin + rest.len()].copy_from_slice(rest);
    let head = *image[begin..].first_chunk().expect("room for a header");
    let decoded = Request::decode(&head, VALUE_BYTES_MAX);
    check_decoded(&head, &decoded);
    if let Ok(request) = &decoded {
        if options & RIGHT_LENGTH != 0 {
            length = request.total_bytes() as u32;
        }
        if options & RIGHT_IMMEDIATE != 0 {
            imm = immediate((begin / 64) as u32, request.sequence);
        }
        let behind = next_at(begin + request.total_bytes());
        if options & AND_ANOTHER != 0 && behind + request.total_bytes() <= RING_BYTES {
            let another = Request { sequence: request.sequence.wrapping_add(1), ..*request };
            image[behind..behind + HEADER_BYTES].copy_from_slice(&another.encode());
            length = (behind + request.total_bytes() - begin) as u32;
        }
    }
    RING.with(|ring| {
        ring.copy_in(0, &image).expect("as long as the ring");
        let accepted = take_all(ring, &image, imm, length);
        let mut after = [0; RING_BYTES];
        ring.copy_out(0, &mut after).expect("as long as the ring");
        assert_eq!(after, image, "the ring was written");
        accepted
    })
}

/// Takes all requests out of the message, and tells whether any was accepted.
fn take_all(ring: &View, image: &[u8], imm: u32, length: u32) -> bool {
    let mut message = match Message::new(ring, imm, length) {
        Ok(message) => message,
        Err(Intake::Violation(error)) => {
            check_error(&error);
            return false;
        }
        Err(Intake::Refused { .. }) => panic!("what lies outside of the ring has no sequence"),
    };
    // Only the message's length bounds it: each request claims at least its header.
    let ahead = message.keys_ahead(ring, false).inspect(|key| assert!(key.end <= image.len(), "{key:?} lies outside"));
    assert!(ahead.count() <= 1 + length as usize / HEADER_BYTES);
    let (mut key, mut fence_key) = (vec![0xee; 3], vec![0xee; 3]);
    let (mut at, end) = (immediate_offset(imm), immediate_offset(imm) + length as usize);
    let (mut expected, mut count, mut accepted) = (None, 0, false);
    while let Some(taken) = message.next(ring, VALUE_BYTES_MAX, &mut key, &mut fence_key) {
        count += 1;
        assert!(at < end || count == 1, "a request behind the message");
        let fits = |sequence| expected.map_or_else(|| immediate_fits(imm, sequence), |expected: u64| expected == sequence);
        match taken {
            Ok(received) => {
                assert!(count <= REQUESTS_MAX && fits(received.request.sequence));
                check_received(image, at, end, &received, &key, &fence_key);
                expected = Some(received.request.sequence.wrapping_add(1));
                at = next_at(at + received.request.total_bytes());
                accepted = true;
            }
            Err(Intake::Refused { sequence, error }) => {
                assert!(MISTAKES.contains(&error.field) && sequence != 0 && fits(sequence));
                check_error(&error);
                expected = Some(sequence.wrapping_add(1));
                at = next_at(at + claimed_bytes(image[at..].first_chunk().expect("a header was looked at")));
            }
            Err(Intake::Violation(error)) => {
                check_error(&error);
                let next = message.next(ring, VALUE_BYTES_MAX, &mut key, &mut fence_key);
                assert!(next.is_none(), "a request behind a violation");
                break;
            }
        }
    }
    accepted
}

fn check_error(error: &RequestError) {
    assert_eq!(RequestField::from_raw(error.field as u8), Some(error.field));
    let text = error.to_string();
    assert!(text.contains(error.field.name()) && text.contains(&error.value.to_string()), "{text}");
}

fn check_decoded(head: &[u8; HEADER_BYTES], decoded: &Result<Request, RequestError>) {
    let request = match decoded {
        Ok(request) => request,
        Err(error) => return check_error(error),
    };
    assert_eq!(&request.encode(), head, "a request that was accepted is the one that its fields make");
    assert!(usize::from(request.key_len) <= KEY_BYTES_MAX && usize::from(request.fence_key_len) <= KEY_BYTES_MAX);
    assert!(request.value_len as usize <= VALUE_BYTES_MAX && request.ttl_ms <= TTL_MS_MAX);
    assert!(request.sequence > 0 && request.resolved_below <= request.sequence);
    assert_eq!(request.fence_token == 0, request.fence_key_len == 0);
    assert_eq!(request.value_at() + request.value_len as usize, request.total_bytes());
    assert!(request.fence_key_at() <= request.value_at() && request.fence_key_at() >= HEADER_BYTES);
}

fn check_received(image: &[u8], begin: usize, end: usize, received: &Received, key: &[u8], fence_key: &[u8]) {
    let request = &received.request;
    let length = request.total_bytes();
    assert!(end <= image.len() && begin + length <= end, "a request beyond its message");
    assert!(begin + length == end || next_at(begin + length) < end, "bytes of no request at the end");
    assert!(received.value_at >= begin && received.value_at + request.value_len as usize <= begin + length);
    let (fence_at, value_at) = (begin + request.fence_key_at(), begin + request.value_at());
    assert_eq!(received.value_at, value_at);
    assert_eq!(key, &image[begin + HEADER_BYTES..fence_at]);
    assert_eq!(fence_key, &image[fence_at..value_at]);
}

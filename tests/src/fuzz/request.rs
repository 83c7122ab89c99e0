//! Requests in a staging ring, as a worker takes them out.
//! Input: immediate 4 bytes · length that the peer announces 4 · options 1 · ring.

use super::cut::Cut;
use kv_server::worker::staging::{Intake, Received, receive};
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
    let head = image[begin..].first_chunk().expect("room for a header");
    let decoded = Request::decode(head, VALUE_BYTES_MAX);
    check_decoded(head, &decoded);
    if let Ok(request) = &decoded {
        if options & RIGHT_LENGTH != 0 {
            length = request.total_bytes() as u32;
        }
        if options & RIGHT_IMMEDIATE != 0 {
            imm = immediate((begin / 64) as u32, request.sequence);
        }
    }
    RING.with(|ring| {
        ring.copy_in(0, &image).expect("as long as the ring");
        let (mut key, mut fence_key) = (vec![0xee; 3], vec![0xee; 3]);
        let taken = receive(ring, imm, length, VALUE_BYTES_MAX, &mut key, &mut fence_key);
        let mut after = [0; RING_BYTES];
        ring.copy_out(0, &mut after).expect("as long as the ring");
        assert_eq!(after, image, "the ring was written");
        match taken {
            Ok(received) => {
                check_received(&image, imm, length, &received, &key, &fence_key);
                true
            }
            Err(Intake::Refused { sequence, error }) => {
                assert!(MISTAKES.contains(&error.field) && sequence != 0 && immediate_fits(imm, sequence));
                check_error(&error);
                false
            }
            Err(Intake::Violation(error)) => {
                check_error(&error);
                false
            }
        }
    })
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

fn check_received(image: &[u8], imm: u32, length: u32, received: &Received, key: &[u8], fence_key: &[u8]) {
    let (request, begin) = (&received.request, immediate_offset(imm));
    assert!(immediate_fits(imm, request.sequence) && request.total_bytes() == length as usize);
    assert!(begin + length as usize <= image.len(), "a request beyond the ring");
    assert!(received.value_at >= begin && received.value_at + request.value_len as usize <= begin + length as usize);
    let (fence_at, value_at) = (begin + request.fence_key_at(), begin + request.value_at());
    assert_eq!(received.value_at, value_at);
    assert_eq!(key, &image[begin + HEADER_BYTES..fence_at]);
    assert_eq!(fence_key, &image[fence_at..value_at]);
}

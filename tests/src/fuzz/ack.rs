//! Messages of acks.

use sidewire_common::layout::ack::{self, ACKS_MAX, Ack, MESSAGE_BYTES_MAX};

/// Feeds the decoder.
///
/// # Panics
/// When an accepted message is not the one that its acks make.
pub fn run(bytes: &[u8]) -> bool {
    let acks: Vec<Ack> = match ack::decode(bytes) {
        Ok(acks) => acks.collect(),
        Err(error) => {
            assert!(!error.0.is_empty());
            return false;
        }
    };
    assert!((1..=ACKS_MAX).contains(&acks.len()) && bytes.len() <= MESSAGE_BYTES_MAX);
    let mut again = [0xee; MESSAGE_BYTES_MAX];
    let length = ack::encode(&acks, &mut again);
    assert_eq!(&again[..length], bytes);
    true
}

//! Heartbeats and their answers.

use sidewire_common::layout::beat::{ANSWER_BYTES, Answer, BEAT_BYTES, Beat};

/// Feeds both decoders.
///
/// # Panics
/// When what was accepted means something else once it is encoded again, or is accepted as both.
pub fn run(bytes: &[u8]) -> bool {
    let (beat, answer) = (Beat::decode(bytes), Answer::decode(bytes));
    match (beat, answer) {
        (Ok(beat), Err(refusal)) => {
            assert!(bytes.len() == BEAT_BYTES && beat.number > 0 && !refusal.0.is_empty());
            assert_eq!(&beat.encode()[..], bytes);
            true
        }
        (Err(refusal), Ok(answer)) => {
            assert!(bytes.len() == ANSWER_BYTES && !refusal.0.is_empty());
            assert_eq!(&answer.encode()[..], bytes);
            true
        }
        (Err(beat), Err(answer)) => {
            assert!(!beat.0.is_empty() && !answer.0.is_empty());
            false
        }
        (Ok(_), Ok(_)) => panic!("both a beat and an answer"),
    }
}

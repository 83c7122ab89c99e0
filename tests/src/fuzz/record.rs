//! Records as a reader gets them: bytes of any moment, believed or not.
//!
//! Input: place 8 bytes · options 1 · length of the key 1 · key · what was read. Since no mutation guesses a checksum,
//! an option makes the checksum right, and another the tag, as a forger with the algorithm would.

use super::cut::Cut;
use sidewire_common::key::FINGERPRINT_BITS;
use sidewire_common::layout::digest::digest;
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::record::{
    self, Disbelief, Fields, HEADER_BYTES, Header, State, UNIT_BYTES, Whole, examine, record_bytes,
};
use sidewire_common::limits::KEY_BYTES_MAX;

const RIGHT_CHECKSUM: u8 = 1;
const RIGHT_TAG: u8 = 2;
const RIGHT_KEY: u8 = 4;

/// Feeds the reader's check.
///
/// # Panics
/// When something is believed that is not whole, or refused for a reason that does not hold.
pub fn run(bytes: &[u8]) -> bool {
    let mut cut = Cut::new(bytes);
    let (place, options, key_len) = (Place::unpack(cut.word()), cut.byte(), usize::from(cut.byte()));
    let key = cut.bytes(key_len);
    let mut image = cut.rest().to_vec();
    if key.is_empty() {
        return false;
    }
    forge(&mut image, place, key, options);
    match examine(&image, place, key) {
        Ok(whole) => {
            is_whole(&image, place, key, &whole);
            nothing_else_is_believed(&image, place, key, bytes);
            true
        }
        Err(why) => {
            is_refused_rightly(&image, place, key, why);
            false
        }
    }
}

fn head(image: &[u8]) -> Option<Header> {
    image.first_chunk::<HEADER_BYTES>().map(Header::read)
}

/// Makes right what the options say.
fn forge(image: &mut [u8], place: Place, key: &[u8], options: u8) {
    if options & RIGHT_KEY != 0 && image.len() >= HEADER_BYTES + key.len() {
        image[32..34].copy_from_slice(&(key.len() as u16).to_le_bytes());
        image[HEADER_BYTES..HEADER_BYTES + key.len()].copy_from_slice(key);
    }
    let Some(header) = head(image) else { return };
    if options & RIGHT_TAG != 0 {
        let state = match State::from_raw(u64::from_le_bytes(*image.first_chunk().expect("a header"))) {
            State::Live(_) => State::Live(header.version),
            State::Deleted(_) => State::Deleted(header.version),
            other => other,
        };
        image[..8].copy_from_slice(&state.raw().to_le_bytes());
    }
    if options & RIGHT_CHECKSUM != 0 && header.record_bytes() <= image.len() {
        let sum = record::checksum(&image[..header.record_bytes()], place);
        image[8..16].copy_from_slice(&sum.to_le_bytes());
    }
}

fn is_whole(image: &[u8], place: Place, key: &[u8], whole: &Whole) {
    let end = whole.value_at + whole.value_len;
    assert!(whole.value_at == HEADER_BYTES + key.len() && end <= image.len(), "a value outside of what was read");
    assert_eq!(&image[HEADER_BYTES..whole.value_at], key);
    let fields =
        Fields { version: whole.version, expiry_ms: whole.expiry_ms, kind: whole.kind, key, value: &image[whole.value_at..end] };
    let again = again(place, fields, head(image).expect("it was believed").flags & record::FLAG_DIGEST != 0);
    assert_eq!(&again[8..], &image[8..end], "what is believed is what an encoder makes");
    assert_eq!(whole.state.raw().to_le_bytes(), image[..8]);
    if let State::Live(version) | State::Deleted(version) = whole.state {
        assert_eq!(version, whole.version, "a state of another life");
    }
    let fingerprint = (whole.version.raw() as u16) & ((1 << FINGERPRINT_BITS) - 1);
    let location = Location::new(fingerprint, end, place);
    assert!(location.place() == place && location.fingerprint() == fingerprint && !location.is_empty());
    assert!(location.read_bytes().is_none_or(|read| read >= end && read < end + UNIT_BYTES));
}

/// What an encoder makes of it.
fn again(place: Place, fields: Fields<'_>, by_digest: bool) -> Vec<u8> {
    if by_digest {
        let front = record::encode_front(place, fields, fields.value.len() as u32, digest(fields.value, place), None);
        return [&front, fields.value].concat();
    }
    let mut image = vec![0; record_bytes(fields.key.len(), fields.value.len())];
    record::encode(&mut image, place, fields, None);
    image
}

/// The same bytes elsewhere, for another key, cut short or with one bit changed.
fn nothing_else_is_believed(image: &[u8], place: Place, key: &[u8], dice: &[u8]) {
    let end = head(image).expect("it was believed").record_bytes();
    let elsewhere = Place { unit: place.unit ^ 1, ..place };
    assert_eq!(examine(image, elsewhere, key), Err(Disbelief::Checksum), "believed at another place");
    let mut other = key.to_vec();
    other[0] ^= 1;
    assert_eq!(examine(image, place, &other), Err(Disbelief::OtherKey), "believed for another key");
    assert!(examine(&image[..end - 1], place, key).is_err(), "believed though cut short");
    let roll = dice.iter().fold(17usize, |sum, &byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    let bit = 64 + roll % ((end - 8) * 8);
    let mut flipped = image.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    assert!(examine(&flipped, place, key).is_err(), "bit {bit} changed and was not noticed");
}

fn is_refused_rightly(image: &[u8], place: Place, key: &[u8], why: Disbelief) {
    let header = head(image);
    let right = match (why, header) {
        (Disbelief::Lengths, None) => true,
        (Disbelief::Lengths, Some(header)) => !(1..=KEY_BYTES_MAX).contains(&usize::from(header.key_len)),
        (_, None) => false,
        (Disbelief::Longer { record_bytes }, Some(header)) => record_bytes > image.len() && record_bytes == header.record_bytes(),
        (Disbelief::OtherKey, Some(header)) => {
            usize::from(header.key_len) != key.len() || image[HEADER_BYTES..HEADER_BYTES + key.len()] != *key
        }
        (Disbelief::Checksum, Some(header)) => record::checksum(&image[..header.record_bytes()], place) != header.checksum,
        (Disbelief::Tag, Some(header)) => match State::from_raw(u64::from_le_bytes(*image.first_chunk().expect("a header"))) {
            State::Live(version) | State::Deleted(version) => version != header.version,
            State::Pending { .. } | State::Superseded { .. } => false,
        },
        (Disbelief::UnknownKind, Some(header)) => {
            record::Kind::from_raw(header.kind).is_none() || header.flags & !record::FLAG_DIGEST != 0
        }
    };
    assert!(right, "refused as {why:?}, which it is not: {header:?}");
}

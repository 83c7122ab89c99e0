//! Keys and values of every length that stands at a border.

use sidewire::{Error, Session};
use sidewire_common::key::KeyError;
use sidewire_common::layout::record::{HEADER_BYTES, UNIT_BYTES};
use sidewire_tests::{Server, stamped};
use std::collections::BTreeSet;

const KEY: &[u8] = b"length";
/// Half of the default staging ring. Longer ones: `tests/tests/large`.
const VALUE_BYTES_MAX: usize = 512 << 10;

/// Around each power of two, as a value and as a whole record; around some multiples of a unit; around the length
/// that a location cannot tell any more.
fn borders() -> BTreeSet<usize> {
    let around = |bytes: usize| [bytes.saturating_sub(1), bytes, bytes + 1];
    let record = HEADER_BYTES + KEY.len();
    let units = [1, 2, 3, 15, 16, 17, 63, 64, 65, 4093, 4094, 4095, 4096].map(|n| n * UNIT_BYTES);
    let powers = (0..20).map(|k| 1_usize << k);
    let wholes = powers.clone().chain(units).filter_map(|bytes| bytes.checked_sub(record));
    let all = powers.chain(wholes).flat_map(around).chain([0, 100, 1000, 10_000, 100_000, VALUE_BYTES_MAX - 63]);
    all.filter(|&bytes| bytes <= VALUE_BYTES_MAX).collect()
}

fn bytes(count: usize) -> Vec<u8> {
    if count < stamped::STAMPED_BYTES_MIN { vec![count as u8 ^ 0x5a; count] } else { stamped::stamp(1, count as u64, count) }
}

fn comes_back(session: &Session, key: &[u8], value: &[u8]) {
    let version = session.put(key, value).unwrap();
    // The second Get knows the location.
    for _ in 0..2 {
        let got = session.get(key).unwrap().unwrap_or_else(|| panic!("{} bytes are absent", value.len()));
        assert!(*got == *value, "{} bytes came back as {}", value.len(), got.len());
        assert_eq!(got.version(), version);
        assert_eq!(got.expires_in_ms(), None);
    }
}

#[test]
fn values_of_every_length_come_back() {
    let server = Server::start();
    let (with, without) = (server.client(), server.client_builder().location_cache_entries(0).connect().unwrap());
    let (with, without) = (with.session().unwrap(), without.session().unwrap());
    for count in borders() {
        comes_back(&with, KEY, &bytes(count));
        assert!(*without.get(KEY).unwrap().unwrap() == *bytes(count), "{count} bytes, read by another");
    }
    // Shrinking, too: nothing of the longer one shows.
    for count in borders().into_iter().rev() {
        comes_back(&without, KEY, &bytes(count));
        assert!(*with.get(KEY).unwrap().unwrap() == *bytes(count), "{count} bytes, read by another");
    }
}

#[test]
fn keys_of_every_length_and_byte_come_back() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    let mut keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for length in [2, 7, 8, 9, 23, 24, 25, 63, 64, 65, 255, 256, 1023, 1024, 4055, 4056, 4057, 4095, 4096] {
        keys.push((0..length).map(|at: usize| (at * 31 + length) as u8).collect());
        keys.push(vec![0; length]);
    }
    for odd in ["{", "}", "{}", "{a", "a}", "{a}", "{a}{b}", "x{a}y", "{a}\0", "\n", " ", "ключ", "🗝"] {
        keys.push(odd.as_bytes().to_vec());
    }
    for (n, key) in keys.iter().enumerate() {
        session.put(key, &(n as u64).to_le_bytes()).unwrap();
    }
    for (n, key) in keys.iter().enumerate() {
        let expected = keys.iter().rposition(|k| k == key).unwrap_or(n) as u64;
        assert_eq!(*session.get(key).unwrap().unwrap(), expected.to_le_bytes(), "{key:?}");
    }
    // The longest key with the longest value, and with none.
    let longest = vec![b'k'; 4096];
    comes_back(&session, &longest, &bytes(VALUE_BYTES_MAX));
    comes_back(&session, &longest, b"");
    let distinct: BTreeSet<&Vec<u8>> = keys.iter().collect();
    assert_eq!(server.info().keys, distinct.len() as u64 + u64::from(!distinct.contains(&longest)));
    for key in distinct {
        assert!(session.delete(key).unwrap(), "{key:?}");
        assert!(session.get(key).unwrap().is_none(), "{key:?}");
        assert!(!session.delete(key).unwrap(), "{key:?}");
    }
}

/// A limit that is noticed late could leave half a value, or a session that is good for nothing.
#[test]
fn what_is_too_long_is_refused_before_anything_is_done() {
    let server = Server::builder().args(&["--value-max", "512KiB"]).start();
    let client = server.client();
    let session = client.session().unwrap();
    session.put(KEY, b"before").unwrap();
    let too_long = vec![7; VALUE_BYTES_MAX + 1];
    match session.put(KEY, &too_long) {
        Err(Error::ValueTooLong { bytes, limit }) => assert_eq!((bytes, limit), (VALUE_BYTES_MAX + 1, VALUE_BYTES_MAX)),
        other => panic!("{other:?}"),
    }
    let long = vec![b'k'; 4097];
    for (key, wanted) in [(&b""[..], KeyError::Empty), (&long[..], KeyError::TooLong(4097))] {
        let is_refused = |result: Result<(), Error>| match result {
            Err(Error::Key(error)) => assert_eq!(error, wanted),
            other => panic!("{other:?}"),
        };
        is_refused(session.put(key, b"v").map(drop));
        is_refused(session.get(key).map(drop));
        is_refused(session.exists(key).map(drop));
        is_refused(session.delete(key).map(drop));
        is_refused(session.create_counter(key, 0).map(drop));
        is_refused(session.add(key, 1).map(drop));
        is_refused(session.try_lock(key).map(drop));
        is_refused(session.multi_get(&[KEY, key]).pop().unwrap().map(drop));
    }
    assert_eq!(&*session.get(KEY).unwrap().unwrap(), b"before");
    assert_eq!(server.info().keys, 1);
}

#[test]
fn many_keys_at_once_with_missing_and_repeated_ones() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    for n in 0..300_u64 {
        session.put(format!("m{n}").as_bytes(), &stamped::stamp(n, 1, 16 + n as usize)).unwrap();
    }
    session.create_counter(b"not-a-value", 1).unwrap();
    assert!(session.multi_get::<&[u8]>(&[]).is_empty());
    // More than a session has in flight at once; every third is missing, every fifth stands twice.
    let keys: Vec<String> =
        (0..900_u64).map(|n| if n % 3 == 2 { format!("none{n}") } else { format!("m{}", n % 300 / 5 * 5) }).collect();
    for _ in 0..2 {
        let mut values = session.multi_get(&keys);
        assert_eq!(values.len(), keys.len());
        for (key, value) in keys.iter().zip(values.drain(..)) {
            match (key.strip_prefix('m'), value.unwrap()) {
                (Some(n), Some(value)) => assert_eq!(stamped::version_of(&value, n.parse().unwrap()), Ok(1)),
                (None, None) => {}
                (_, other) => panic!("{key}: {other:?}"),
            }
        }
    }
    let mixed = session.multi_get(&["m1", "not-a-value", "none"]);
    assert!(matches!(mixed[0], Ok(Some(_))) && matches!(mixed[2], Ok(None)), "{mixed:?}");
    assert!(matches!(mixed[1], Err(Error::WrongKind { .. })), "{mixed:?}");
}

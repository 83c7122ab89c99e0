//! Lengths around each border, written over each other.

use crate::{HALF_RING, MIB, longest, patience, server};
use sidewire::{Error, Session};
use sidewire_tests::{setting, stamped};

const KEY: &[u8] = b"long";

fn bytes(count: usize) -> Vec<u8> {
    if count < stamped::STAMPED_BYTES_MIN { vec![7; count] } else { stamped::stamp(1, count as u64, count) }
}

fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, HALF_RING - 1, HALF_RING, HALF_RING + 1, MIB, MIB + 1, 4 * MIB - 46, 4 * MIB + 1, 9 * MIB + 5];
    sizes.extend([16 * MIB, longest()].into_iter().filter(|&bytes| bytes <= longest()));
    sizes
}

fn comes_back(sessions: &[&Session], value: &[u8]) {
    for session in sessions {
        // The second Get knows the location.
        for _ in 0..2 {
            let got = session.get(KEY).unwrap().unwrap_or_else(|| panic!("{} bytes are absent", value.len()));
            assert!(*got == *value, "{} bytes came back as {}", value.len(), got.len());
        }
        let mut several = session.multi_get(&[&b"none"[..], KEY]);
        assert!(*several.pop().unwrap().unwrap().unwrap() == *value, "{} bytes among others", value.len());
        assert!(several.pop().unwrap().unwrap().is_none());
        assert!(session.exists(KEY).unwrap());
    }
}

#[test]
fn values_of_every_length_come_back_over_each_other() {
    let server = server();
    let (with, without) = (server.client(), server.client_builder().location_cache_entries(0).connect().unwrap());
    let (with, without) = (with.session().unwrap(), without.session().unwrap());
    for session in [&with, &without] {
        session.set_deadline(patience());
    }
    for count in sizes() {
        let value = bytes(count);
        with.put(KEY, &value).unwrap();
        comes_back(&[&with, &without], &value);
        // Small in its place, and the long one in the small one's.
        with.put(KEY, b"small").unwrap();
        comes_back(&[&without, &with], b"small");
        without.put(KEY, &value).unwrap();
        comes_back(&[&with], &value);
    }
    assert_eq!(server.info().keys, 1);
    assert!(with.delete(KEY).unwrap());
    assert!(without.get(KEY).unwrap().is_none());
}

#[test]
fn what_is_over_the_limit_is_refused_before_anything_is_done() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.put(KEY, b"before").unwrap();
    let limit = client.attachment().value_bytes_max as usize;
    if !setting::is_verbs() {
        assert_eq!(limit, 64 * MIB);
    }
    match session.put(KEY, &vec![7; limit + 1]) {
        Err(Error::ValueTooLong { bytes, limit: told }) => assert_eq!((bytes, told), (limit + 1, limit)),
        other => panic!("{other:?}"),
    }
    assert_eq!(&*session.get(KEY).unwrap().unwrap(), b"before");
}

/// The operator's limit is told when a client attaches.
#[test]
fn a_limit_that_was_set_holds() {
    let server = sidewire_tests::Server::builder().args(&["--value-max", "2MiB"]).start();
    let client = server.client();
    let session = client.session().unwrap();
    session.put(KEY, &bytes(2 * MIB)).unwrap();
    assert!(matches!(session.put(KEY, &bytes(2 * MIB + 1)), Err(Error::ValueTooLong { limit, .. }) if limit == 2 * MIB));
    assert!(*session.get(KEY).unwrap().unwrap() == *bytes(2 * MIB));
}

/// The longest key moves the value by as much as it can.
#[test]
fn the_longest_key_has_long_values_too() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(patience());
    for length in [1, 24, 4095, 4096] {
        let key = vec![b'k'; length];
        for count in [HALF_RING + 1, longest()] {
            session.put(&key, &bytes(count)).unwrap();
            assert!(*session.get(&key).unwrap().unwrap() == *bytes(count), "key of {length}, value of {count}");
        }
        assert!(session.delete(&key).unwrap());
    }
}

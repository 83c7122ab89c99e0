//! Memory that is full, and memory that is turned over many times.

use crate::rounds;
use sidewire::{Error, Session};
use sidewire_tests::{Server, stamped};
use std::collections::VecDeque;

const MEMORY_BYTES: u64 = 128 << 20;

fn server() -> Server {
    Server::builder().memory("128MiB").workers(2).start()
}

fn key(n: u64) -> Vec<u8> {
    format!("filled-{n}").into_bytes()
}

#[test]
fn at_the_limit_every_acked_value_is_kept() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    // With its header and key it fills two of the heap's pages nearly.
    let bytes = (32 << 10) - 200;
    let wanted = MEMORY_BYTES * 11 / 10 / bytes as u64;
    let (mut acked, mut refused) = (Vec::new(), 0);
    for n in 0..wanted {
        match put_when_grown(&session, &key(n), &stamped::stamp(n, 1, bytes)) {
            Ok(()) => acked.push(n),
            Err(Error::OutOfMemory { in_use, limit }) => {
                assert!(in_use <= limit && limit <= MEMORY_BYTES, "{in_use} of {limit}");
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    println!("{} of {wanted} values of {bytes} bytes fit into {MEMORY_BYTES}, {refused} were refused", acked.len());
    assert!(refused > 0 && acked.len() as u64 * bytes as u64 > MEMORY_BYTES / 2);
    let info = server.info();
    let reserved: u64 = [&info.heap, &info.index].into_iter().flatten().map(|pool| pool.reserved_bytes).sum();
    assert!(reserved <= MEMORY_BYTES, "{reserved}");
    for n in &acked {
        let value = session.get(&key(*n)).unwrap().unwrap_or_else(|| panic!("{n} was acked and is gone"));
        assert_eq!(stamped::version_of(&value, *n), Ok(1));
    }
    for n in (0..wanted).filter(|n| !acked.contains(n)) {
        assert!(session.get(&key(n)).unwrap().is_none(), "{n} was refused and is there");
    }
    // What was given back can be taken again, by the worker that had it.
    assert!(session.delete(&key(acked[0])).unwrap());
    put_when_grown(&session, &key(acked[0]), &vec![7; bytes]).unwrap();
}

/// A server whose memory is on its way says that it is busy.
fn put_when_grown(session: &Session, key: &[u8], value: &[u8]) -> Result<(), Error> {
    for _ in 0..5 {
        match session.put(key, value) {
            Err(Error::Busy) => {}
            other => return other.map(drop),
        }
    }
    session.put(key, value).map(drop)
}

#[test]
fn turned_over_ten_times_memory_still_takes_everything() {
    let server = server();
    let client = server.client();
    let session = client.session().unwrap();
    let held_bytes = MEMORY_BYTES / 3;
    let turnover = MEMORY_BYTES * rounds(2, 10);
    let (mut held, mut there, mut written, mut n) = (VecDeque::new(), 0, 0, 0_u64);
    let mut segments = Vec::new();
    while written < turnover {
        let bytes = 16 + (stamped::mixed(n, 5) % [200, 2_000, 20_000, 60_000][n as usize % 4]) as usize;
        put_when_grown(&session, &key(n), &stamped::stamp(n, 1, bytes))
            .unwrap_or_else(|e| panic!("after {written} bytes in {n} keys, {there} of them there: {e}"));
        held.push_back((n, bytes));
        there += bytes as u64;
        written += bytes as u64;
        while there > held_bytes {
            let (old, bytes) = held.pop_front().unwrap();
            assert!(session.delete(&key(old)).unwrap(), "{old} is gone by itself");
            there -= bytes as u64;
        }
        if n % 2000 == 0 {
            segments.push(server.info().segments);
        }
        n += 1;
    }
    let (half, last) = (segments[segments.len() / 2], segments[segments.len() - 1]);
    println!("{n} keys, {written} bytes; segments at half {half}, at the end {last}");
    assert!(last <= half * 11 / 10, "the index grows though the number of keys does not: {segments:?}");
    for (n, _) in held {
        assert_eq!(stamped::version_of(&session.get(&key(n)).unwrap().unwrap(), n), Ok(1));
    }
}

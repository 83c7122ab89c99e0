//! Workers over shared memory, spoken to in raw requests.
//!
//! What could break: conditions judged wrongly, a duplicate carried out twice, a fenced write let through, a lie in
//! a request that harms somebody else. No client library is in the way: each byte that arrives is this test's.

mod raw;

use kv_server::worker::Command;
use raw::{Client, HOLDER, PATIENCE, Server};
use sidewire_common::fabric::{Event, PortSpec, Verb, WorkId, WorkRequest};
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::lock_word::LockWord;
use sidewire_common::layout::record::{Kind, Version};
use sidewire_common::layout::request::{Condition, HEADER_BYTES, Operation, Request, RequestField, immediate};
use std::time::{Duration, Instant};

#[test]
fn conditions_are_judged_against_what_is_there() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.put(b"k", b"1", Condition::Version(Version::from_raw(9))).outcome, Outcome::NotFound);
    let first = client.put(b"k", b"1", Condition::Absent);
    assert_eq!(first.outcome, Outcome::Done);
    let there = client.put(b"k", b"2", Condition::Absent);
    assert_eq!((there.outcome, there.figures[0]), (Outcome::Exists, first.figures[0]));
    let second = client.put(b"k", b"2", Condition::Version(Version::from_raw(first.figures[0])));
    assert_eq!(second.outcome, Outcome::Done);
    assert!(second.figures[0] > first.figures[0], "versions rise");
    assert_eq!(client.put(b"k", b"3", Condition::Version(Version::from_raw(first.figures[0]))).outcome, Outcome::VersionMismatch);
    let delete = |client: &mut Client| {
        let request = Request::new(Operation::Delete, client.next());
        client.ask(request, b"k", b"").outcome
    };
    assert_eq!(delete(&mut client), Outcome::Done);
    assert_eq!(delete(&mut client), Outcome::NotFound);
    server.stop();
}

#[test]
fn a_sequence_is_carried_out_once_whatever_happens_to_the_connection() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.create(Kind::Counter, b"c").outcome, Outcome::Done);
    let add = Request { argument: 5, ..Request::new(Operation::Add, client.next()) };
    assert_eq!(client.ask(add, b"c", b"").figures[0], 0);
    assert_eq!(client.ask(add, b"c", b"").figures[0], 0, "a duplicate is told the same");
    client.port.close(client.writer);
    client.connect(&server);
    assert_eq!(client.ask(add, b"c", b"").figures[0], 0, "on the next connection too");
    let asked = Request { argument: add.sequence as i64, ..Request::new(Operation::Resolve, client.next()) };
    assert_eq!(client.ask(asked, b"", b"").outcome, Outcome::Done);
    let unseen = client.sequence + 5;
    let asked = Request { argument: unseen as i64, ..Request::new(Operation::Resolve, client.next()) };
    assert_eq!(client.ask(asked, b"", b"").outcome, Outcome::NeverDone);
    let late = Request { argument: 5, ..Request::new(Operation::Add, unseen) };
    assert_eq!(client.ask(late, b"c", b"").outcome, Outcome::NeverDone, "and it stays refused");
    let again = Request { argument: 1, ..Request::new(Operation::Add, client.next()) };
    assert_eq!(client.ask(again, b"c", b"").figures[0], 5);
    server.stop();
}

#[test]
fn cells_are_created_once_and_deleted_through_their_executor() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.create(Kind::Counter, b"c").outcome, Outcome::Done);
    assert_eq!(client.create(Kind::Counter, b"c").outcome, Outcome::Exists);
    let other = client.create(Kind::Lock, b"c");
    assert_eq!((other.outcome, other.detail), (Outcome::WrongKind, Kind::Counter as u8));
    assert_eq!(client.put(b"c", b"value", Condition::None).outcome, Outcome::WrongKind);
    assert_eq!(server.store.cells().in_use(), 1);
    // Pipelined: the delete waits for the executor, and what follows waits parked behind it, in order.
    let delete = Request::new(Operation::Delete, client.next());
    let create = Request { kind: Kind::Counter, ..Request::new(Operation::Put, client.next()) };
    let add = Request { argument: 3, ..Request::new(Operation::Add, client.next()) };
    for request in [delete, create, add] {
        client.send(request, b"c", b"", b"");
    }
    assert_eq!(client.ack(delete.sequence).outcome, Outcome::Done);
    assert_eq!(client.ack(create.sequence).outcome, Outcome::Done);
    assert_eq!(client.ack(add.sequence).figures[0], 0);
    assert_eq!(server.store.cells().in_use(), 1);
    server.stop();
}

#[test]
fn a_fenced_write_needs_the_holders_token() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.create(Kind::Lock, b"{t}lock").outcome, Outcome::Done);
    let cells = server.store.cells();
    let free = LockWord::from_raw(cells.peek(0));
    let held = free.acquired_by(HOLDER).unwrap();
    let mut fenced = |token: u64, lock: &[u8], key: &[u8]| {
        let request = Request { fence_token: token, ..Request::new(Operation::Put, client.next()) };
        let sequence = client.send(request, key, lock, b"v");
        client.ack(sequence)
    };
    assert_eq!(fenced(held.token(), b"{t}lock", b"{t}data").outcome, Outcome::Fenced, "nobody holds it");
    swap(&server, 0, free, held);
    assert_eq!(fenced(held.token(), b"{t}lock", b"{t}data").outcome, Outcome::Done);
    assert_eq!(fenced(held.token() - 1, b"{t}lock", b"{t}data").outcome, Outcome::Fenced);
    assert_eq!(fenced(held.token(), b"{t}none", b"{t}data").outcome, Outcome::Fenced);
    let elsewhere = fenced(held.token(), b"{t}lock", b"data of another shard");
    assert_eq!((elsewhere.outcome, elsewhere.detail), (Outcome::Refused, RequestField::FenceShard as u8));
    let delete = Request::new(Operation::Delete, client.next());
    assert_eq!(client.ask(delete, b"{t}lock", b"").outcome, Outcome::Fenced, "a held lock stays");
    let breaking = Request::new(Operation::BreakLock, client.next());
    assert_eq!(client.ask(breaking, b"{t}lock", b"").figures[0], held.raw());
    assert_eq!(LockWord::from_raw(cells.peek(0)), held.released().unwrap());
    let delete = Request::new(Operation::Delete, client.next());
    assert_eq!(client.ask(delete, b"{t}lock", b"").outcome, Outcome::Done);
    server.stop();
}

/// Changes a cell as a client would: on `shm` the CPU is the executor, through a loopback endpoint.
fn swap(server: &Server, cell: u32, from: LockWord, to: LockWord) {
    let mut port = server.store.fabric().port(PortSpec { name: "swap".into(), completions: 8 }).unwrap();
    let loopback = port.loopback(1).unwrap();
    let verb = Verb::CompareSwap { at: server.store.cells().remote(cell), expect: from.raw(), swap: to.raw() };
    port.post(loopback, &mut vec![WorkRequest { id: WorkId(1), verb }]).unwrap();
    let mut out = Vec::new();
    while port.poll(&mut out) == 0 {}
    assert!(matches!(out[0].event, Event::Done { old, .. } if old == from.raw()));
}

#[test]
fn keys_expire_by_themselves() {
    let server = Server::start();
    let mut client = server.client();
    let request = Request { ttl_ms: 50, ..Request::new(Operation::Put, client.next()) };
    assert_eq!(client.ask(request, b"short", b"v").outcome, Outcome::Done);
    let expire = |client: &mut Client| {
        let request = Request::new(Operation::Expire, client.next());
        client.ask(request, b"short", b"").outcome
    };
    assert_eq!(expire(&mut client), Outcome::Exists);
    let keys = || server.workers.metrics()[0].keys.load(std::sync::atomic::Ordering::Relaxed);
    let deadline = Instant::now() + PATIENCE;
    while keys() != 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(keys(), 0, "deleted without being asked");
    assert_eq!(expire(&mut client), Outcome::NotFound);
    assert_eq!(client.put(b"short", b"2", Condition::Absent).outcome, Outcome::Done);
    server.stop();
}

#[test]
fn a_liar_loses_its_connection_and_nobody_else_anything() {
    let server = Server::start();
    let mut honest = server.client();
    assert_eq!(honest.put(b"k", b"v", Condition::None).outcome, Outcome::Done);
    let good = Request { key_len: 1, value_len: 1, resolved_below: 1, ..Request::new(Operation::Put, 1) };
    let whole = [&good.encode()[..], b"k", b"x"].concat();
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let lies: Vec<(Vec<u8>, u32)> = vec![
        (with(0, 0), immediate(0, 1)),
        (with(2, 9), immediate(0, 1)),
        (with(3, 99), immediate(0, 1)),
        (with(4, 3), immediate(0, 1)),
        (with(5, 4), immediate(0, 1)),
        (with(8, 0), immediate(0, 1)),
        (with(16, 2), immediate(0, 1)),
        (with(54, 1), immediate(0, 1)),
        (with(6, 2), immediate(0, 1)),
        (whole.clone(), immediate(0, 2)),
        (whole.clone(), immediate(1 << 20, 1)),
        (whole[..HEADER_BYTES - 1].to_vec(), immediate(0, 1)),
        (Vec::new(), immediate(0, 1)),
        ([&Request { sequence: 10_000, ..good }.encode()[..], b"kx"].concat(), immediate(0, 10_000)),
    ];
    let refused = || server.workers.metrics()[0].refused.load(std::sync::atomic::Ordering::Relaxed);
    for (n, (bytes, imm)) in lies.into_iter().enumerate() {
        let before = refused();
        let mut liar = server.client();
        liar.write(0, &bytes, imm);
        liar.is_cut_off();
        assert!(refused() > before, "lie {n} is counted");
    }
    let too_long = Request { key_len: 1, value_len: u32::MAX, resolved_below: 1, ..Request::new(Operation::Put, honest.next()) };
    let bytes = [&too_long.encode()[..], b"kx"].concat();
    honest.write(0, &bytes, immediate(0, too_long.sequence));
    let told = honest.ack(too_long.sequence);
    assert_eq!((told.outcome, told.detail, told.figures[1]), (Outcome::Refused, RequestField::ValueLength as u8, 512 << 10));
    assert_eq!(honest.put(b"k", b"v2", Condition::Absent).outcome, Outcome::Exists);
    assert_eq!(server.workers.metrics()[0].keys.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!(!server.workers.any_ended());
    server.stop();
}

#[test]
fn an_expelled_client_is_told_of_nothing_more() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.put(b"k", b"v", Condition::None).outcome, Outcome::Done);
    let (reply, told) = crossbeam::channel::bounded(1);
    server.workers.send(0, Command::Expel { client: client.id, reply }).unwrap();
    told.recv_timeout(PATIENCE).unwrap();
    client.is_cut_off();
    assert_eq!(server.workers.metrics()[0].connections.load(std::sync::atomic::Ordering::Relaxed), 0);
    server.stop();
}

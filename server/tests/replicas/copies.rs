//! What copies hold.

use crate::board::{Cluster, put_soon};
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::{Condition, Operation, Request};
use std::time::Duration;

const KEYS: u32 = 1500;

fn key(n: u32) -> Vec<u8> {
    format!("key-{n}").into_bytes()
}

/// Before a write is acked every copy has it, under the same version.
#[test]
fn an_acked_write_is_in_every_copy() {
    let cluster = Cluster::start(&[1, 1, 2], 3);
    cluster.fill(2);
    cluster.fill(3);
    let mut client = cluster.client(1);
    for n in 0..40 {
        let ack = client.put(&key(n), format!("value {n}").as_bytes(), Condition::None);
        assert_eq!(ack.outcome, Outcome::Done);
        for member in [2, 3] {
            let item = cluster.content(member).remove(&key(n)).expect("the copy has what was acked");
            assert_eq!((item.version.raw(), item.value.unwrap()), (ack.figures[0], format!("value {n}").into_bytes()));
        }
    }
    let request = Request::new(Operation::Delete, client.next());
    assert_eq!(client.ask(request, &key(3), b"").outcome, Outcome::Done);
    assert!(!cluster.content(2).contains_key(&key(3)) && !cluster.content(3).contains_key(&key(3)));
    cluster.stop();
}

/// A copy that begins empty ends up with the same, while keys are written, replaced and deleted.
#[test]
fn a_copy_is_filled_while_writes_go_on() {
    let cluster = Cluster::start(&[1, 2], 2);
    let mut client = cluster.client(1);
    for n in 0..KEYS {
        put_soon(&mut client, &key(n), &vec![n as u8; (n % 700) as usize]);
    }
    assert_eq!(client.create(Kind::Counter, b"count").outcome, Outcome::Done);
    assert_eq!(client.create(Kind::Lock, b"lock").outcome, Outcome::Done);
    std::thread::scope(|scope| {
        scope.spawn(|| cluster.fill(2));
        for n in 0..KEYS {
            client.line = client.sequence + 1;
            match n % 3 {
                0 => drop(put_soon(&mut client, &key(n), b"later")),
                1 => {
                    let request = Request::new(Operation::Delete, client.next());
                    assert_eq!(client.ask(request, &key(n), b"").outcome, Outcome::Done);
                }
                _ => drop(put_soon(&mut client, &key(KEYS + n), b"another")),
            }
        }
    });
    assert_eq!(cluster.content(1).len() as u32, KEYS + 2);
    cluster.same(1, 2);
    cluster.stop();
}

/// A copy that cannot be reached leaves by the map, and writes go on; when it is back it is filled anew.
#[test]
fn a_copy_that_does_not_follow_leaves_and_comes_back() {
    let cluster = Cluster::start(&[1, 1], 2);
    cluster.fill(2);
    let mut client = cluster.client(1);
    assert_eq!(client.put(b"before", b"1", Condition::None).outcome, Outcome::Done);
    // The other server's worker ends: its links break and no new one can be made.
    cluster.board.cut(2, true);
    cluster.servers[1].workers.stop();
    assert_eq!(client.put(b"meanwhile", b"2", Condition::None).outcome, Outcome::Done);
    cluster.until("it has left", |map| map.shards.iter().any(|shard| shard.in_sync.len() == 1));
    cluster.stop();
}

/// A copy is silent: nothing is acked and nothing published before the map says that it has left.
#[test]
fn a_write_waits_until_a_silent_copy_has_left() {
    let cluster = Cluster::start(&[1, 1], 2);
    cluster.fill(2);
    let mut client = cluster.client(1);
    assert_eq!(client.put(b"k", b"1", Condition::None).outcome, Outcome::Done);
    *cluster.board.deaf.lock() = true;
    cluster.board.cut(2, true);
    cluster.servers[1].workers.stop();
    let sequence = client.next();
    client.send(Request::new(Operation::Put, sequence), b"k", b"", b"2");
    client.comes_within(Duration::from_millis(300), |_, _| false);
    assert_eq!(client.acks, [], "a copy does not have it, and is one by the map");
    assert_eq!(cluster.content(1)[&b"k"[..]].value.as_deref(), Some(&b"1"[..]), "what no copy has is not shown");
    *cluster.board.deaf.lock() = false;
    assert_eq!(client.ack(sequence).outcome, Outcome::Done);
    assert_eq!(cluster.content(1)[&b"k"[..]].value.as_deref(), Some(&b"2"[..]));
    cluster.stop();
}

/// A copy that was named before its clock's step were made would keep every shard that it takes over closed meanwhile.
#[test]
fn a_copy_whose_clock_is_behind_is_not_named() {
    let cluster = Cluster::start(&[1, 1], 2);
    let [ahead, behind] = [0, 1].map(|server: usize| &cluster.servers[server].store);
    ahead.hear_clock(ahead.clock_us() + 5_000_000);
    cluster.until("its own step is made", |_| !ahead.clock_is_behind());
    cluster.fill(2);
    assert!(!behind.clock_is_behind());
    assert!(behind.clock_ms() + 500 > ahead.clock_ms(), "{} and {}", behind.clock_ms(), ahead.clock_ms());
    cluster.stop();
}

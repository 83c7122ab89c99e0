//! Primaries come and go.

use crate::board::{Cluster, SEED, put_soon};
use crate::raw::PATIENCE;
use crossbeam::channel::bounded;
use kv_server::worker::{Command, Resolution};
use sidewire_common::cluster::MemberId;
use sidewire_common::id::ClientId;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::lock_word::{LockState, LockWord};
use sidewire_common::layout::record::{Kind, Version};
use sidewire_common::layout::replica_entry::{Entry, What};
use sidewire_common::layout::request::{Condition, Operation, Request};
use std::time::{Duration, Instant};

fn resolve(cluster: &Cluster, member: u32, client: ClientId, sequence: u64, key: &[u8]) -> Resolution {
    let shard = KeyHash::of(key, crate::board::SEED).shard();
    let workers = &cluster.servers[member as usize - 1].workers;
    let (reply, told) = bounded(1);
    workers.send(shard % workers.count(), Command::Resolve { client, session: 1, sequence, shard, reply }).unwrap();
    told.recv_timeout(PATIENCE).unwrap()
}

/// A copy that reigns has every acked write, and can tell how those ended whose client was not answered.
#[test]
fn a_copy_takes_over() {
    let cluster = Cluster::start(&[1, 1], 2);
    let mut client = cluster.client(1);
    // Before there was a copy, and after.
    let early = put_soon(&mut client, b"early", b"0");
    let early_sequence = client.sequence;
    client.line = 1;
    cluster.fill(2);
    let late = client.put(b"late", b"1", Condition::None).figures[0];
    let late_sequence = client.sequence;
    assert_eq!(resolve(&cluster, 2, client.id, late_sequence, b"late").outcome, Outcome::WrongPrimary);
    cluster.bury(1);
    let mut other = cluster.client(2);
    let version = put_soon(&mut other, b"late", b"2");
    assert!(version > late, "versions rise from reign to reign");
    assert_eq!(cluster.content(2)[&b"early"[..]].version.raw(), early);
    for (sequence, key, version) in [(early_sequence, &b"early"[..], early), (late_sequence, b"late", late)] {
        let told = resolve(&cluster, 2, client.id, sequence, key);
        assert_eq!((told.outcome, told.version), (Outcome::Done, version), "{key:?}");
    }
    assert_eq!(resolve(&cluster, 2, client.id, late_sequence + 1, b"late").outcome, Outcome::NeverDone);
    assert_eq!(resolve(&cluster, 2, ClientId(1), 2, b"late").outcome, Outcome::NeverDone);
    cluster.stop();
}

/// A primary that has lost its lease sweeps its clients: they ask another server what became of their writes.
#[test]
fn a_client_that_was_swept_may_still_ask_elsewhere() {
    let cluster = Cluster::start(&[1, 1], 2);
    cluster.fill(2);
    let mut client = cluster.client(1);
    let version = put_soon(&mut client, b"key", b"1");
    let (reply, swept) = bounded(1);
    let workers = &cluster.servers[0].workers;
    workers.send(0, Command::Expel { client: client.id, reply }).unwrap();
    swept.recv_timeout(PATIENCE).unwrap();
    // What the sweep may have told the copy arrives before this.
    put_soon(&mut cluster.client(1), b"key", b"2");
    cluster.bury(1);
    let mut other = cluster.client(2);
    put_soon(&mut other, b"key", b"3");
    let told = resolve(&cluster, 2, client.id, client.sequence, b"key");
    assert_eq!((told.outcome, told.version), (Outcome::Done, version));
    cluster.stop();
}

/// A primary that has not heard of its end publishes and acks nothing once its backup serves another.
#[test]
fn a_primary_of_the_past_acks_nothing() {
    let cluster = Cluster::start(&[1, 1, 1], 2);
    cluster.fill(2);
    let mut client = cluster.client(1);
    assert_eq!(client.put(b"k", b"1", Condition::None).outcome, Outcome::Done);
    // The first server is told nothing more: the map that it has names it.
    let first = cluster.board.hide(1);
    cluster.bury(1);
    cluster.fill(3);
    let mut other = cluster.client(2);
    put_soon(&mut other, b"k", b"2");
    let request = Request::new(Operation::Put, client.next());
    client.send(request, b"k", b"", b"old");
    client.comes_within(Duration::from_millis(300), |_, _| false);
    assert!(!client.acks.iter().any(|ack| ack.outcome == Outcome::Done), "{:?}", client.acks);
    assert_eq!(cluster.content(1)[&b"k"[..]].value.as_deref(), Some(&b"1"[..]), "nothing was published");
    assert_eq!(cluster.content(2)[&b"k"[..]].value.as_deref(), Some(&b"2"[..]));
    drop(first);
    cluster.stop();
}

/// A copy that has told its position to a new primary takes nothing more from the one before: the new one would not know.
#[test]
fn a_copy_takes_nothing_of_a_past_reign_once_it_was_asked() {
    let cluster = Cluster::start(&[1, 1, 1], 1);
    let copy = &cluster.servers[1];
    let shard = KeyHash::of(b"k", SEED).shard();
    let [mut old, mut new] = [1, 3].map(|member| {
        let mut client = copy.client();
        client.connect_as(member, copy);
        client
    });
    let put = |position| Entry { position, version: Version::new(1, position), ..Entry::new(What::Put, shard, 1) };
    assert_eq!(old.tell(Entry::new(What::Clear, shard, 1), b"", b"").outcome, Outcome::Done);
    assert_eq!(old.tell(Entry::new(What::Whole, shard, 1), b"", b"").outcome, Outcome::Done);
    assert_eq!(old.tell(put(1), b"k", b"1").outcome, Outcome::Done);
    let told = new.tell(Entry::new(What::Ask, shard, 2), b"", b"");
    assert_eq!((told.outcome, told.figures[1]), (Outcome::Done, 1));
    let late = old.tell(put(2), b"k", b"2");
    assert_eq!((late.outcome, late.figures[0]), (Outcome::WrongPrimary, 2));
    assert_eq!(cluster.content(2)[&b"k"[..]].value.as_deref(), Some(&b"1"[..]));
    assert_eq!(new.tell(Entry { position: 1, ..Entry::new(What::Adopt, shard, 2) }, b"", b"").outcome, Outcome::Done);
    cluster.stop();
}

/// Counters go on with their exact value, locks with higher tokens and without a holder.
#[test]
fn counters_and_locks_go_on() {
    let cluster = Cluster::start(&[1, 1], 2);
    cluster.fill(2);
    let mut client = cluster.client(1);
    assert_eq!(client.create(Kind::Counter, b"count").outcome, Outcome::Done);
    assert_eq!(client.create(Kind::Lock, b"lock").outcome, Outcome::Done);
    for n in 0..5 {
        let request = Request { argument: 3, ..Request::new(Operation::Add, client.next()) };
        let ack = client.ask(request, b"count", b"");
        assert_eq!((ack.outcome, ack.figures[0]), (Outcome::Done, n * 3));
    }
    let before = LockWord::from_raw(cluster.content(1)[&b"lock"[..]].cell);
    assert_eq!(before.state(), LockState::Free);
    let at_copy = LockWord::from_raw(cluster.content(2)[&b"lock"[..]].cell);
    assert_eq!(at_copy.state(), LockState::Retired, "nobody takes a lock at a copy");
    cluster.bury(1);
    let mut other = cluster.client(2);
    put_soon(&mut other, b"anything", b"");
    let began = Instant::now();
    loop {
        let after = LockWord::from_raw(cluster.content(2)[&b"lock"[..]].cell);
        if after.state() == LockState::Free {
            assert!(after.token() > before.token());
            break;
        }
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(2));
    }
    let request = Request { argument: 1, ..Request::new(Operation::Add, other.next()) };
    let ack = loop {
        let sequence = other.next();
        let ack = other.ask(Request { sequence, ..request }, b"count", b"");
        if !matches!(ack.outcome, Outcome::Busy | Outcome::WrongPrimary) {
            break ack;
        }
    };
    assert_eq!((ack.outcome, ack.figures[0] as i64), (Outcome::Done, 15));
    assert_eq!(cluster.content(2)[&b"count"[..]].cell as i64, 16);
    cluster.stop();
}

/// A shard is handed over to its heir; the former primary sends writers away, and the heir waits for its clients.
#[test]
fn a_shard_is_handed_over() {
    let cluster = Cluster::start(&[1, 1], 1);
    let mut client = cluster.client(1);
    // Nothing else here waits until the shards of these keys are open.
    for of_shard in ["{count}", "{lock}", "{k}"] {
        put_soon(&mut client, of_shard.as_bytes(), b"");
    }
    assert_eq!(client.create(Kind::Counter, b"count").outcome, Outcome::Done);
    let request = Request { argument: 42, ..Request::new(Operation::Add, client.next()) };
    assert_eq!(client.ask(request, b"count", b"").outcome, Outcome::Done);
    assert_eq!(client.create(Kind::Lock, b"lock").outcome, Outcome::Done);
    assert_eq!(client.put(b"k", b"1", Condition::None).outcome, Outcome::Done);
    cluster.fill(2);
    cluster.assign(|shard| shard.heir = Some(MemberId(2)));
    cluster.until("handed over", |map| map.shards.iter().all(|shard| shard.primary() == Some(MemberId(2))));
    assert_eq!(client.put(b"k", b"2", Condition::None).outcome, Outcome::WrongPrimary);
    let mut other = cluster.client(2);
    assert_eq!(
        other.put(b"k", b"2", Condition::None).outcome,
        Outcome::Busy,
        "clients of the former primary may still read there"
    );
    cluster.assign(|shard| shard.waits_for = None);
    put_soon(&mut other, b"k", b"2");
    let content = cluster.content(2);
    assert_eq!(content[&b"count"[..]].cell as i64, 42, "a counter's cell moves with its exact value");
    assert_eq!(LockWord::from_raw(content[&b"lock"[..]].cell).state(), LockState::Free);
    assert_eq!(LockWord::from_raw(cluster.content(1)[&b"lock"[..]].cell).state(), LockState::Retired);
    cluster.stop();
}

/// A hand-over whose heir is lost begins another reign: holders of locks were told that this one was theirs.
#[test]
fn a_hand_over_in_vain_ends_the_reign() {
    let cluster = Cluster::start(&[1, 1], 1);
    let mut client = cluster.client(1);
    put_soon(&mut client, b"{lock}", b"");
    assert_eq!(client.create(Kind::Lock, b"lock").outcome, Outcome::Done);
    assert_eq!(client.create(Kind::Counter, b"{lock}count").outcome, Outcome::Done);
    cluster.fill(2);
    let before = LockWord::from_raw(cluster.content(1)[&b"lock"[..]].cell);
    let of_lock = KeyHash::of(b"lock", crate::board::SEED).shard() as usize;
    let reign = cluster.board.map().shards[of_lock].reign;
    // The heir never says that it has everything.
    cluster.board.cut(2, true);
    cluster.board.break_links(2);
    cluster.assign(|shard| shard.heir = Some(MemberId(2)));
    cluster.until("another reign", |map| {
        let shard = &map.shards[of_lock];
        (shard.reign, shard.primary(), shard.heir) == (reign + 1, Some(MemberId(1)), None)
    });
    let busy = client.put(b"{lock}", b"1", Condition::None).outcome;
    assert_eq!(busy, Outcome::Busy, "clients do not know yet that their guards are over");
    cluster.assign(|shard| shard.waits_for = None);
    put_soon(&mut client, b"{lock}", b"1");
    let content = cluster.content(1);
    let after = LockWord::from_raw(content[&b"lock"[..]].cell);
    assert_eq!(after.state(), LockState::Free);
    assert!(after.token() > before.token(), "{after:?} after {before:?}");
    let request = Request { argument: 1, ..Request::new(Operation::Add, client.next()) };
    assert_eq!(client.ask(request, b"{lock}count", b"").outcome, Outcome::Done);
    cluster.stop();
}

/// Of several copies the one with the longest log reigns, and the others learn what they lack.
#[test]
fn the_longest_log_reigns() {
    let cluster = Cluster::start(&[1, 1, 1], 3);
    cluster.fill(2);
    cluster.fill(3);
    let mut client = cluster.client(1);
    assert_eq!(client.put(b"all", b"1", Condition::None).outcome, Outcome::Done);
    // Only the second server gets the next write: the third one's worker is busy elsewhere for good.
    *cluster.board.deaf.lock() = true;
    cluster.board.cut(3, true);
    cluster.board.break_links(3);
    let request = Request::new(Operation::Put, client.next());
    client.send(request, b"some", b"", b"2");
    let began = Instant::now();
    while !cluster.content(2).contains_key(&b"some"[..]) {
        assert!(began.elapsed() < PATIENCE);
    }
    *cluster.board.deaf.lock() = false;
    cluster.board.cut(3, false);
    // The map names the shorter one.
    cluster.assign(|shard| {
        shard.in_sync = vec![MemberId(3), MemberId(2)];
        shard.reign += 1;
    });
    let shard = KeyHash::of(b"some", crate::board::SEED).shard();
    cluster.until("the longer one reigns", |map| map.shard(shard).primary() == Some(MemberId(2)));
    let mut other = cluster.client(2);
    put_soon(&mut other, b"some", b"3");
    cluster.same(2, 3);
    cluster.stop();
}

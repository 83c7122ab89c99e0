//! What each verb does when all goes well.

use crate::rig::{Rig, assert_quiet, connect, filled, message, port, take};
use sidewire_common::fabric::{Event, PostError, Role, Status, Verb, WorkId, WorkRequest};
use sidewire_common::memory::Buffer;

/// A read could bring too few bytes, bytes of another place, or stop at a packet's edge.
pub fn reads_bring_the_bytes(rig: &mut Rig) {
    let pattern: Vec<u8> = (0..200_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
    rig.heap.0.copy_in(0, &pattern).unwrap();
    let pair = rig.reader();
    for bytes in [0usize, 1, 7, 8, 64, 1000, 1024, 1025, 4096, 65_536] {
        for offset in [0u64, 3, 64, 1023, 100_001] {
            let (status, got) = rig.read(pair.ours, offset, bytes);
            assert_eq!(status, Status::Ok);
            assert_eq!(got, pattern[offset as usize..][..bytes], "{bytes} bytes at {offset}");
        }
    }
    assert_quiet(&mut *rig.there);
}

/// Immediates could come in another order than they were posted, before their bytes, or with a wrong length.
pub fn writes_arrive_with_their_immediates(rig: &mut Rig) {
    let pair = rig.writer(1 << 16);
    let staging = pair.staging.clone().unwrap();
    for (round, bytes) in [1usize, 8, 200, 256, 257, 1024, 5000, 60_000].into_iter().enumerate() {
        let sent: Vec<u8> = (0..bytes).map(|n| (n + round) as u8).collect();
        let mut buffer = filled(&rig.pool, &sent);
        let id = WorkId(1_000 + round as u64);
        let to = staging.remote.at(17, bytes as u64).unwrap();
        let verb = Verb::WriteImm { from: buffer.lend(0..bytes, id), to, imm: 0xfedc_0000 + round as u32 };
        rig.here.post(pair.ours, &mut vec![WorkRequest { id, verb }]).unwrap();
        let [arrived] = take(&mut *rig.there, 1)[..] else { unreachable!() };
        assert_eq!(
            (arrived.endpoint, arrived.event),
            (pair.theirs, Event::Written { imm: 0xfedc_0000 + round as u32, bytes: bytes as u32 })
        );
        let mut got = vec![0; bytes];
        staging.view.copy_out(17, &mut got).unwrap();
        assert_eq!(got, sent);
        let [done] = take(&mut *rig.here, 1)[..] else { unreachable!() };
        assert_eq!(done.event, Event::Done { id, status: Status::Ok, old: 0 });
        buffer.give_back(id);
    }
    // Many more than the receive queue is deep, as many as it is deep at once.
    let mut next = 0u32;
    for _ in 0..10 {
        let mut lent: Vec<Buffer> = Vec::new();
        let mut chain = Vec::new();
        for n in 0..64 {
            let mut buffer = filled(&rig.pool, &[n]);
            let id = rig.id();
            let to = staging.remote.at(u64::from(n), 1).unwrap();
            chain.push(WorkRequest { id, verb: Verb::WriteImm { from: buffer.lend(0..1, id), to, imm: next + u32::from(n) } });
            lent.push(buffer);
        }
        let ids: Vec<WorkId> = chain.iter().map(|r| r.id).collect();
        rig.here.post(pair.ours, &mut chain).unwrap();
        for arrived in take(&mut *rig.there, 64) {
            assert_eq!(arrived.event, Event::Written { imm: next, bytes: 1 });
            next += 1;
        }
        for ((done, id), mut buffer) in take(&mut *rig.here, 64).into_iter().zip(ids).zip(lent) {
            assert_eq!(done.event, Event::Done { id, status: Status::Ok, old: 0 });
            buffer.give_back(id);
        }
    }
}

/// Messages could be cut, swapped, or come into a buffer that is still being read.
pub fn messages_arrive_whole_and_in_order(rig: &mut Rig) {
    let writer = rig.writer(4096);
    let beat = rig.connect(Role::Beat, Role::Beat, 16, 16);
    for bytes in [0usize, 1, 63, 64, 255, 256] {
        let text: Vec<u8> = (0..bytes).map(|n| (n * 7) as u8).collect();
        // An ack from the server to a writer.
        let id = rig.id();
        rig.there.post(writer.theirs, &mut vec![WorkRequest { id, verb: Verb::Send { bytes: &text } }]).unwrap();
        let [arrived] = take(&mut *rig.here, 1)[..] else { unreachable!() };
        assert_eq!(arrived.endpoint, writer.ours);
        assert_eq!(message(&mut *rig.here, &arrived), text);
        assert_eq!(take(&mut *rig.there, 1)[0].event, Event::Done { id, status: Status::Ok, old: 0 });
        // A beat, and its answer.
        let id = rig.id();
        rig.here.post(beat.ours, &mut vec![WorkRequest { id, verb: Verb::Send { bytes: &text } }]).unwrap();
        let [arrived] = take(&mut *rig.there, 1)[..] else { unreachable!() };
        assert_eq!(message(&mut *rig.there, &arrived), text);
        assert_eq!(take(&mut *rig.here, 1)[0].event, Event::Done { id, status: Status::Ok, old: 0 });
    }
    for round in 0..20u8 {
        let texts: Vec<[u8; 2]> = (0..16).map(|n| [round, n]).collect();
        let mut chain: Vec<_> =
            texts.iter().map(|t| WorkRequest { id: WorkId(u64::from(t[1]) + 9_000), verb: Verb::Send { bytes: t } }).collect();
        rig.there.post(beat.theirs, &mut chain).unwrap();
        let arrived = take(&mut *rig.here, 16);
        // Two at once, read in the other order: slots are not a stack.
        let mut got: Vec<_> = arrived.iter().rev().map(|c| message(&mut *rig.here, c)).collect();
        got.reverse();
        assert_eq!(got, texts);
        assert!(rig.here.take_message(beat.ours, 0, &mut [0; 256]).is_err(), "an empty slot gave a message");
        take(&mut *rig.there, 16);
    }
}

/// The old value could be that of another work request, or in the wrong byte order.
pub fn atomics_return_the_value_before(rig: &mut Rig) {
    let pair = rig.reader();
    let cell = rig.cells.1.remote().at(64, 8).unwrap();
    let (_, before) = rig.run(pair.ours, Verb::FetchAdd { at: cell, delta: 0x1122_3344_5566_7788 });
    assert_eq!(before, 0);
    assert_eq!(rig.run(pair.ours, Verb::FetchAdd { at: cell, delta: 5u64.wrapping_neg() }), (Status::Ok, 0x1122_3344_5566_7788));
    let now = 0x1122_3344_5566_7783;
    assert_eq!(rig.run(pair.ours, Verb::CompareSwap { at: cell, expect: 1, swap: 2 }), (Status::Ok, now));
    assert_eq!(rig.run(pair.ours, Verb::CompareSwap { at: cell, expect: now, swap: u64::MAX }), (Status::Ok, now));
    assert_eq!(rig.run(pair.ours, Verb::FetchAdd { at: cell, delta: 2 }), (Status::Ok, u64::MAX));
    assert_eq!(rig.cells.0.load(64), Ok(1));
    // A chain of adds: each old value is that of its own place in the order.
    let mut chain: Vec<_> =
        (0..100).map(|n| WorkRequest { id: WorkId(n), verb: Verb::FetchAdd { at: cell, delta: 1 } }).collect();
    rig.here.post(pair.ours, &mut chain).unwrap();
    assert!(chain.is_empty());
    for (n, done) in take(&mut *rig.here, 100).iter().enumerate() {
        assert_eq!(done.event, Event::Done { id: WorkId(n as u64), status: Status::Ok, old: 1 + n as u64 });
    }
}

/// With only some requests signalled, one could be forgotten, reported twice, or out of order.
pub fn ten_thousand_operations_end_in_order(rig: &mut Rig) {
    const OPERATIONS: u64 = 10_000;
    let pair = rig.reader();
    let cell = rig.cells.1.remote().at(0, 8).unwrap();
    rig.heap.0.copy_in(0, &[0xab; 64]).unwrap();
    let mut in_flight = std::collections::VecDeque::<(WorkId, Option<Buffer>)>::new();
    let (mut posted, mut ended, mut added) = (0u64, 0u64, 0u64);
    let mut completions = Vec::new();
    while ended < OPERATIONS {
        let length = (posted % 37 + 1).min(OPERATIONS - posted) as usize;
        if length > 0 && rig.here.room(pair.ours) >= length {
            let mut chain = Vec::new();
            for _ in 0..length {
                let id = WorkId(posted);
                posted += 1;
                if id.0.is_multiple_of(3) {
                    let mut buffer = rig.pool.take().unwrap();
                    let from = rig.heap.1.remote().at(id.0 % 8, 32).unwrap();
                    chain.push(WorkRequest { id, verb: Verb::Read { into: buffer.lend(0..32, id), from } });
                    in_flight.push_back((id, Some(buffer)));
                } else {
                    chain.push(WorkRequest { id, verb: Verb::FetchAdd { at: cell, delta: 1 } });
                    in_flight.push_back((id, None));
                }
            }
            rig.here.post(pair.ours, &mut chain).unwrap();
        }
        completions.clear();
        rig.here.poll(&mut completions);
        for done in &completions {
            let (expected, buffer) = in_flight.pop_front().expect("more ends than work");
            let Event::Done { id, status: Status::Ok, old } = done.event else { panic!("{done:?}") };
            assert_eq!(id, expected);
            if let Some(mut buffer) = buffer {
                buffer.give_back(id);
                assert_eq!(buffer.bytes()[..32], [0xab; 32]);
            } else {
                assert_eq!(old, added);
                added += 1;
            }
            ended += 1;
        }
    }
    assert_eq!(rig.cells.0.load(0), Ok(added));
    assert_eq!(rig.here.room(pair.ours), 128);
    assert_quiet(&mut *rig.here);
}

/// Adds of two queue pairs and of the server's own loopback could overwrite each other.
pub fn two_clients_and_the_loopback_count_exactly(rig: &mut Rig) {
    const ADDS: u64 = 20_000;
    let cell = rig.cells.1.remote().at(128, 8).unwrap();
    std::thread::scope(|scope| {
        let (client, server) = (&rig.client, &rig.server);
        for _ in 0..2 {
            scope.spawn(move || {
                let (mut here, mut there) = (port(client, 256), port(server, 256));
                let pair = connect(&mut *here, &mut *there, Role::Reader, Role::ReadTarget, 64, 0);
                add(&mut *here, pair.ours, cell, ADDS);
            });
        }
        scope.spawn(move || {
            let mut port = port(server, 256);
            let itself = port.loopback(64).unwrap();
            add(&mut *port, itself, cell, ADDS);
        });
    });
    assert_eq!(rig.cells.0.load(128), Ok(3 * ADDS));
}

fn add(
    port: &mut dyn sidewire_common::fabric::Port,
    endpoint: sidewire_common::fabric::EndpointId,
    at: sidewire_common::fabric::RemoteAddr,
    adds: u64,
) {
    let (mut posted, mut ended) = (0, 0);
    let mut completions = Vec::new();
    while ended < adds {
        let room = (port.room(endpoint) as u64).min(adds - posted).min(16);
        let mut chain: Vec<_> =
            (0..room).map(|n| WorkRequest { id: WorkId(posted + n), verb: Verb::FetchAdd { at, delta: 1 } }).collect();
        posted += room;
        port.post(endpoint, &mut chain).unwrap();
        completions.clear();
        port.poll(&mut completions);
        for done in &completions {
            assert!(matches!(done.event, Event::Done { status: Status::Ok, .. }), "{done:?}");
            ended += 1;
        }
    }
}

/// A refused chain could be posted in part, or lose its buffers.
pub fn what_does_not_fit_or_is_malformed_is_refused_whole(rig: &mut Rig) {
    let pair = rig.reader();
    let writer = rig.writer(4096);
    let cell = rig.cells.1.remote().at(0, 8).unwrap();
    let add = |id| WorkRequest { id: WorkId(id), verb: Verb::FetchAdd { at: cell, delta: 1 } };
    let mut chain: Vec<_> = (0..129).map(add).collect();
    assert_eq!(rig.here.post(pair.ours, &mut chain), Err(PostError::Full { asked: 129, room: 128 }));
    assert_eq!(chain.len(), 129);
    let mut chain = vec![add(0), WorkRequest { id: WorkId(1), verb: Verb::FetchAdd { at: cell.plus(4), delta: 1 } }];
    assert!(matches!(rig.here.post(pair.ours, &mut chain), Err(PostError::Malformed(_))));
    let mut chain = vec![add(0), WorkRequest { id: WorkId(1), verb: Verb::Send { bytes: b"no" } }];
    assert!(matches!(rig.here.post(pair.ours, &mut chain), Err(PostError::Malformed(_))));
    assert!(matches!(rig.here.post(writer.ours, &mut vec![add(0)]), Err(PostError::Malformed(_))));
    let long = [0; 257];
    let mut chain = vec![WorkRequest { id: WorkId(0), verb: Verb::Send { bytes: &long } }];
    assert!(matches!(rig.there.post(writer.theirs, &mut chain), Err(PostError::Malformed(_))));
    assert!(rig.there.post(pair.theirs, &mut vec![add(0)]).is_err(), "a read target posts nothing");
    assert_quiet(&mut *rig.here);
    assert_eq!(rig.cells.0.load(0), Ok(0), "a part of a refused chain was executed");
    assert_eq!(rig.run(pair.ours, Verb::FetchAdd { at: cell, delta: 1 }), (Status::Ok, 0));
}

//! The contract of a fabric, told by one suite for every provider. Everything above it believes what is
//! tested here: each verb, one `Done` for each request in posting order, backpressure without loss, rights,
//! wake-ups, and the end of either side.

mod contract;

use contract::*;
use sidewire_common::fabric::{
    Access, EndpointId, Event, FabricError, PostError, RemoteAddr, Role, Status, Verb, Wake, WorkId, WorkRequest,
};
use sidewire_common::memory::{Buffer, Lent};
use std::time::{Duration, Instant};

/// A read brings the bytes that are there, whatever its length and alignment.
#[test]
fn reads_bring_what_is_there() {
    let rig = Rig::new();
    let region = rig.region(1 << 16, Access::RemoteRead);
    region.fill(|at| (at * 7 + at / 256) as u8);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = readers(&mut *server, &mut *client, DEPTH);
    let mut buffer = rig.buffers(1 << 14, 2).take().unwrap();
    for (offset, bytes) in [(0, 8), (64, 64), (1, 1), (3, 77), (4095, 2), (65_535, 1), (49_152, 16_384), (100, 0)] {
        assert_eq!(read(&mut *client, pair.client, &mut buffer, region.at(offset, bytes), bytes as usize), Status::Ok);
        let expected: Vec<u8> = (offset as usize..(offset + bytes) as usize).map(|at| (at * 7 + at / 256) as u8).collect();
        assert_eq!(&buffer.bytes()[..bytes as usize], &expected[..]);
    }
}

/// Atomics return the value before, wrap, and leave the word alone when the comparison fails.
#[test]
fn atomics_return_the_value_before() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteReadAtomic);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = readers(&mut *server, &mut *client, DEPTH);
    let at = region.at(64, 8);
    let client = &mut *client;
    assert_eq!(run(client, pair.client, Verb::FetchAdd { at, delta: 5 }), (Status::Ok, 0));
    assert_eq!(run(client, pair.client, Verb::FetchAdd { at, delta: u64::MAX }), (Status::Ok, 5));
    assert_eq!(run(client, pair.client, Verb::CompareSwap { at, expect: 4, swap: 9 }), (Status::Ok, 4));
    assert_eq!(run(client, pair.client, Verb::CompareSwap { at, expect: 4, swap: 1 }), (Status::Ok, 9));
    assert_eq!(region.view.load(64), Ok(9));
    assert!(matches!(
        post_one(client, pair.client, 1, Verb::FetchAdd { at: at.plus(4), delta: 1 }),
        Err(PostError::Malformed(_))
    ));
}

/// The server's own executor and the client's are the same.
#[test]
fn loopback_reaches_the_servers_own_regions() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteReadAtomic);
    let mut server = rig.server_port();
    let own = server.loopback(DEPTH).unwrap();
    let at = region.at(8, 8);
    assert_eq!(run(&mut *server, own, Verb::FetchAdd { at, delta: 3 }), (Status::Ok, 0));
    assert_eq!(run(&mut *server, own, Verb::CompareSwap { at, expect: 3, swap: 4 }), (Status::Ok, 3));
    let mut buffer = buffers(&rig.server, 64, 1).take().unwrap();
    assert_eq!(read(&mut *server, own, &mut buffer, at, 8), Status::Ok);
    assert_eq!(buffer.bytes()[0], 4);
    // The server's own executor grants no more than it grants to others.
    let heap = rig.region(4096, Access::RemoteRead);
    assert_eq!(run(&mut *server, own, Verb::FetchAdd { at: heap.at(0, 8), delta: 3 }).0, Status::RemoteAccess);
    assert_eq!(heap.view.load(0), Ok(0));
}

/// A write with an immediate: the server gets the immediate, and by then the bytes are there.
#[test]
fn an_immediate_announces_bytes_that_are_there() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = writers(&mut *server, &mut *client, DEPTH);
    let view = pair.staging.as_ref().unwrap().view.clone();
    let mut buffer = rig.buffers(4096, 1).take().unwrap();
    for round in 0..200u32 {
        let (offset, bytes) = (u64::from(round) * 64 % 32_768, 1 + round as usize * 20);
        buffer.bytes_mut().fill(round as u8);
        let from = buffer.lend(0..bytes, WorkId(1));
        let verb = Verb::WriteImm { from, to: pair.staging(offset, bytes as u64), imm: round ^ 0xdead_0000 };
        post_one(&mut *client, pair.client, 1, verb).unwrap();
        let arrived = poll_count(&mut *server, 1);
        assert_eq!(arrived[0].endpoint, pair.server);
        assert_eq!(arrived[0].event, Event::Written { imm: round ^ 0xdead_0000, bytes: bytes as u32 });
        let mut into = vec![0; bytes];
        view.copy_out(offset as usize, &mut into).unwrap();
        assert!(into.iter().all(|&byte| byte == round as u8));
        assert_eq!(dones(&poll_count(&mut *client, 1)), [(1, Status::Ok, 0)]);
        buffer.give_back(WorkId(1));
    }
}

/// Servers write to each other: a server's port reaches another server's ring, and sleeps for its answer.
#[test]
fn a_server_writes_to_another_server() {
    let (rig, other) = (Rig::new(), Rig::new());
    let (mut backup, mut primary) = (rig.server_port(), other.server_port());
    let pair = writers(&mut *backup, &mut *primary, DEPTH);
    let mut buffer = buffers(&other.server, 256, 1).take().unwrap();
    for round in 0..50u8 {
        buffer.bytes_mut().fill(round);
        let verb = Verb::WriteImm { from: buffer.lend(0..256, WorkId(1)), to: pair.staging(0, 256), imm: round.into() };
        post_one(&mut *primary, pair.client, 1, verb).unwrap();
        assert_eq!(poll_count(&mut *backup, 1)[0].event, Event::Written { imm: round.into(), bytes: 256 });
        assert_eq!(dones(&poll_count(&mut *primary, 1)), [(1, Status::Ok, 0)]);
        buffer.give_back(WorkId(1));
        assert_eq!(run(&mut *backup, pair.server, Verb::Send { bytes: &[round] }).0, Status::Ok);
        assert_eq!(primary.sleep(PATIENCE).unwrap(), Wake::Ready);
        assert_eq!(take_message(&mut *primary, pair.client), [round]);
    }
}

/// Messages of every length go both ways, in order.
#[test]
fn messages_go_both_ways() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = beats(&mut *server, &mut *client, 16);
    for round in 0..100usize {
        let message = vec![round as u8; (round * 37) % 257];
        assert_eq!(run(&mut *client, pair.client, Verb::Send { bytes: &message }).0, Status::Ok);
        assert_eq!(take_message(&mut *server, pair.server), message);
        assert_eq!(run(&mut *server, pair.server, Verb::Send { bytes: &message }).0, Status::Ok);
        assert_eq!(take_message(&mut *client, pair.client), message);
    }
    let long = [0; 257];
    assert!(matches!(post_one(&mut *client, pair.client, 1, Verb::Send { bytes: &long }), Err(PostError::Malformed(_))));
}

/// A chain is done whole and in order, one `Done` for each of its requests.
#[test]
fn a_chain_is_done_in_order_each_request_once() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteReadAtomic);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = readers(&mut *server, &mut *client, DEPTH);
    let pool = rig.buffers(64, DEPTH as usize);
    let mut held: Vec<_> = (0..10).map(|_| pool.take().unwrap()).collect();
    let mut next = 0;
    for _ in 0..50 {
        let mut chain = Vec::new();
        for (index, buffer) in held.iter_mut().enumerate() {
            let id = WorkId(next + chain.len() as u64);
            let at = region.at(8 * index as u64, 8);
            let into: Lent = buffer.lend(0..8, id);
            chain.push(WorkRequest { id, verb: Verb::Read { into, from: at } });
            chain.push(WorkRequest { id: WorkId(id.0 + 1), verb: Verb::FetchAdd { at: region.at(256, 8), delta: 1 } });
        }
        let count = chain.len();
        client.post(pair.client, &mut chain).unwrap();
        assert!(chain.is_empty());
        let done = dones(&poll_count(&mut *client, count));
        for (index, (id, status, _)) in done.iter().enumerate() {
            assert_eq!((*id, *status), (next + index as u64, Status::Ok));
        }
        for (index, buffer) in held.iter_mut().enumerate() {
            buffer.give_back(WorkId(next + 2 * index as u64));
        }
        next += count as u64;
    }
    assert_eq!(region.view.load(256), Ok(500));
}

/// Bursts and silence: every entry of every burst arrives, though both sides sleep whenever they can.
#[test]
fn no_wake_up_is_lost_between_sleepers() {
    const BURSTS: u32 = 200;
    const BURST: u32 = 1_000;
    let rig = Rig::new();
    let bursts = if on_verbs() { 5 } else { BURSTS };
    let (info_to_client, info_of_server) = std::sync::mpsc::channel();
    let (info_to_server, info_of_client) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let rig = &rig;
        scope.spawn(move || {
            let mut port = rig.server_port();
            let opened = port.open(&spec(Role::WriteTarget { staging_bytes: STAGING_BYTES }, DEPTH)).unwrap();
            info_to_client.send((opened.info, opened.staging.unwrap().remote)).unwrap();
            port.connect(opened.endpoint, &info_of_client.recv().unwrap()).unwrap();
            let (mut expected, mut answered, mut out) = (0, 0, Vec::new());
            while expected < bursts * BURST {
                if port.poll(&mut out) == 0 {
                    assert_ne!(port.sleep(PATIENCE).unwrap(), Wake::TimedOut, "asleep at {expected}");
                }
                for completion in out.drain(..) {
                    match completion.event {
                        Event::Written { imm, bytes: 8 } => {
                            assert_eq!(imm, expected);
                            expected += 1;
                        }
                        Event::Done { status, .. } => assert_eq!(status, Status::Ok),
                        other => panic!("{other:?}"),
                    }
                }
                if expected % BURST == 0 && expected > answered {
                    answered = expected;
                    post_one(&mut *port, opened.endpoint, 1, Verb::Send { bytes: &expected.to_le_bytes() }).unwrap();
                }
            }
            // Its end must not be a hang-up before the client has its last message.
            let _ = info_of_client.recv();
        });
        let mut port = rig.client_port();
        let opened = port.open(&spec(Role::Writer, DEPTH)).unwrap();
        let (info, staging) = info_of_server.recv().unwrap();
        info_to_server.send(opened.info).unwrap();
        port.connect(opened.endpoint, &info).unwrap();
        let mut buffer = rig.buffers(64, 1).take().unwrap();
        let (mut out, mut acked) = (Vec::new(), 0);
        for imm in 0..bursts * BURST {
            loop {
                let verb = Verb::WriteImm { from: buffer.lend(0..8, WorkId(1)), to: staging.at(0, 8).unwrap(), imm };
                let posted = post_one(&mut *port, opened.endpoint, 1, verb);
                if posted.is_ok() {
                    while !dones(&out).contains(&(1, Status::Ok, 0)) {
                        port.poll(&mut out);
                    }
                    out.retain(|completion| !matches!(completion.event, Event::Done { .. }));
                    buffer.give_back(WorkId(1));
                    break;
                }
                buffer.give_back(WorkId(1));
                assert!(matches!(posted, Err(PostError::Full { .. })));
                if port.poll(&mut out) == 0 {
                    assert_ne!(port.sleep(PATIENCE).unwrap(), Wake::TimedOut, "full at {imm}");
                }
            }
            while (imm + 1) % BURST == 0 && acked < imm + 1 {
                if port.poll(&mut out) == 0 && out.is_empty() {
                    assert_ne!(port.sleep(PATIENCE).unwrap(), Wake::TimedOut, "no answer after {imm}");
                }
                for completion in out.drain(..) {
                    let Event::Message { slot } = completion.event else { panic!("{completion:?}") };
                    let mut into = [0; 256];
                    assert_eq!(port.take_message(opened.endpoint, slot, &mut into).unwrap(), 4);
                    acked = u32::from_le_bytes(into[..4].try_into().unwrap());
                }
            }
        }
        drop(info_to_server);
    });
}

/// `shm` knows at once when a client has gone, and tells it once.
#[test]
fn a_client_that_leaves_is_reported_once() {
    if on_verbs() {
        return eprintln!("skipped: verbs never knows");
    }
    let rig = Rig::new();
    assert!(rig.client.link_alive() && rig.server.departed().is_empty());
    let Rig { server, client, id } = rig;
    drop(client);
    assert_eq!(soon(|| Some(server.departed()).filter(|gone| !gone.is_empty())), [id]);
    assert!(server.departed().is_empty());
}

/// Posts reads of 8 bytes from `from`, one for each buffer, as one chain with ids from `first`.
fn chain_of_reads(held: &mut [Buffer], first: u64, from: RemoteAddr) -> Vec<WorkRequest<'static>> {
    let request = |(index, buffer): (usize, &mut Buffer)| {
        let id = WorkId(first + index as u64);
        WorkRequest { id, verb: Verb::Read { into: buffer.lend(0..8, id), from } }
    };
    held.iter_mut().enumerate().map(request).collect()
}

fn give_back(held: &mut [Buffer], first: u64) {
    for (index, buffer) in held.iter_mut().enumerate() {
        buffer.give_back(WorkId(first + index as u64));
    }
}

/// More than fits is refused as a whole, and what was accepted before is done all the same.
#[test]
fn full_refuses_the_whole_chain_and_loses_nothing() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteRead);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = readers(&mut *server, &mut *client, 8);
    let pool = rig.buffers(64, 16);
    let mut first: Vec<_> = (0..6).map(|_| pool.take().unwrap()).collect();
    let mut second: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
    assert_eq!(client.room(pair.client), 8);
    let mut chain = chain_of_reads(&mut first, 0, region.at(0, 8));
    client.post(pair.client, &mut chain).unwrap();
    assert_eq!(client.room(pair.client), 2);
    let mut chain = chain_of_reads(&mut second, 10, region.at(0, 8));
    assert_eq!(client.post(pair.client, &mut chain), Err(PostError::Full { asked: 3, room: 2 }));
    assert_eq!(chain.len(), 3);
    assert_eq!(dones(&poll_count(&mut *client, 6)).iter().map(|done| done.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    give_back(&mut first, 0);
    client.post(pair.client, &mut chain).unwrap();
    assert_eq!(dones(&poll_count(&mut *client, 3)), [(10, Status::Ok, 0), (11, Status::Ok, 0), (12, Status::Ok, 0)]);
    assert_eq!(client.room(pair.client), 8);
}

/// A peer that does not receive stops the sender, never loses what it sent.
#[test]
fn a_peer_that_does_not_receive_stops_the_sender() {
    if on_verbs() {
        return eprintln!("skipped: verbs retries until the receiver is ready, and fails then");
    }
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = beats(&mut *server, &mut *client, 8);
    let mut sent = 0u8;
    for round in 0..20 {
        while client.room(pair.client) > 0 {
            post_one(&mut *client, pair.client, 1, Verb::Send { bytes: &[sent] }).unwrap();
            sent += 1;
            poll_count(&mut *client, 1);
        }
        let refused = post_one(&mut *client, pair.client, 1, Verb::Send { bytes: &[0] });
        assert_eq!(refused, Err(PostError::Full { asked: 1, room: 0 }));
        let arrived = poll_count(&mut *server, 8);
        // Slots that were announced are the receiver's until they are taken, even out of order.
        assert_eq!(client.room(pair.client), 0);
        for completion in arrived.iter().take(5).rev() {
            let Event::Message { slot } = completion.event else { panic!("{completion:?}") };
            server.take_message(pair.server, slot, &mut [0; 256]).unwrap();
            assert!(server.take_message(pair.server, slot, &mut [0; 256]).is_err());
        }
        let untaken = arrived.len() - 5;
        assert_eq!(client.room(pair.client), 8 - untaken, "round {round}");
        for completion in arrived.iter().skip(5) {
            let Event::Message { slot } = completion.event else { panic!("{completion:?}") };
            server.take_message(pair.server, slot, &mut [0; 256]).unwrap();
        }
    }
}

/// Every access outside what was granted: refused, the endpoint broken once, all behind it flushed, each
/// request still done exactly once.
#[test]
fn what_was_not_granted_breaks_the_endpoint() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteRead);
    let cells = rig.region(4096, Access::RemoteReadAtomic);
    let ended = rig.region(4096, Access::RemoteRead);
    let ended_at = ended.at(0, 8);
    drop(ended);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let wrong = [
        region.at(4090, 6),
        region.at(4096, 0),
        region.at(0, 8).plus(u64::MAX - 3),
        RemoteAddr { rkey: region.at(0, 0).rkey ^ 0x0100_0000, ..region.at(0, 8) },
        RemoteAddr { rkey: 0, ..region.at(0, 8) },
    ];
    for (round, at) in wrong.into_iter().enumerate() {
        let pair = readers(&mut *server, &mut *client, DEPTH);
        let pool = rig.buffers(64, 4);
        let mut held: Vec<_> = (0..4).map(|_| pool.take().unwrap()).collect();
        let mut chain = chain_of_reads(&mut held, 0, region.at(0, 8));
        let Verb::Read { from, .. } = &mut chain[1].verb else { unreachable!() };
        *from = at;
        client.post(pair.client, &mut chain).unwrap();
        let all = poll_until(&mut *client, |all| dones(all).len() == 4 && all.iter().any(|c| c.event == Event::Broken));
        let statuses: Vec<_> = dones(&all).iter().map(|done| done.1).collect();
        assert_eq!(statuses, [Status::Ok, Status::RemoteAccess, Status::Flushed, Status::Flushed], "round {round}");
        assert_eq!(all.len(), 5, "round {round}");
        give_back(&mut held, 0);
        let mut chain = chain_of_reads(&mut held, 0, region.at(0, 8));
        assert_eq!(client.post(pair.client, &mut chain), Err(PostError::Broken));
        assert_eq!(client.room(pair.client), 0);
        client.close(pair.client);
        server.close(pair.server);
    }
    for at in [region.at(0, 8), cells.at(4096, 0)] {
        let pair = readers(&mut *server, &mut *client, DEPTH);
        let client = &mut *client;
        assert_eq!(run(client, pair.client, Verb::FetchAdd { at, delta: 1 }).0, Status::RemoteAccess);
        client.close(pair.client);
        let pair = readers(&mut *server, client, DEPTH);
        assert_eq!(run(client, pair.client, Verb::CompareSwap { at, expect: 0, swap: 1 }).0, Status::RemoteAccess);
        client.close(pair.client);
    }
    assert_eq!((region.view.load(0), cells.view.load(0)), (Ok(0), Ok(0)));
    // What has ended cannot be had anew; who adopted it earlier is told by no provider alike.
    let fresh = Rig { client: sidewire_common::fabric::open_client(rig.client.info().kind, None, None).unwrap(), ..rig };
    if !on_verbs() {
        fresh.client.link(&fresh.server.admit(fresh.id).unwrap()).unwrap();
        let mut client = fresh.client_port();
        let pair = readers(&mut *server, &mut *client, DEPTH);
        let mut buffer = fresh.buffers(64, 1).take().unwrap();
        assert_eq!(read(&mut *client, pair.client, &mut buffer, ended_at, 8), Status::RemoteAccess);
    }
}

/// A writer reaches its own staging ring and nothing else: not another's, not the heap.
#[test]
fn a_writer_writes_into_its_own_staging_only() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteReadAtomic);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let neighbour = writers(&mut *server, &mut *client, DEPTH);
    let last = STAGING_BYTES as u64;
    for (round, at) in [neighbour.staging(0, 8), region.at(0, 8)].into_iter().enumerate() {
        for imm in [false, true] {
            let pair = writers(&mut *server, &mut *client, DEPTH);
            let mut buffer = rig.buffers(64, 1).take().unwrap();
            buffer.bytes_mut().fill(0xee);
            let from = buffer.lend(0..8, WorkId(77));
            let verb = if imm { Verb::WriteImm { from, to: at, imm: 1 } } else { Verb::Write { from, to: at } };
            assert_eq!(run(&mut *client, pair.client, verb).0, Status::RemoteAccess, "round {round}, imm {imm}");
            buffer.give_back(WorkId(77));
            client.close(pair.client);
        }
    }
    for at in [neighbour.staging(last, 0), neighbour.staging(last - 7, 7), neighbour.staging(0, 0).plus(u64::MAX)] {
        let pair = writers(&mut *server, &mut *client, DEPTH);
        let own = RemoteAddr {
            addr: pair.staging(0, 0).addr.wrapping_add(at.addr.wrapping_sub(neighbour.staging(0, 0).addr)),
            ..pair.staging(0, 0)
        };
        let mut buffer = rig.buffers(64, 1).take().unwrap();
        let from = buffer.lend(0..8, WorkId(77));
        assert_eq!(run(&mut *client, pair.client, Verb::WriteImm { from, to: own, imm: 1 }).0, Status::RemoteAccess);
        buffer.give_back(WorkId(77));
        client.close(pair.client);
    }
    assert_eq!(neighbour.staging.as_ref().unwrap().view.load(0), Ok(0));
    assert_eq!(region.view.load(0), Ok(0));
    let mut arrived = Vec::new();
    server.poll(&mut arrived);
    assert!(!arrived.iter().any(|completion| matches!(completion.event, Event::Written { .. })), "{arrived:?}");
}

/// A role posts its own verbs; the rest is refused before anything is done, and nothing is broken by it.
#[test]
fn a_role_posts_its_own_verbs_only() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteReadAtomic);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let reader = readers(&mut *server, &mut *client, DEPTH);
    let writer = writers(&mut *server, &mut *client, DEPTH);
    let at = region.at(0, 8);
    let malformed = |result| assert!(matches!(result, Err(PostError::Malformed(_))), "{result:?}");
    malformed(post_one(&mut *client, reader.client, 1, Verb::Send { bytes: b"no" }));
    malformed(post_one(&mut *client, writer.client, 1, Verb::Send { bytes: b"no" }));
    malformed(post_one(&mut *client, writer.client, 1, Verb::FetchAdd { at, delta: 1 }));
    malformed(post_one(&mut *server, writer.server, 1, Verb::FetchAdd { at, delta: 1 }));
    assert_eq!(run(&mut *client, reader.client, Verb::FetchAdd { at, delta: 1 }), (Status::Ok, 0));
    let unknown = EndpointId(0xffff_0007);
    assert_eq!(post_one(&mut *client, unknown, 1, Verb::FetchAdd { at, delta: 1 }), Err(PostError::Unknown));
    assert_eq!(client.room(unknown), 0);
    client.close(unknown);
}

/// Closing an endpoint with work in flight: each request is done once, and the name never comes back.
#[test]
fn close_with_open_work_ends_each_request_once() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteRead);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pool = rig.buffers(64, 8);
    let mut held: Vec<_> = (0..8).map(|_| pool.take().unwrap()).collect();
    let mut names = std::collections::HashSet::new();
    for _ in 0..20 {
        let pair = readers(&mut *server, &mut *client, DEPTH);
        assert!(names.insert(pair.client));
        let mut chain = chain_of_reads(&mut held, 0, region.at(0, 8));
        client.post(pair.client, &mut chain).unwrap();
        client.close(pair.client);
        server.close(pair.server);
        let all = poll_count(&mut *client, 8);
        assert_eq!(dones(&all).iter().map(|done| done.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(dones(&all).iter().all(|done| matches!(done.1, Status::Ok | Status::Flushed)));
        give_back(&mut held, 0);
        assert_eq!(client.poll(&mut Vec::new()), 0);
        let mut chain = chain_of_reads(&mut held, 0, region.at(0, 8));
        assert_eq!(client.post(pair.client, &mut chain), Err(PostError::Unknown));
        give_back(&mut held, 0);
    }
}

/// A port takes no more endpoints than its completions allow, and takes them again once some are closed.
#[test]
fn a_port_refuses_what_its_completions_do_not_allow() {
    let rig = Rig::new();
    let mut port = rig.client.port(sidewire_common::fabric::PortSpec { name: "small".into(), completions: 64 }).unwrap();
    let first = port.open(&spec(Role::Reader, 32)).unwrap().endpoint;
    assert!(matches!(port.open(&spec(Role::Reader, 32)), Err(FabricError::Limit { .. })));
    port.close(first);
    port.open(&spec(Role::Reader, 32)).unwrap();
}

/// The waker ends a sleep from another thread, or the next one; a sleep without a reason ends in time.
#[test]
fn a_waker_wakes_and_time_runs_out() {
    let rig = Rig::new();
    let mut port = rig.client_port();
    let waker = port.waker();
    let since = Instant::now();
    assert_eq!(port.sleep(Duration::from_millis(30)).unwrap(), Wake::TimedOut);
    assert!(since.elapsed() >= Duration::from_millis(30));
    waker.wake();
    waker.wake();
    assert_eq!(port.sleep(PATIENCE).unwrap(), Wake::Woken);
    assert_eq!(port.sleep(Duration::ZERO).unwrap(), Wake::TimedOut);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        assert_eq!(port.sleep(PATIENCE).unwrap(), Wake::Woken);
    });
}

/// Completions that wait end a sleep at once.
#[test]
fn a_sleep_sees_what_happened_before() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = beats(&mut *server, &mut *client, 16);
    post_one(&mut *client, pair.client, 1, Verb::Send { bytes: b"before" }).unwrap();
    assert_eq!(server.sleep(PATIENCE).unwrap(), Wake::Ready);
    assert_eq!(client.sleep(PATIENCE).unwrap(), Wake::Ready);
    assert_eq!(take_message(&mut *server, pair.server), b"before");
}

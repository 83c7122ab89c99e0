//! The contract of a fabric, told by one suite for every provider. Everything above it believes what is
//! tested here: each verb, one `Done` for each request in posting order, backpressure without loss, rights,
//! wake-ups, and the end of either side.

mod contract;

use contract::*;
use sidewire_common::fabric::{Access, Event, PostError, Role, Status, Verb, Wake, WorkId, WorkRequest};
use sidewire_common::memory::Lent;

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

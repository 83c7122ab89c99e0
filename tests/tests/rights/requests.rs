//! Nonsense in a client's own ring.

use crate::{fill, is_whole};
use sidewire_common::fabric::{Role, Status, Verb};
use sidewire_common::layout::request::{HEADER_BYTES, Operation, Request, immediate};
use sidewire_tests::intruder::Intruder;
use sidewire_tests::{Server, scale, setting, stamped};
use std::time::Duration;

/// Some bytes that are nearly a request, and an immediate that nearly fits.
fn nonsense(dice: u64) -> (Vec<u8>, u64, u32) {
    let roll = |n: u64| stamped::mixed(dice, n);
    let operation =
        [Operation::Put, Operation::Delete, Operation::Add, Operation::Resolve, Operation::Expire, Operation::BreakLock];
    let request = Request {
        key_len: [0, 1, 17, 4096, 4097, u16::MAX][(roll(1) % 6) as usize],
        value_len: [0, 1, 100, 1 << 19, (1 << 19) + 1, u32::MAX][(roll(2) % 6) as usize],
        fence_token: [0, 0, 0, 1, u64::MAX][(roll(3) % 5) as usize],
        fence_key_len: [0, 0, 0, 9, u16::MAX][(roll(4) % 5) as usize],
        resolved_below: [0, 1, u64::MAX][(roll(5) % 3) as usize],
        ttl_ms: [0, 0, 1, u64::MAX][(roll(6) % 4) as usize],
        argument: [0, 1, i64::MIN, i64::MAX][(roll(7) % 4) as usize],
        ..Request::new(operation[(roll(8) % 6) as usize], [0, 1, 2, u64::MAX][(roll(9) % 4) as usize])
    };
    let mut bytes = request.encode().to_vec();
    if roll(10) % 2 == 0 {
        bytes[(roll(11) % HEADER_BYTES as u64) as usize] = roll(12) as u8;
    }
    bytes.extend((0..roll(13) % 200).map(|n| roll(100 + n) as u8));
    let unit = [0, 1, 100, 1_023, 1_024, (1 << 24) - 1][(roll(14) % 6) as usize];
    let imm = if roll(15) % 4 == 0 { roll(16) as u32 } else { immediate(unit, request.sequence) };
    (bytes, u64::from(unit) * 64, imm)
}

/// A request is hostile input: whatever stands in the ring, only its own connection may suffer.
#[test]
fn nonsense_costs_its_sender_the_connection_and_nobody_else_anything() {
    let lease = setting::patience(Duration::from_secs(20));
    let mut server = Server::builder().lease(lease).args(&["--staging", "64KiB"]).start();
    let client = server.client();
    let session = client.session().unwrap();
    fill(&session);
    let mut intruder = Intruder::at(server.address());
    let (mut writer, mut ring) = intruder.open(Role::Writer).unwrap();
    let (mut lost, mut refused) = (0, 0);
    for round in 0..scale(400) {
        let (bytes, offset, imm) = nonsense(round);
        let there = ring.expect("a writer has a ring");
        // The bytes must land to be read; the immediate may say anything.
        let to = there.base.plus(offset.min(there.bytes - 512));
        let status = intruder.run(writer, &bytes, |from| Verb::WriteImm { from, to, imm });
        assert!(matches!(status, Status::Ok | Status::Flushed | Status::RemoteAccess | Status::Unreachable), "{status:?}");
        let is_broken = status != Status::Ok || intruder.is_broken(writer, Duration::from_millis(10));
        lost += u64::from(is_broken);
        // One that was taken at its word ("all below is resolved") makes all that follows void: a new one in time.
        if is_broken || round % 8 == 7 {
            intruder.close(writer);
            match intruder.open(Role::Writer) {
                Ok(opened) => (writer, ring) = opened,
                // Sessions of a client are bounded, and a client without a beat ends: as somebody else, then.
                Err(_) => {
                    refused += 1;
                    intruder = Intruder::at(server.address());
                    (writer, ring) = intruder.open(Role::Writer).unwrap();
                }
            }
        }
        if round % 50 == 0 {
            session.put(b"meanwhile", &round.to_le_bytes()).unwrap();
        }
    }
    println!("{lost} connections lost, {refused} times refused another");
    assert!(lost > 0, "nothing of all that was noticed");
    assert!(server.runs());
    is_whole(&session);
    assert_eq!(client.stats().reattaches, 0, "nobody else lost anything");
}

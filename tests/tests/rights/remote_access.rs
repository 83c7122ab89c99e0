//! Requests for places that are not the client's to write.

use crate::{fill, is_whole};
use sidewire_common::fabric::{RemoteAddr, Role, Status, Verb};
use sidewire_proto::convert::RegionUse;
use sidewire_tests::intruder::Intruder;
use sidewire_tests::{Server, setting};
use std::time::Duration;

/// Through a fresh writer's endpoint.
fn write(intruder: &mut Intruder, to: RemoteAddr, imm: bool) -> Status {
    let (writer, _) = intruder.open(Role::Writer).unwrap();
    let status = intruder
        .run(writer, &[0xee; 64], |from| if imm { Verb::WriteImm { from, to, imm: 0x100 } } else { Verb::Write { from, to } });
    intruder.close(writer);
    status
}

/// Refused by the peer. The peer's queue pair fails with its refusal, so when that answer is late (a busy machine) the
/// retries find nobody, and the refusal shows as no answer at all. Success is what must never be.
fn is_refusal(status: Status) -> bool {
    matches!(status, Status::RemoteAccess | Status::Unreachable)
}

#[test]
fn no_write_reaches_index_heap_cells_or_anothers_ring() {
    // Intruders send no heartbeats: the lease must outlast them.
    let lease = setting::patience(Duration::from_secs(20));
    let server = Server::builder().lease(lease).args(&["--staging", "64KiB"]).start();
    let client = server.client();
    let session = client.session().unwrap();
    fill(&session);
    let mut victim = Intruder::at(server.address());
    let (victims, ring) = victim.open(Role::Writer).unwrap();
    let ring = ring.expect("a writer has a ring");
    let mut intruder = Intruder::at(server.address());
    for (name, used_for) in [("index", RegionUse::Index), ("heap", RegionUse::Heap), ("cells", RegionUse::Cells)] {
        let region = intruder.attached.regions_for(used_for)[0];
        for imm in [false, true] {
            for offset in [0, 4096, region.bytes - 64] {
                let status = write(&mut intruder, region.base.plus(offset), imm);
                assert!(is_refusal(status), "writing the {name} at {offset}: {status:?}");
            }
        }
    }
    for imm in [false, true] {
        let status = write(&mut intruder, ring.base, imm);
        assert!(is_refusal(status), "writing another's ring: {status:?}");
    }
    is_whole(&session);
    // The victim's own connection took no harm, and its ring is still its own.
    let status = victim.run(victims, &[0; 64], |from| Verb::Write { from, to: ring.base });
    assert_eq!(status, Status::Ok);

    // Neither atomics nor reads beyond a region's end or through a key that was never given out.
    let heap = intruder.attached.regions_for(RegionUse::Heap)[0];
    let index = intruder.attached.regions_for(RegionUse::Index)[0];
    for (name, at) in [("index", index.base), ("heap", heap.base)] {
        let (reader, _) = intruder.open(Role::Reader).unwrap();
        let status = intruder.run(reader, &[0; 8], |_| Verb::FetchAdd { at, delta: 1 });
        assert!(is_refusal(status), "adding to the {name}: {status:?}");
        intruder.close(reader);
        let (reader, _) = intruder.open(Role::Reader).unwrap();
        let status = intruder.run(reader, &[0; 8], |_| Verb::CompareSwap { at, expect: 0, swap: 1 });
        assert!(is_refusal(status), "swapping in the {name}: {status:?}");
        intruder.close(reader);
    }
    let beyond = [
        heap.base.plus(heap.bytes - 32),
        heap.base.plus(u64::MAX - 31),
        RemoteAddr { rkey: heap.base.rkey ^ 0x5a5a, ..heap.base },
    ];
    for (n, from) in beyond.into_iter().chain([ring.base]).enumerate() {
        let (reader, _) = intruder.open(Role::Reader).unwrap();
        let status = intruder.run(reader, &[0; 64], |into| Verb::Read { into, from });
        assert!(is_refusal(status), "reading place {n}: {status:?}");
        intruder.close(reader);
    }
    is_whole(&session);
    assert_eq!(server.info().clients_swept, 0);
}

//! What a peer may not do. `verbs` enforces it by queue pairs, keys and protection domains, `shm` by seals;
//! the tests of the former are here, those of seals are with the provider.

use crate::rig::{Pair, Rig, assert_quiet, filled, take, wait};
use sidewire_common::fabric::{
    Completion, EndpointSpec, Event, FabricError, PeerInfo, PostError, RemoteAddr, Role, Status, Verb, VerbsPeer, WorkId,
    WorkRequest,
};

/// Three requests, of which the first is a violation: it gets the status, the others flush, `Broken` comes once.
fn violate(
    rig: &mut Rig,
    pair: &Pair,
    verb: impl Fn(&mut Rig, WorkId) -> (Verb<'static>, Option<sidewire_common::memory::Buffer>),
) -> Status {
    let mut chain = Vec::new();
    let mut lent = Vec::new();
    for n in 0..3 {
        let id = WorkId(500 + n);
        let (verb, buffer) = verb(rig, id);
        chain.push(WorkRequest { id, verb });
        lent.push((id, buffer));
    }
    rig.here.post(pair.ours, &mut chain).unwrap();
    let all = take(&mut *rig.here, 4);
    let statuses: Vec<Status> =
        all.iter().filter_map(|c| if let Event::Done { status, .. } = c.event { Some(status) } else { None }).collect();
    let ids: Vec<WorkId> =
        all.iter().filter_map(|c| if let Event::Done { id, .. } = c.event { Some(id) } else { None }).collect();
    assert_eq!(ids, [WorkId(500), WorkId(501), WorkId(502)]);
    assert_eq!(statuses[1..], [Status::Flushed, Status::Flushed]);
    assert_eq!(all.iter().filter(|c| c.event == Event::Broken).count(), 1);
    assert_quiet(&mut *rig.here);
    assert_eq!(rig.here.room(pair.ours), 0);
    let cell = rig.cells.1.remote().at(0, 8).unwrap();
    let mut chain = vec![WorkRequest { id: WorkId(1), verb: Verb::FetchAdd { at: cell, delta: 1 } }];
    assert_eq!(rig.here.post(pair.ours, &mut chain), Err(PostError::Broken));
    for (id, buffer) in lent {
        if let Some(mut buffer) = buffer {
            buffer.give_back(id);
        }
    }
    rig.here.close(pair.ours);
    rig.there.close(pair.theirs);
    statuses[0]
}

fn read_of(from: RemoteAddr) -> impl Fn(&mut Rig, WorkId) -> (Verb<'static>, Option<sidewire_common::memory::Buffer>) {
    move |rig, id| {
        let mut buffer = rig.pool.take().unwrap();
        (Verb::Read { into: buffer.lend(0..64, id), from }, Some(buffer))
    }
}

fn write_to(to: RemoteAddr) -> impl Fn(&mut Rig, WorkId) -> (Verb<'static>, Option<sidewire_common::memory::Buffer>) {
    move |rig, id| {
        let mut buffer = filled(&rig.pool, &[0xee; 64]);
        (Verb::WriteImm { from: buffer.lend(0..64, id), to, imm: 1 }, Some(buffer))
    }
}

/// A broken endpoint could take more work, break its neighbours, or stop a new one from working.
pub fn a_wrong_rkey_breaks_the_endpoint_and_a_new_one_works(rig: &mut Rig) {
    let neighbour = rig.reader();
    let base = rig.heap.1.remote().base;
    for wrong in [
        RemoteAddr { addr: base.addr, rkey: base.rkey ^ 0x4000_0000 },
        RemoteAddr { addr: base.addr, rkey: 0 },
        base.plus((1 << 20) - 32),
    ] {
        let pair = rig.reader();
        assert_eq!(violate(rig, &pair, read_of(wrong)), Status::RemoteAccess);
        let again = rig.reader();
        assert_eq!(rig.read(again.ours, 0, 64).0, Status::Ok);
        assert_eq!(rig.read(neighbour.ours, 0, 64).0, Status::Ok);
        rig.here.close(again.ours);
        rig.there.close(again.theirs);
    }
}

/// An rkey and a queue pair could open more than the one is for: heap or cells to writes, staging to reads, one
/// client's staging to another.
#[test]
fn verbs_rights() {
    let Some(mut rig) = Rig::verbs() else { return };
    let rig = &mut rig;
    let heap = rig.heap.1.remote().base;
    let cells = rig.cells.1.remote().base;
    let victim = rig.writer(4096);
    let others = victim.staging.clone().unwrap();
    others.view.copy_in(0, &[7; 64]).unwrap();
    rig.heap.0.copy_in(0, &[8; 64]).unwrap();
    let staging = Role::WriteTarget { staging_bytes: 4096 };

    let pair = rig.connect(Role::Writer, Role::ReadTarget, 64, 64);
    assert_eq!(violate(rig, &pair, write_to(heap)), Status::RemoteAccess, "writing the heap through the read queue pair");
    let pair = rig.connect(Role::Writer, staging, 64, 64);
    assert_eq!(violate(rig, &pair, write_to(heap)), Status::RemoteAccess, "writing the heap through the write queue pair");
    let pair = rig.connect(Role::Writer, staging, 64, 64);
    assert_eq!(violate(rig, &pair, write_to(cells)), Status::RemoteAccess, "writing cells");
    let pair = rig.connect(Role::Writer, staging, 64, 64);
    assert_eq!(violate(rig, &pair, write_to(others.remote.base)), Status::RemoteAccess, "writing another's staging");
    let pair = rig.connect(Role::Reader, staging, 64, 0);
    assert_eq!(violate(rig, &pair, read_of(heap)), Status::RemoteAccess, "reading the heap through the write queue pair");
    let pair = rig.reader();
    assert_eq!(violate(rig, &pair, read_of(others.remote.base)), Status::RemoteAccess, "reading staging");
    let pair = rig.reader();
    let add = move |_: &mut Rig, _| (Verb::FetchAdd { at: heap, delta: 1 }, None);
    assert_eq!(violate(rig, &pair, add), Status::RemoteAccess, "an atomic on the heap");
    let pair = rig.connect(Role::Writer, Role::Reader, 64, 64);
    assert_eq!(violate(rig, &pair, write_to(heap)), Status::RemoteAccess, "writing to a client");

    let mut bytes = [0; 64];
    others.view.copy_out(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 64]);
    rig.heap.0.copy_out(0, &mut bytes).unwrap();
    assert_eq!(bytes, [8; 64]);
    // The victim noticed nothing.
    let mut buffer = filled(&rig.pool, b"mine");
    let verb = Verb::WriteImm { from: buffer.lend(0..4, WorkId(600)), to: others.remote.base, imm: 3 };
    rig.here.post(victim.ours, &mut vec![WorkRequest { id: WorkId(600), verb }]).unwrap();
    let all: Vec<Completion> = wait(&mut *rig.there, |c| c.endpoint == victim.theirs);
    assert_eq!(all.last().unwrap().event, Event::Written { imm: 3, bytes: 4 });
    take(&mut *rig.here, 1);
    buffer.give_back(WorkId(600));
}

/// A write that touches nothing may carry any rkey; its immediate is a claim like any other.
#[test]
fn verbs_greedy_writer() {
    let Some(mut rig) = Rig::verbs() else { return };
    let rig = &mut rig;
    let pair = rig.writer(4096);
    let staging = pair.staging.clone().unwrap();
    // The server does not poll: 64 receives are posted, so the 65th finds none.
    let mut chain = Vec::new();
    let mut buffer = rig.pool.take().unwrap();
    let mut lent = Vec::new();
    for n in 0..64u64 {
        let mut buffer = filled(&rig.pool, &[1]);
        chain.push(WorkRequest {
            id: WorkId(n),
            verb: Verb::WriteImm { from: buffer.lend(0..1, WorkId(n)), to: staging.remote.base, imm: 0 },
        });
        lent.push(buffer);
    }
    rig.here.post(pair.ours, &mut chain).unwrap();
    for (done, mut buffer) in take(&mut *rig.here, 64).into_iter().zip(lent) {
        let Event::Done { id, status: Status::Ok, .. } = done.event else { panic!("{done:?}") };
        buffer.give_back(id);
    }
    let verb = Verb::WriteImm { from: buffer.lend(0..1, WorkId(64)), to: staging.remote.base, imm: 0 };
    rig.here.post(pair.ours, &mut vec![WorkRequest { id: WorkId(64), verb }]).unwrap();
    let all = take(&mut *rig.here, 2);
    assert_eq!(all[0].event, Event::Done { id: WorkId(64), status: Status::ReceiverNotReady, old: 0 });
    assert_eq!(all[1].event, Event::Broken);
    buffer.give_back(WorkId(64));
    // The server still has what was written.
    assert_eq!(take(&mut *rig.there, 64).iter().filter(|c| matches!(c.event, Event::Written { .. })).count(), 64);
}

/// A peer's description could be nonsense; it is refused by the field, and the endpoint can still be connected.
#[test]
fn verbs_peer_is_checked() {
    let Some(mut rig) = Rig::verbs() else { return };
    let spec = EndpointSpec { role: Role::Reader, send_depth: 8, recv_depth: 0 };
    let ours = rig.here.open(&spec).unwrap();
    let theirs = rig.there.open(&EndpointSpec { role: Role::ReadTarget, ..spec }).unwrap();
    let PeerInfo::Verbs(good) = theirs.info else { panic!("not a queue pair") };
    let bad = [
        ("qpn", VerbsPeer { qpn: 0, ..good }),
        ("qpn", VerbsPeer { qpn: 1 << 24, ..good }),
        ("psn", VerbsPeer { psn: u32::MAX, ..good }),
        ("mtu_bytes", VerbsPeer { mtu_bytes: 0, ..good }),
        ("gid", VerbsPeer { gid: [0; 16], ..good }),
        ("responder_depth", VerbsPeer { responder_depth: 0, ..good }),
        ("initiator_depth", VerbsPeer { initiator_depth: 0, ..good }),
    ];
    for (name, peer) in bad {
        let refused = rig.here.connect(ours.endpoint, &PeerInfo::Verbs(peer));
        assert!(matches!(refused, Err(FabricError::Peer { field, .. }) if field == name), "{name}: {refused:?}");
    }
    assert!(rig.here.connect(ours.endpoint, &PeerInfo::Unneeded).is_err());
    assert_eq!(rig.here.room(ours.endpoint), 0);
    rig.there.connect(theirs.endpoint, &ours.info).unwrap();
    rig.here.connect(ours.endpoint, &PeerInfo::Verbs(good)).unwrap();
    assert_eq!(rig.read(ours.endpoint, 0, 8).0, Status::Ok);
}

/// Without a peer an operation could wait for ever (retry count 7 does on Soft-RoCE).
#[test]
fn verbs_absent_peer() {
    let Some(mut rig) = Rig::verbs() else { return };
    let pair = rig.reader();
    rig.there.close(pair.theirs);
    let started = std::time::Instant::now();
    let from = rig.heap.1.remote().base;
    assert_eq!(violate(&mut rig, &pair, read_of(from)), Status::Unreachable);
    println!("a peer that is gone was noticed after {:?}", started.elapsed());
}

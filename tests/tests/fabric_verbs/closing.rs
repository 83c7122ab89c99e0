//! Ending endpoints and ports while work is in flight.

use crate::rig::{Rig, assert_quiet, filled, port};
use sidewire_common::fabric::{EndpointSpec, Event, FabricError, PostError, Role, Status, Verb, WorkId, WorkRequest};
use sidewire_common::memory::Buffer;

/// After a close a request could be reported never or twice, or its buffer written later.
pub fn a_close_ends_all_work_and_gives_the_buffers_back(rig: &mut Rig) {
    rig.heap.0.copy_in(0, &[0x11; 65_536]).unwrap();
    for round in 0..20 {
        let pair = rig.reader();
        let mut lent: Vec<(WorkId, Buffer)> = Vec::new();
        let mut chain = Vec::new();
        for n in 0..100 {
            let id = WorkId(n);
            let mut buffer = filled(&rig.pool, &[0; 65_536]);
            chain.push(WorkRequest { id, verb: Verb::Read { into: buffer.lend(0..65_536, id), from: rig.heap.1.remote().base } });
            lent.push((id, buffer));
        }
        rig.here.post(pair.ours, &mut chain).unwrap();
        if round % 2 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(round));
        }
        rig.here.close(pair.ours);
        let mut completions = Vec::new();
        while rig.here.poll(&mut completions) > 0 {}
        assert_eq!(completions.len(), lent.len(), "after a close the ends of all work are there at once: {completions:?}");
        let mut flushed = 0;
        for (done, (expected, mut buffer)) in completions.iter().zip(lent) {
            let Event::Done { id, status, .. } = done.event else { panic!("{done:?}") };
            assert_eq!((done.endpoint, id), (pair.ours, expected));
            match status {
                Status::Ok => assert_eq!(flushed, 0, "a success after a flush"),
                Status::Flushed => flushed += 1,
                other => panic!("{other:?}"),
            }
            buffer.give_back(id);
            if status == Status::Ok {
                assert!(buffer.bytes().iter().all(|&b| b == 0x11));
            }
            buffer.bytes_mut().fill(0x22);
            assert!(buffer.bytes().iter().all(|&b| b == 0x22), "written after its end");
        }
        assert_eq!(rig.here.room(pair.ours), 0);
        assert_eq!(rig.here.post(pair.ours, &mut vec![]), Err(PostError::Unknown));
        rig.here.close(pair.ours);
        rig.there.close(pair.theirs);
        assert_quiet(&mut *rig.here);
    }
}

/// More could be outstanding than the completion queue holds, and then completions are lost silently.
pub fn an_endpoint_beyond_the_completions_is_refused(rig: &mut Rig) {
    let mut small = port(&rig.client, 100);
    let spec = EndpointSpec { role: Role::Writer, send_depth: 30, recv_depth: 30 };
    let first = small.open(&spec).unwrap();
    assert!(matches!(small.open(&spec), Err(FabricError::Limit { asked: 120, limit: 100, .. })));
    assert!(matches!(small.loopback(64), Err(FabricError::Limit { .. } | FabricError::Unsupported { .. })));
    small.close(first.endpoint);
    let second = small.open(&spec).unwrap();
    assert_ne!(first.endpoint, second.endpoint, "an id was used twice");
}

/// A port that is dropped with open endpoints could leave resources behind; the next ones would then fail.
pub fn a_port_can_be_dropped_at_any_time(rig: &mut Rig) {
    for _ in 0..30 {
        let mut here = port(&rig.client, 1024);
        let mut there = port(&rig.server, 1024);
        let pair = crate::rig::connect(&mut *here, &mut *there, Role::Reader, Role::ReadTarget, 64, 0);
        crate::rig::connect(&mut *here, &mut *there, Role::Writer, Role::WriteTarget { staging_bytes: 65_536 }, 64, 64);
        let cell = rig.cells.1.remote().base;
        let mut chain: Vec<_> =
            (0..64).map(|n| WorkRequest { id: WorkId(n), verb: Verb::FetchAdd { at: cell, delta: 1 } }).collect();
        here.post(pair.ours, &mut chain).unwrap();
        let opened = here.open(&EndpointSpec { role: Role::Beat, send_depth: 4, recv_depth: 4 }).unwrap();
        drop(opened);
    }
}

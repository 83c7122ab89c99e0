//! Sleeping and being woken.

use crate::rig::{Rig, message, port, take};
use sidewire_common::clock::thread_cpu_time;
use sidewire_common::fabric::{Event, Role, Verb, Wake, WorkId, WorkRequest};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A sleep could return at once, never, or for the wrong reason; it could also burn the CPU.
pub fn a_sleeper_wakes_for_completions_wakers_and_time(rig: &mut Rig) {
    let beat = rig.connect(Role::Beat, Role::Beat, 16, 16);
    let (started, cpu) = (Instant::now(), thread_cpu_time());
    while rig.there.sleep(Duration::from_millis(300)).unwrap() != Wake::TimedOut {
        assert!(started.elapsed() < Duration::from_secs(5), "it never sleeps");
    }
    assert!(started.elapsed() >= Duration::from_millis(290));
    let burnt = thread_cpu_time() - cpu;
    assert!(burnt < Duration::from_millis(50), "{burnt:?} of CPU for an idle sleep");

    // A waker that was used before the sleep counts, once.
    rig.there.waker().wake();
    rig.there.waker().wake();
    assert_eq!(rig.there.sleep(Duration::from_secs(5)).unwrap(), Wake::Woken);
    assert_eq!(rig.there.sleep(Duration::from_millis(20)).unwrap(), Wake::TimedOut);
    let waker = rig.there.waker();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        waker.wake();
    });
    let started = Instant::now();
    assert_eq!(rig.there.sleep(Duration::from_secs(5)).unwrap(), Wake::Woken);
    assert!(started.elapsed() < Duration::from_secs(3));
    thread.join().unwrap();

    // A completion that is there already, and one that comes later.
    for _ in 0..3 {
        rig.here.post(beat.ours, &mut vec![WorkRequest { id: WorkId(1), verb: Verb::Send { bytes: b"x" } }]).unwrap();
        take(&mut *rig.here, 1);
        let started = Instant::now();
        let mut all = Vec::new();
        while rig.there.poll(&mut all) == 0 {
            assert_ne!(rig.there.sleep(Duration::from_secs(5)).unwrap(), Wake::TimedOut);
        }
        assert!(started.elapsed() < Duration::from_secs(3));
        message(&mut *rig.there, &all[0]);
    }
}

/// Between the last poll and falling asleep a completion could slip through; both ends would then sleep on.
pub fn no_wake_up_is_lost(rig: &mut Rig) {
    const ROUNDS: u32 = 2_000;
    let (to_server, info_here) = mpsc::channel();
    let (to_client, info_there) = mpsc::channel();
    let play = |port: &mut dyn sidewire_common::fabric::Port, endpoint, serve: bool| {
        let send = |port: &mut dyn sidewire_common::fabric::Port, round: u32| {
            let text = round.to_le_bytes();
            port.post(endpoint, &mut vec![WorkRequest { id: WorkId(u64::from(round)), verb: Verb::Send { bytes: &text } }])
                .unwrap();
        };
        if serve {
            send(port, 0);
        }
        let mut next = 0;
        let mut all = Vec::new();
        let mut ended = 0;
        while next < ROUNDS || ended < ROUNDS {
            all.clear();
            if port.poll(&mut all) == 0 {
                assert_ne!(port.sleep(Duration::from_secs(10)).unwrap(), Wake::TimedOut, "a wake-up was lost in round {next}");
            }
            for completion in &all {
                match completion.event {
                    Event::Message { .. } => {
                        assert_eq!(message(port, completion), next.to_le_bytes());
                        let reply = if serve { next + 1 } else { next };
                        next += 1;
                        if reply < ROUNDS {
                            send(port, reply);
                        }
                    }
                    Event::Done { status, .. } if status.is_ok() => ended += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let (client, server) = (&rig.client, &rig.server);
        let spec = sidewire_common::fabric::EndpointSpec { role: Role::Beat, send_depth: 16, recv_depth: 16 };
        scope.spawn(move || {
            let mut port = port(server, 64);
            let opened = port.open(&spec).unwrap();
            to_client.send(opened.info.clone()).unwrap();
            port.connect(opened.endpoint, &info_here.recv().unwrap()).unwrap();
            to_client.send(opened.info).unwrap();
            play(&mut *port, opened.endpoint, false);
        });
        scope.spawn(move || {
            let mut port = port(client, 64);
            let opened = port.open(&spec).unwrap();
            to_server.send(opened.info.clone()).unwrap();
            let peer = info_there.recv().unwrap();
            port.connect(opened.endpoint, &peer).unwrap();
            info_there.recv().unwrap();
            play(&mut *port, opened.endpoint, true);
        });
    });
}

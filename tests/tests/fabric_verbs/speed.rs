//! Not a benchmark: what one operation costs beside perftest in the same boot, to see a mistake of the data path.

use crate::rig::Rig;
use sidewire_common::fabric::{EndpointId, Event, Port, Verb, WorkId, WorkRequest};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5_000;

/// Median time of one request after the other, polled without sleeping, microseconds.
fn median(
    port: &mut dyn Port,
    endpoint: EndpointId,
    mut verb: impl FnMut(WorkId) -> Verb<'static>,
    mut done: impl FnMut(WorkId),
) -> f64 {
    let mut times = Vec::with_capacity(ROUNDS);
    let (mut chain, mut out) = (Vec::with_capacity(1), Vec::with_capacity(8));
    for round in 0..ROUNDS {
        let id = WorkId(round as u64);
        chain.push(WorkRequest { id, verb: verb(id) });
        let started = Instant::now();
        port.post(endpoint, &mut chain).unwrap();
        out.clear();
        while port.poll(&mut out) == 0 {
            std::hint::spin_loop();
        }
        times.push(started.elapsed());
        assert!(matches!(out[0].event, Event::Done { status, .. } if status.is_ok()));
        done(id);
    }
    times.sort_unstable();
    times[ROUNDS / 2].as_secs_f64() * 1e6
}

#[test]
#[ignore = "prints figures; run it in the lab with --ignored, beside ib_read_lat and ib_atomic_lat"]
fn verbs_cost_of_one() {
    let Some(mut rig) = Rig::verbs() else { return };
    let pair = rig.reader();
    let from = rig.heap.1.remote().base;
    let at = rig.cells.1.remote().base;
    let buffer = std::cell::RefCell::new(rig.pool.take().unwrap());
    for bytes in [64usize, 1024] {
        let read = |id| Verb::Read { into: buffer.borrow_mut().lend(0..bytes, id), from };
        let time = median(&mut *rig.here, pair.ours, read, |id| buffer.borrow_mut().give_back(id));
        println!("read of {bytes} bytes: {time:.1} us");
    }
    let time = median(&mut *rig.here, pair.ours, |_| Verb::FetchAdd { at, delta: 1 }, |_| ());
    println!("fetch and add: {time:.1} us");
    let (mut opening, mut closing) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..20 {
        let started = Instant::now();
        let pair = rig.reader();
        opening += started.elapsed();
        let started = Instant::now();
        rig.here.close(pair.ours);
        rig.there.close(pair.theirs);
        closing += started.elapsed();
    }
    println!("a pair: {:.2} ms to open and connect, {:.2} ms to close", millis(opening) / 20.0, millis(closing) / 20.0);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

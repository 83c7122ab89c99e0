//! Whole phases against a store in a map: what is asked for, checked and counted.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::acked::Acked;
use crate::distribution::{Distribution, Shape};
use crate::failure::FailureKind;
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::mix::{Kind, Mix};
use crate::numbering::Numbering;
use crate::pacer::{Arrival, Pacing};
use crate::progress::Progress;
use crate::target::null::NullTarget;
use crate::ttl::Ttls;
use crate::value;
use crate::value_size::ValueSize;
use crate::workload::Workload;

fn plan(records: u64, present: u64, end: u64, pipeline: usize) -> Plan {
    Plan {
        chooser: KeyChooser::new(Distribution::Zipfian, records, &Shape::default()),
        keys: KeyFormat::new(16, end).expect("it fits"),
        numbering: Numbering::alone(),
        values: ValueSize::constant(64),
        ttls: Ttls::none(),
        verify: true,
        may_miss: false,
        pipeline,
        multi_get: 5,
        counters: 3,
        locks: 2,
        process: (0, 1),
        acked: Arc::new(Acked::new(present, end)),
        feed: None,
    }
}

fn loaded(records: u64, keep: impl Fn(u64) -> u64) -> NullTarget {
    let mut target = NullTarget::default();
    let mut keys = KeyFormat::new(16, records).expect("it fits");
    for record in 0..records {
        let mut bytes = vec![0; 64];
        value::fill(&mut bytes, keep(record), 1);
        target.values.insert(keys.write(record).to_vec(), bytes);
    }
    target
}

fn crew(plan: &Plan, threads: usize, target: impl Fn() -> NullTarget + Clone + Send + 'static) -> Crew {
    Crew::start(plan, threads, move |_| Ok(target())).expect("threads start")
}

fn run(crew: &Crew, limits: Limits, work: &[Work]) -> Measured {
    let order = Order { limits, work: work.to_vec(), pacing: None };
    crew.run(&order, None, &Progress::new("test", &limits)).expect("the phase ends")
}

fn operations(count: u64) -> Limits {
    Limits { operations: Some(count), duration: None }
}

#[test]
fn every_operation_of_the_budget_is_done_once_waited_for_or_in_flight() {
    for pipeline in [1, 4, 32] {
        for name in ["a", "b", "c", "d", "f"] {
            let workload = Workload::open(name, &[]).expect("it is built in");
            let plan = plan(1_000, 1_000, 100_000, pipeline);
            let crew = crew(&plan, 1, || loaded(1_000, |record| record));
            let measured = run(&crew, operations(20_000), &[Work::Mix(workload.mix)]);
            assert_eq!(measured.recorder.failures.total(), 0, "{name}: {:?}", measured.recorder.failures);
            assert_eq!(measured.recorder.operations(), 20_000, "workload {name}, pipeline {pipeline}");
            let reads = measured.recorder.count(Kind::Read) + measured.recorder.count(Kind::Rmw);
            assert_eq!(measured.stats.gets, reads);
            assert_eq!(plan.acked.mark(), 1_000 + measured.recorder.count(Kind::Insert));
        }
    }
}

#[test]
fn threads_share_the_budget_and_begin_together() {
    let plan = plan(100, 100, 100, 1);
    let crew = crew(&plan, 3, || loaded(100, |record| record));
    let measured = run(&crew, operations(10_000), &[Work::Mix(Mix::only(Kind::Read)); 3]);
    assert_eq!(measured.recorder.operations(), 10_000);
    let swept = run(&crew, operations(100), &[Work::Sweep; 3]);
    assert_eq!((swept.recorder.operations(), swept.stats.gets), (100, 100));
}

#[test]
fn a_swapped_and_an_absent_record_are_failures() {
    for pipeline in [1, 4] {
        let plan = plan(100, 101, 101, pipeline);
        let crew = crew(&plan, 1, || loaded(100, |record| if record == 7 { 8 } else { record }));
        let measured = run(&crew, operations(20_000), &[Work::Mix(Mix::only(Kind::Read))]);
        let failures = &measured.recorder.failures;
        assert!(failures.count(FailureKind::Swapped) > 0 && failures.count(FailureKind::Absent) > 0, "{failures:?}");
        assert_eq!(measured.recorder.operations() + failures.total(), 20_000);
    }
}

#[test]
fn a_load_inserts_every_record_once_while_readers_look_on() {
    for pipeline in [1, 4] {
        // Each thread has a map of its own, so the reader gets one that has all.
        let plan = plan(5_000, 0, 5_000, pipeline);
        let crew = crew(&plan, 2, || loaded(5_000, |record| record));
        let measured = run(&crew, Limits::default(), &[Work::Mix(Mix::only(Kind::Insert)), Work::Endless(Mix::only(Kind::Read))]);
        assert_eq!(measured.recorder.count(Kind::Insert), 5_000);
        assert_eq!((plan.acked.mark(), measured.recorder.failures.total()), (5_000, 0));
    }
}

#[test]
fn a_full_store_makes_threads_give_up() {
    for pipeline in [1, 4] {
        let plan = plan(100, 0, 100, pipeline);
        let crew = crew(&plan, 1, NullTarget::broken);
        let measured = run(&crew, Limits::default(), &[Work::Mix(Mix::only(Kind::Insert))]);
        assert_eq!(measured.gave_up.as_deref(), Some("full"));
        assert_eq!((measured.recorder.operations(), plan.acked.mark()), (0, 0));
        assert!(measured.recorder.failures.count(FailureKind::Full) >= 32);
    }
}

#[test]
fn a_duration_ends_a_phase() {
    let plan = plan(100, 100, 100, 1);
    let crew = crew(&plan, 2, || loaded(100, |record| record));
    let limits = Limits { operations: None, duration: Some(Duration::from_millis(300)) };
    let measured = run(&crew, limits, &[Work::Mix(Mix::only(Kind::Read)); 2]);
    assert!(measured.elapsed() < Duration::from_secs(5) && measured.recorder.operations() > 1_000);
}

#[test]
fn every_kind_of_operation_is_carried_out() {
    let shares = Kind::ALL.map(|kind| if kind == Kind::Insert { 0.0 } else { 1.0 });
    let mut plan = plan(1_000, 1_000, 1_000, 1);
    plan.may_miss = true;
    let crew = crew(&plan, 1, || loaded(1_000, |record| record));
    let measured = run(&crew, operations(10_000), &[Work::Mix(Mix::new(shares))]);
    assert_eq!((measured.recorder.failures.total(), measured.recorder.operations()), (0, 10_000));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Insert) {
        assert!(measured.recorder.count(kind) > 1_000, "{}", kind.name());
    }
    // Deleted records are missed until an update brings them back; each multi-get asks for five.
    assert!(measured.recorder.misses > 0);
    let gets =
        measured.recorder.count(Kind::Read) + measured.recorder.count(Kind::Rmw) + 5 * measured.recorder.count(Kind::MultiGet);
    assert_eq!(measured.stats.gets, gets);
}

#[test]
fn a_multi_get_is_judged_record_by_record() {
    let plan = plan(100, 101, 101, 1);
    let crew = crew(&plan, 1, || loaded(100, |record| if record == 7 { 8 } else { record }));
    let measured = run(&crew, operations(20_000), &[Work::Mix(Mix::only(Kind::MultiGet))]);
    let failures = &measured.recorder.failures;
    assert!(failures.count(FailureKind::Swapped) > 0 && failures.count(FailureKind::Absent) > 0, "{failures:?}");
}

#[test]
fn processes_that_insert_take_records_of_their_own() {
    for index in 0..2 {
        let mut plan = plan(100, 100, 1_000, 4);
        plan.numbering = Numbering::shared(100, index, 2);
        plan.process = (index.into(), 2);
        plan.keys = KeyFormat::new(16, 2_000).expect("it fits");
        plan.chooser = KeyChooser::new(Distribution::Latest, 100, &Shape::default());
        let crew = crew(&plan, 1, || loaded(100, |record| record));
        let mix = Workload::open("d", &[]).expect("it is built in").mix;
        // What it inserted it finds again, under the same number.
        let measured = run(&crew, operations(10_000), &[Work::Mix(mix)]);
        assert!(measured.recorder.count(Kind::Insert) > 300);
        assert_eq!(measured.recorder.failures.total(), 0, "{:?}", measured.recorder.failures);
    }
}

/// A store that stalls once must show in the latency of all operations that should have begun meanwhile.
#[test]
fn a_stall_is_in_the_latency_of_all_that_should_have_begun() {
    const STALL: Duration = Duration::from_millis(100);
    for pipeline in [1, 4] {
        let plan = plan(100, 100, 100, pipeline);
        let crew = crew(&plan, 1, || {
            let mut target = loaded(100, |record| record);
            target.stall = Some((50, STALL));
            target
        });
        let limits = operations(1_000);
        let order = Order { limits, work: vec![Work::Mix(Mix::only(Kind::Read))], pacing: None };
        let pacing = Some(Pacing { rate: 5_000.0, arrival: Arrival::Fixed });
        let paced = crew.run(&order.clone().paced(pacing), None, &Progress::new("test", &limits)).expect("the phase ends");
        let slow = |measured: &Measured| {
            let latencies = measured.recorder.histogram(Kind::Read);
            latencies.len() - latencies.count_between(0, STALL.as_nanos() as u64 / 4)
        };
        assert_eq!(paced.recorder.operations(), 1_000);
        // 100 ms at 5,000 a second are 500 operations, of which three quarters waited for more than 25 ms.
        assert!(slow(&paced) > 250, "{} of 1,000", slow(&paced));
        let closed = crew.run(&order, None, &Progress::new("test", &limits)).expect("the phase ends");
        assert!(slow(&closed) <= 10, "{} of 1,000", slow(&closed));
    }
}

/// Not an assertion about time, which a busy machine would break: `--release --nocapture` prints the figure.
#[test]
fn the_generator_s_own_cost_is_printed() {
    for (distribution, name) in [(Distribution::Uniform, "uniform"), (Distribution::Zipfian, "zipfian")] {
        let mut plan = plan(1_000_000, 1_000_000, 1_000_000, 1);
        plan.chooser = KeyChooser::new(distribution, 1_000_000, &Shape::default());
        plan.verify = false;
        let crew = crew(&plan, 1, || NullTarget::fixed(vec![0; 64]));
        let measured = run(&crew, operations(1_000_000), &[Work::Mix(Mix::only(Kind::Read))]);
        let ns = measured.cpu_ns as f64 / measured.recorder.operations() as f64;
        println!("own cost per operation, {name}: {ns:.1} ns");
    }
}

//! A warm Get takes nothing from the allocator, alone or pipelined, nor does a warm pipelined Put.
//!
//! What could break: a list that is made anew for each operation, a key that is copied to the heap, an error text that is
//! made for nothing. The allocator's time, and the locks and calls to the kernel behind it, would be a Get's. Allocations of
//! this thread are counted while the session works.

use allocation_counter::measure;
use sidewire::{Operation, Outcome, Session, WriteOptions};
use sidewire_tests::{Server, stamped};

const KEYS: u64 = 100;
const DEPTH: usize = 16;
const ROUNDS: usize = 50;

fn key(n: u64) -> [u8; 8] {
    (0xa110_0000 + n % KEYS).to_be_bytes()
}

fn filled(server: &Server) -> Session {
    let session = server.client().session().unwrap();
    for n in 0..KEYS {
        session.put(&key(n), &stamped::stamp(n, 1, 100)).unwrap();
    }
    session
}

/// Works once so that everything is there, then counts what is allocated while it works again.
fn allocations(mut work: impl FnMut()) -> u64 {
    work();

    measure(work).count_total
}

/// Keeps operations in flight and gives each outcome to `check`.
fn pipelined<'a>(session: &Session, operation: impl Fn(u64) -> Operation<'a>, check: impl Fn(Outcome)) -> impl FnMut() {
    let mut finished = Vec::with_capacity(2 * DEPTH);
    move || {
        let mut next = 0;
        for _ in 0..ROUNDS {
            for _ in session.in_flight()..DEPTH {
                session.submit(operation(next)).unwrap();
                next += 1;
            }
            session.wait(&mut finished).unwrap();
            finished.drain(..).for_each(|(_, outcome)| check(outcome.unwrap()));
        }
        while session.wait(&mut finished).unwrap() > 0 {
            finished.drain(..).for_each(|(_, outcome)| check(outcome.unwrap()));
        }
    }
}

#[test]
fn warm_operations_allocate_nothing() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1, "what is allocated is counted");
    let server = Server::builder().workers(1).start();
    let session = filled(&server);
    let gets = || (0..KEYS).for_each(|n| assert!(session.get(&key(n)).unwrap().is_some_and(|value| value.len() == 100)));
    assert_eq!(allocations(gets), 0, "Gets");
    assert_eq!(allocations(|| (0..KEYS).for_each(|n| assert!(session.exists(&key(n)).unwrap()))), 0, "exists");
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let is_there = |outcome| assert!(matches!(outcome, Outcome::Value(Some(value)) if value.len() == 100));
    let get = |n: u64| Operation::Get { key: &keys[(n % KEYS) as usize] };
    assert_eq!(allocations(pipelined(&session, get, is_there)), 0, "pipelined Gets");
    let value = stamped::stamp(7, 2, 100);
    let put = |n: u64| Operation::Put { key: &keys[(n % KEYS) as usize], value: &value, options: WriteOptions::new() };
    assert_eq!(
        allocations(pipelined(&session, put, |outcome| assert!(matches!(outcome, Outcome::Write(_))))),
        0,
        "pipelined Puts"
    );
}

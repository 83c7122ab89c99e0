//! Several calls in flight at once.

use crate::calls::{any_value_key, bytes};
use crate::client::Caller;
use rand::Rng;
use sidewire::{Error, Operation, Outcome, WriteOptions};
use sidewire_tests::history::{self, Call, Condition, observed};
use std::collections::HashMap;

const IN_FLIGHT: usize = 8;

/// Submits some calls and takes all their outcomes.
pub fn run(caller: &mut Caller) {
    let mut open = HashMap::new();
    for _ in 0..IN_FLIGHT {
        let (key, stamp) = (any_value_key(caller), caller.stamp());
        let value = bytes(caller, key, stamp);
        let options = WriteOptions::new();
        let name = key.as_bytes();
        let (call, operation) = match caller.random.random_range(0..10) {
            0..5 => (Call::Get { key: key.into() }, Operation::Get { key: name }),
            5..8 => (Call::put(key, stamp), Operation::Put { key: name, value: &value, options }),
            8 => (Call::delete(key, Condition::None), Operation::Delete { key: name, options }),
            _ => (Call::Add { key: "counted".into(), delta: 1 }, Operation::Add { key: b"counted", delta: 1 }),
        };
        let is_delete = matches!(call, Call::Delete { .. });
        let number = caller.begin(call);
        match caller.session.submit(operation) {
            Ok(id) => drop(open.insert(id, (number, key, is_delete))),
            Err(error) => caller.end(number, observed::failed(&error)),
        }
    }
    let mut finished = Vec::new();
    while !open.is_empty() {
        // A failed wait ends no operation; each has its deadline.
        if matches!(caller.session.wait(&mut finished), Ok(0)) {
            break;
        }
        for (id, result) in finished.drain(..) {
            // What a call of before left in flight is none of these.
            let Some((number, key, is_delete)) = open.remove(&id) else { continue };
            caller.end(number, outcome(key, is_delete, &result));
        }
    }
    assert!(open.is_empty(), "operations that never end: {open:?}");
}

fn outcome(key: &str, is_delete: bool, result: &Result<Outcome, Error>) -> history::Outcome {
    match result {
        Err(error) => observed::failed(error),
        Ok(Outcome::Value(None)) => history::Outcome::Absent,
        Ok(Outcome::Value(Some(value))) => observed::bytes(key, value, value.version()),
        Ok(Outcome::Write(write)) if is_delete => observed::deleted(&Ok(*write)),
        Ok(Outcome::Write(write)) => observed::put(&Ok(*write)),
        Ok(Outcome::Sum(sum)) => history::Outcome::Number(*sum),
    }
}

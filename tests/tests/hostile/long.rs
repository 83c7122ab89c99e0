//! Steps of a long value in a wrong order, with lengths that lie, and with handles of others.

use super::requests::Line;
use super::scene::Scene;
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::request::{Operation, Request, immediate};

const KEY: &[u8] = b"kkk";

/// A connection, and the number of its last request.
struct Steps<'a> {
    line: Line<'a>,
    sequence: u64,
}

impl<'a> Steps<'a> {
    fn new(scene: &'a Scene) -> Self {
        Self { line: Line::new(scene), sequence: 0 }
    }

    /// Sends a step; `None` when it cost the connection.
    fn step(&mut self, operation: Operation, argument: u64, value: usize) -> Option<Ack> {
        self.step_of(operation, argument, value, KEY)
    }

    fn step_of(&mut self, operation: Operation, argument: u64, value: usize, key: &[u8]) -> Option<Ack> {
        self.sequence += 1;
        let key = if operation == Operation::Chunk { b"" } else { key };
        let (argument, key_len, value_len) = (argument as i64, key.len() as u16, value as u32);
        let request = Request { argument, key_len, value_len, ..Request::new(operation, self.sequence) };
        let image = [&request.encode()[..], key, &vec![b'v'; value]].concat();
        self.line.write(2, &image, immediate(2, self.sequence));
        let ack = self.line.answer();
        if ack.is_none() {
            self.line.again();
            self.sequence = 0;
        }
        ack
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        let ack = self.step(Operation::Reserve, bytes, 0).expect("an honest step");
        assert_eq!(ack.outcome, Outcome::Done, "{ack:?}");
        ack.figures[0]
    }

    fn outcome(&mut self, operation: Operation, argument: u64, value: usize) -> Option<Outcome> {
        self.step(operation, argument, value).map(|ack| ack.outcome)
    }
}

#[test]
fn steps_of_a_long_value_that_lie() {
    let scene = Scene::new();
    let mut steps = Steps::new(&scene);
    let lost = |steps: &Steps<'_>, cause: &str, of: u64| {
        assert_eq!(scene.refused(cause), of, "{cause} after {}", steps.sequence);
    };
    // More than was reserved, at once and in the end.
    let handle = steps.reserve(100);
    assert_eq!(steps.outcome(Operation::Chunk, handle, 101), None);
    let handle = steps.reserve(100);
    assert_eq!(steps.outcome(Operation::Chunk, handle, 60), Some(Outcome::Done));
    assert_eq!(steps.outcome(Operation::Chunk, handle, 41), None);
    // A commit of what is not there, of none of it, and for another key.
    let handle = steps.reserve(100);
    assert_eq!(steps.outcome(Operation::Chunk, handle, 99), Some(Outcome::Done));
    assert_eq!(steps.outcome(Operation::Commit, handle, 0), None);
    let handle = steps.reserve(100);
    assert_eq!(steps.outcome(Operation::Commit, handle, 0), None);
    lost(&steps, "request.length", 4);
    let handle = steps.reserve(100);
    assert_eq!(steps.outcome(Operation::Chunk, handle, 100), Some(Outcome::Done));
    assert_eq!(steps.step_of(Operation::Commit, handle, 0, b"kkl"), None);
    lost(&steps, "request.argument", 1);
    // Lengths and handles that are none.
    for length in [u64::MAX, 1 << 63, 0] {
        assert_eq!(steps.outcome(Operation::Reserve, length, 0), Some(Outcome::Refused));
    }
    for length in [1 << 40, u64::from(u32::MAX)] {
        assert_eq!(steps.outcome(Operation::Reserve, length, 0), Some(Outcome::Refused));
    }
    for handle in [77, i64::MAX as u64] {
        assert_eq!(steps.outcome(Operation::Chunk, handle, 5), Some(Outcome::Unreserved));
        assert_eq!(steps.outcome(Operation::Commit, handle, 0), Some(Outcome::Unreserved));
    }
    steps.line.intruder.attached.leave().unwrap();
    drop(steps);
    scene.ends_as_it_began();
}

#[test]
fn a_handle_is_its_sessions_own() {
    let scene = Scene::new();
    let (mut one, mut other) = (Steps::new(&scene), Steps::new(&scene));
    let handle = one.reserve(100);
    assert_eq!(one.outcome(Operation::Chunk, handle, 60), Some(Outcome::Done));
    assert_eq!(other.outcome(Operation::Chunk, handle, 40), Some(Outcome::Unreserved));
    assert_eq!(other.outcome(Operation::Commit, handle, 0), Some(Outcome::Unreserved));
    assert_eq!(one.outcome(Operation::Chunk, handle, 40), Some(Outcome::Done));
    assert_eq!(one.outcome(Operation::Commit, handle, 0), Some(Outcome::Done));
    assert_eq!(one.outcome(Operation::Commit, handle, 0), Some(Outcome::Unreserved), "a handle serves once");
    assert_eq!(one.outcome(Operation::Delete, 0, 0), Some(Outcome::Done));
    for steps in [&mut one, &mut other] {
        steps.line.intruder.attached.leave().unwrap();
    }
    drop((one, other));
    scene.ends_as_it_began();
}

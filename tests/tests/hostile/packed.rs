//! Messages of several requests, of which some are not what they should be.

use super::requests::Line;
use super::scene::Scene;
use sidewire_common::fabric::Status;
use sidewire_common::layout::ack::{self, Outcome};
use sidewire_common::layout::packed::{REQUESTS_MAX, next_at};
use sidewire_common::layout::request::{HEADER_BYTES, Operation, Request, immediate};
use sidewire_tests::intruder::Heard;

/// A Put of one key's own value; all keys of a message are in one shard.
fn put(sequence: u64) -> Request {
    Request { key_len: 13, value_len: 100, ..Request::new(Operation::Put, sequence) }
}

/// Lays the requests one behind the other, right but for what `spoil` does to it.
fn laid(requests: &[Request], spoil: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.resize(next_at(bytes.len()), 0);
        bytes.extend(request.encode());
        bytes.extend(format!("{{packed}}-{:04}", request.sequence).bytes());
        bytes.resize(bytes.len() + request.value_len as usize, b'v');
    }
    spoil(&mut bytes);
    bytes
}

impl Line<'_> {
    /// Outcomes by sequence, until there are `count` or the connection is lost; and whether it is.
    fn outcomes(&mut self, count: usize) -> (Vec<(u64, Outcome)>, bool) {
        let mut outcomes = Vec::new();
        while outcomes.len() < count {
            match self.hear() {
                Heard::Message(message) => {
                    outcomes.extend(ack::decode(&message).expect("honest answers").map(|ack| (ack.sequence, ack.outcome)));
                }
                Heard::Broken => return (outcomes, true),
                Heard::Nothing => panic!("neither an answer nor the end, after {outcomes:?}"),
            }
        }
        (outcomes, false)
    }

    /// Sends a message that costs the connection for this cause, on a connection where nothing was sent before.
    fn is_lost_by(&mut self, what: &str, bytes: &[u8], cause: &str) {
        let before = self.scene.refused(cause);
        let status = self.write(2, bytes, immediate(2, 1));
        assert!(
            matches!(status, Status::Ok | Status::Flushed | Status::RemoteAccess | Status::Unreachable),
            "{what}: {status:?}"
        );
        let (outcomes, lost) = self.outcomes(REQUESTS_MAX + 1);
        assert!(lost, "{what}: {outcomes:?}");
        assert_eq!(self.scene.refused(cause), before + 1, "{what}: {cause} was not counted");
        self.again();
    }

    /// Deletes what the requests before the lie may have stored: each was there, and no other.
    fn has_carried_out(&mut self, what: &str, stored: u64, of: u64) {
        let deletes: Vec<_> = (1..=of).map(|n| Request { value_len: 0, operation: Operation::Delete, ..put(n) }).collect();
        let bytes = laid(&deletes, |_| ());
        assert_eq!(self.write(2, &bytes, immediate(2, 1)), Status::Ok);
        let expected: Vec<_> = (1..=of).map(|n| (n, if n <= stored { Outcome::Done } else { Outcome::NotFound })).collect();
        assert_eq!(self.outcomes(of as usize), (expected, false), "{what}");
        self.again();
    }
}

#[test]
fn packed_requests_are_answered_each() {
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let bytes = laid(&[put(1), put(2), put(3)], |_| ());
    assert_eq!(line.write(0, &bytes, immediate(0, 1)), Status::Ok);
    let done: Vec<_> = (1..=3).map(|n| (n, Outcome::Done)).collect();
    assert_eq!(line.outcomes(3), (done.clone(), false));
    // The same again, and one more: what was done is told, and not done again.
    let bytes = laid(&[put(1), put(2), put(3), Request { key_len: 13, ..Request::new(Operation::Delete, 4) }], |_| ());
    assert_eq!(line.write(8, &bytes, immediate(8, 1)), Status::Ok);
    assert_eq!(line.outcomes(4), ([&done[..], &[(4, Outcome::NotFound)]].concat(), false));
    // One that passes a limit does not keep those behind it from being carried out.
    let long = |sequence| Request { ttl_ms: u64::MAX, ..put(sequence) };
    let bytes = laid(&[put(5), long(6), put(7), long(8)], |_| ());
    assert_eq!(line.write(8, &bytes, immediate(8, 5)), Status::Ok);
    let told = [(5, Outcome::Done), (6, Outcome::Refused), (7, Outcome::Done), (8, Outcome::Refused)];
    assert_eq!(line.outcomes(4), (told.to_vec(), false));
    // Its lengths may name more than there is: then nothing lies behind it.
    let wide = laid(&[put(9), put(10), put(11)], |bytes| {
        let second = next_at(HEADER_BYTES + 113);
        bytes[second + 48..second + 52].copy_from_slice(&u32::MAX.to_le_bytes());
    });
    assert_eq!(line.write(8, &wide, immediate(8, 9)), Status::Ok);
    assert_eq!(line.outcomes(2), (vec![(9, Outcome::Done), (10, Outcome::Refused)], false));
    line.again();
    let gone = (1..=9).map(|n| Request { value_len: 0, operation: Operation::Delete, ..put(n) }).collect::<Vec<_>>();
    assert_eq!(line.write(0, &laid(&gone, |_| ()), immediate(0, 1)), Status::Ok);
    let missing = |n| [4, 6, 8].contains(&n);
    let told = (1..=9).map(|n| (n, if missing(n) { Outcome::NotFound } else { Outcome::Done })).collect();
    assert_eq!(line.outcomes(9), (told, false));
    line.intruder.attached.leave().unwrap();
    drop(line);
    scene.ends_as_it_began();
}

#[test]
fn a_lie_costs_the_connection_and_spoils_nothing_before_it() {
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let three = [put(1), put(2), put(3)];
    let second = next_at(HEADER_BYTES + 113);
    let field = |at: usize, field: &'static [u8]| {
        move |bytes: &mut Vec<u8>| bytes[second + at..second + at + field.len()].copy_from_slice(field)
    };
    let lies: [(&str, Vec<u8>, &str, u64); 9] = [
        ("no header", laid(&three, field(0, &[0; 64])), "request.magic", 1),
        ("another version", laid(&three, field(2, &[1])), "request.layout_version", 1),
        ("a sequence twice", laid(&three, field(8, &[1])), "request.sequence", 1),
        ("a sequence left out", laid(&three, field(8, &[3])), "request.sequence", 1),
        ("longer than the message", laid(&three, field(48, &[0, 64, 0, 0])), "request.length", 1),
        ("cut off", laid(&three, |bytes| bytes.truncate(bytes.len() - 1)), "request.length", 2),
        (
            "more than a header behind the last",
            laid(&three, |bytes| bytes.resize(next_at(bytes.len()) + 64, 0)),
            "request.magic",
            3,
        ),
        (
            "less than a header behind the last",
            laid(&three, |bytes| bytes.resize(next_at(bytes.len()) + 63, 0)),
            "request.length",
            3,
        ),
        ("bytes behind the last", laid(&three, |bytes| bytes.push(0)), "request.length", 2),
    ];
    for (what, bytes, cause, stored) in lies {
        line.is_lost_by(what, &bytes, cause);
        line.has_carried_out(what, stored, 3);
    }
    let many: Vec<_> = (1..=REQUESTS_MAX as u64 + 1).map(put).collect();
    line.is_lost_by("more requests than credits", &laid(&many, |_| ()), "request.credits");
    line.has_carried_out("more requests than credits", REQUESTS_MAX as u64, REQUESTS_MAX as u64);
    line.intruder.attached.leave().unwrap();
    drop(line);
    scene.ends_as_it_began();
}

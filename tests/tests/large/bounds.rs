//! What may be reserved at once.

use crate::MIB;
use sidewire_common::fabric::{EndpointId, RemoteRegion, Role, Verb};
use sidewire_common::layout::ack::{self, Ack, Outcome};
use sidewire_common::layout::request::{Operation, Request, immediate};
use sidewire_common::limits::RESERVATIONS_MAX;
use sidewire_tests::intruder::{Heard, Intruder};
use sidewire_tests::{Server, setting};
use std::time::Duration;

/// One write connection, and how many requests it has sent.
struct Line {
    intruder: Intruder,
    writer: EndpointId,
    ring: RemoteRegion,
    sequence: u64,
}

impl Line {
    fn at(server: &Server) -> Self {
        let mut intruder = Intruder::at(server.address());
        let (writer, ring) = intruder.open(Role::Writer).unwrap();
        Self { intruder, writer, ring: ring.unwrap(), sequence: 0 }
    }

    fn reserve(&mut self, bytes: usize) -> Ack {
        self.sequence += 1;
        let request = Request { key_len: 3, argument: bytes as i64, ..Request::new(Operation::Reserve, self.sequence) };
        let mut image = request.encode().to_vec();
        image.extend(b"key");
        let (to, imm) = (self.ring.base, immediate(0, self.sequence));
        assert!(self.intruder.run(self.writer, &image, |from| Verb::WriteImm { from, to, imm }).is_ok());
        match self.intruder.hear(self.writer, setting::patience(Duration::from_secs(5))) {
            Heard::Message(message) => ack::decode(&message).unwrap().next().unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn reservations_are_bounded_by_number_and_by_bytes() {
    let server = Server::builder().memory("64MiB").lease(setting::patience(Duration::from_secs(20))).start();
    let (mut one, mut two) = (Line::at(&server), Line::at(&server));
    for _ in 0..RESERVATIONS_MAX {
        assert_eq!(one.reserve(1000).outcome, Outcome::Done);
    }
    let refused = one.reserve(1000);
    assert_eq!((refused.outcome, refused.figures), (Outcome::Unreserved, [RESERVATIONS_MAX as u64; 2]));
    // A quarter of the memory for all of them together; another session has a number of its own.
    assert_eq!(two.reserve(9 * MIB).outcome, Outcome::Done);
    let refused = two.reserve(9 * MIB);
    assert_eq!(refused.outcome, Outcome::Unreserved);
    assert!(refused.figures[0] > 9 * MIB as u64 && refused.figures[1] == 16 * MIB as u64, "{refused:?}");
    two.intruder.attached.leave().unwrap();
    drop(two);
    assert_eq!(Line::at(&server).reserve(9 * MIB).outcome, Outcome::Done, "what was reserved went with its connection");
}

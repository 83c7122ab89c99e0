//! Requests with each field at each of its edges.

use super::scene::Scene;
use sidewire_common::fabric::{EndpointId, RemoteRegion, Role, Status, Verb};
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_common::layout::ack::{self, Ack, Outcome};
use sidewire_common::layout::counter_cell::{DELTA_MAX, VALUE_MAX};
use sidewire_common::layout::lock_word::TOKEN_MAX;
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::{HEADER_BYTES, Operation, Request, RequestField, immediate};
use sidewire_common::limits::TTL_MS_MAX;
use sidewire_tests::intruder::{Heard, Intruder};
use sidewire_tests::setting;
use std::time::{Duration, Instant};

/// What must become of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The connection is lost, for this cause.
    Lost(&'static str),
    /// It is answered: this field is refused, for this cause.
    Refused(RequestField, &'static str),
    /// It is answered with this outcome.
    Answered(Outcome),
}
use Fate::{Answered, Lost, Refused};

/// One write connection of an intruder.
pub struct Line<'a> {
    pub scene: &'a Scene,
    pub intruder: Intruder,
    pub writer: EndpointId,
    pub ring: RemoteRegion,
}

impl<'a> Line<'a> {
    pub fn new(scene: &'a Scene) -> Self {
        let mut intruder = Intruder::at(scene.address());
        let (writer, ring) = intruder.open(Role::Writer).unwrap();
        Self { scene, intruder, writer, ring: ring.unwrap() }
    }

    /// A new connection in place of one that is lost.
    pub fn again(&mut self) {
        self.intruder.close(self.writer);
        let opened = match self.intruder.open(Role::Writer) {
            Ok(opened) => opened,
            // As many sessions as there may be.
            Err(_) => {
                self.intruder.attached.leave().unwrap();
                self.intruder = Intruder::at(self.scene.address());
                self.intruder.open(Role::Writer).unwrap()
            }
        };
        (self.writer, self.ring) = (opened.0, opened.1.unwrap());
    }

    pub fn write(&mut self, unit: u32, bytes: &[u8], imm: u32) -> Status {
        let to = self.ring.base.plus(u64::from(unit) * 64);
        self.intruder.run(self.writer, bytes, |from| Verb::WriteImm { from, to, imm })
    }

    pub fn answer(&mut self) -> Option<Ack> {
        match self.hear() {
            Heard::Message(message) => {
                let acks: Vec<Ack> = ack::decode(&message).expect("an honest answer").collect();
                assert_eq!(acks.len(), 1, "one request, one answer");
                Some(acks[0])
            }
            Heard::Broken => None,
            Heard::Nothing => panic!("neither an answer nor the end"),
        }
    }

    /// Verbs tell nobody that the peer has closed its end: a write that nothing confirms does.
    pub fn hear(&mut self) -> Heard {
        if !setting::is_verbs() {
            return self.intruder.hear(self.writer, patience());
        }
        let until = Instant::now() + patience();
        loop {
            let heard = self.intruder.hear(self.writer, Duration::from_millis(200));
            if heard != Heard::Nothing || Instant::now() >= until {
                return heard;
            }
            let to = self.ring.base.plus(self.ring.bytes - 64);
            if !self.intruder.run(self.writer, &[0; 8], |from| Verb::Write { from, to }).is_ok() {
                return Heard::Broken;
            }
        }
    }

    fn meets(&mut self, what: &str, fate: Fate) {
        let heard = self.answer();
        match (fate, heard) {
            (Lost(_), None) => {}
            (Refused(field, _), Some(ack)) if ack.outcome == Outcome::Refused => {
                assert_eq!(ack.detail, field as u8, "{what}: {ack:?}")
            }
            (Answered(outcome), Some(ack)) if ack.outcome == outcome => {}
            (fate, heard) => panic!("{what}: {fate:?} was expected, and {heard:?} came"),
        }
        if heard.is_none() {
            self.again();
        }
    }

    /// Sends one request, right but for what `spoil` does to it, on a connection where nothing was sent before.
    fn case(&mut self, what: &str, request: Request, spoil: impl FnOnce(&mut Vec<u8>, &mut u32), fate: Fate) {
        let cause = match fate {
            Lost(cause) | Refused(_, cause) => Some((cause, self.scene.refused(cause))),
            Answered(_) => None,
        };
        let mut bytes = request.encode().to_vec();
        bytes.extend(std::iter::repeat_n(b'k', usize::from(request.key_len)));
        bytes.extend(std::iter::repeat_n(b'l', usize::from(request.fence_key_len)));
        bytes.extend(std::iter::repeat_n(b'v', request.value_len as usize));
        let mut imm = immediate(2, request.sequence);
        spoil(&mut bytes, &mut imm);
        let status = self.write(2, &bytes, imm);
        assert!(
            matches!(status, Status::Ok | Status::Flushed | Status::RemoteAccess | Status::Unreachable),
            "{what}: {status:?}"
        );
        self.meets(what, fate);
        if let Some((cause, before)) = cause {
            assert_eq!(self.scene.refused(cause), before + 1, "{what}: {cause} was not counted");
        }
        if !matches!(fate, Lost(_)) {
            self.again();
        }
    }

    fn field(&mut self, request: Request, at: usize, bytes: &[u8], fate: Fate) {
        let what = format!("{:?} with {bytes:02x?} at {at}", request.operation);
        self.case(&what, request, |all, _| all[at..at + bytes.len()].copy_from_slice(bytes), fate);
    }
}

fn patience() -> Duration {
    setting::patience(Duration::from_secs(5))
}

fn put() -> Request {
    Request { key_len: 3, value_len: 5, ..Request::new(Operation::Put, 1) }
}

#[test]
fn each_field_at_each_edge() {
    use RequestField as Field;
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let u16s = |value: u16| value.to_le_bytes();
    let u32s = |value: u32| value.to_le_bytes();
    let u64s = |value: u64| value.to_le_bytes();
    for magic in [0, 0x5356, u16::MAX] {
        line.field(put(), 0, &u16s(magic), Lost("request.magic"));
    }
    for byte in [0, LAYOUT_VERSION as u8 - 1, LAYOUT_VERSION as u8 + 1, 255] {
        line.field(put(), 2, &[byte], Lost("request.layout_version"));
    }
    for byte in [0, 10, 255] {
        line.field(put(), 3, &[byte], Lost("request.operation"));
    }
    for byte in [3, 255] {
        line.field(put(), 4, &[byte], Lost("request.condition"));
    }
    for byte in [4, 255] {
        line.field(put(), 5, &[byte], Lost("request.kind"));
    }
    for length in [0, 4097, u16::MAX] {
        line.field(put(), 6, &u16s(length), Refused(Field::KeyLength, "request.key_length"));
    }
    for length in [1, 2, 4, 4096] {
        line.field(put(), 6, &u16s(length), Lost("request.length"));
    }
    for sequence in [0, 2, 255, u64::MAX] {
        line.field(put(), 8, &u64s(sequence), Lost("request.sequence"));
    }
    for below in [2, 1 << 40, u64::MAX] {
        line.field(put(), 16, &u64s(below), Lost("request.resolved_below"));
    }
    for version in [1, u64::MAX] {
        line.field(put(), 24, &u64s(version), Lost("request.condition_version"));
    }
    for ttl in [TTL_MS_MAX + 1, u64::MAX] {
        line.field(put(), 32, &u64s(ttl), Refused(Field::Ttl, "request.ttl"));
    }
    for token in [TOKEN_MAX + 1, u64::MAX] {
        line.field(put(), 40, &u64s(token), Lost("request.fence_token"));
    }
    line.field(put(), 40, &u64s(1), Refused(Field::FenceKeyLength, "request.fence_key_length"));
    for length in [(32 << 10) + 1, 64 << 10, u32::MAX] {
        line.field(put(), 48, &u32s(length), Refused(Field::ValueLength, "request.value_length"));
    }
    for length in [0, 4, 6, 32 << 10] {
        line.field(put(), 48, &u32s(length), Lost("request.length"));
    }
    for length in [1, 4097, u16::MAX] {
        line.field(put(), 52, &u16s(length), Refused(Field::FenceKeyLength, "request.fence_key_length"));
    }
    for bytes in [[1, 0], [0, 1], [255, 255]] {
        line.field(put(), 54, &bytes, Lost("request.reserved"));
    }
    let add = Request { key_len: 3, ..Request::new(Operation::Add, 1) };
    for delta in [DELTA_MAX + 1, -DELTA_MAX - 1, i64::MIN, i64::MAX] {
        line.field(add, 56, &delta.to_le_bytes(), Refused(Field::Argument, "request.argument"));
    }
    let create = Request { key_len: 3, kind: Kind::Counter, ..Request::new(Operation::Put, 1) };
    for value in [VALUE_MAX + 1, i64::MIN, i64::MAX] {
        line.field(create, 56, &value.to_le_bytes(), Refused(Field::Argument, "request.argument"));
    }
    // A cell's record has no value of the client's, and no time.
    line.field(create, 48, &u32s(1), Refused(Field::ValueLength, "request.value_length"));
    line.field(create, 32, &u64s(1000), Answered(Outcome::Refused));
    line.intruder.attached.leave().unwrap();
    drop(line);
    scene.ends_as_it_began();
}

#[test]
fn immediates_that_name_what_is_not_there() {
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let units = (line.ring.bytes / 64) as u32;
    for unit in [units, units + 1, (1 << 24) - 1] {
        line.case("a unit outside of the ring", put(), |_, imm| *imm = immediate(unit, 1), Lost("request.ring_unit"));
    }
    line.case(
        "a request that begins in the last unit",
        put(),
        |_, imm| *imm = immediate(units - 1, 1),
        Lost("request.ring_unit"),
    );
    line.case("a unit where nothing was written", put(), |_, imm| *imm = immediate(8, 1), Lost("request.magic"));
    for low in [0, 2, 255] {
        line.case("another sequence", put(), |_, imm| *imm = immediate(2, low), Lost("request.sequence"));
    }
    for length in [1, HEADER_BYTES - 1] {
        line.case("shorter than a header", put(), |bytes, _| bytes.truncate(length), Lost("request.length"));
    }
    line.case("shorter than it says", put(), |bytes, _| bytes.truncate(HEADER_BYTES + 2), Lost("request.length"));
    line.case("longer than it says", put(), |bytes, _| bytes.push(b'v'), Lost("request.length"));
    let full = Request { key_len: 4096, value_len: 32 << 10, ..put() };
    line.case("the longest there is", full, |_, _| {}, Answered(Outcome::Done));
    let clean = Request { key_len: 4096, ..Request::new(Operation::Delete, 1) };
    line.case("and away with it", clean, |_, _| {}, Answered(Outcome::Done));
    for beyond in [257, 1 << 40, u64::MAX] {
        let request = Request { sequence: beyond, ..put() };
        line.case("far above the line", request, |_, _| {}, Lost("request.window"));
        // The same where a field is refused, which would be answered.
        let request = Request { ttl_ms: u64::MAX, ..request };
        line.case("far above the line, and refused", request, |_, _| {}, Lost("request.window"));
    }
    line.intruder.attached.leave().unwrap();
    drop(line);
    scene.ends_as_it_began();
}

/// Well-formed, and not to be had.
#[test]
fn what_names_another_thing_than_it_should() {
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let bare = |operation| Request { key_len: 3, ..Request::new(operation, 1) };
    line.case("a value", put(), |_, _| {}, Answered(Outcome::Done));
    for operation in [Operation::Add, Operation::BreakLock] {
        line.case("a value is no cell", bare(operation), |_, _| {}, Answered(Outcome::WrongKind));
        let missing = |bytes: &mut Vec<u8>, _: &mut u32| bytes[HEADER_BYTES] = b'm';
        line.case("nothing is no cell", bare(operation), missing, Answered(Outcome::NotFound));
    }
    let lock = Request { kind: Kind::Lock, ..bare(Operation::Put) };
    line.case("a lock over a value", lock, |_, _| {}, Answered(Outcome::WrongKind));
    let fenced = |token, fence_key_len| Request { fence_token: token, fence_key_len, ..put() };
    // `{kkk}` names the shard of the key itself, and no lock is there; nor does the key of the value name one.
    let in_shard = |bytes: &mut Vec<u8>, _: &mut u32| bytes[HEADER_BYTES + 3..HEADER_BYTES + 8].copy_from_slice(b"{kkk}");
    line.case("a fence that is not there", fenced(1, 5), in_shard, Answered(Outcome::Fenced));
    let itself = |bytes: &mut Vec<u8>, _: &mut u32| bytes[HEADER_BYTES + 3..HEADER_BYTES + 6].copy_from_slice(b"kkk");
    line.case("a fence that is a value", fenced(TOKEN_MAX, 3), itself, Answered(Outcome::Fenced));
    let elsewhere = Refused(RequestField::FenceShard, "request.fence_shard");
    line.case("a fence of another shard", fenced(1, 9), |_, _| {}, elsewhere);
    for asked in [0, 1, 300, i64::MAX, -1, i64::MIN] {
        let ask = Request { argument: asked, ..Request::new(Operation::Resolve, 2) };
        let outcome = if asked == 0 { Outcome::Forgotten } else { Outcome::NeverDone };
        line.case("after what never was", ask, |_, _| {}, Answered(outcome));
    }
    line.case("and away with it", bare(Operation::Delete), |_, _| {}, Answered(Outcome::Done));
    line.intruder.attached.leave().unwrap();
    drop(line);
    scene.ends_as_it_began();
}

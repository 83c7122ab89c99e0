//! Too much, twice, or changed on the way.

use super::requests::Line;
use super::scene::Scene;
use sidewire_common::fabric::{Role, Status, Verb};
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::{HEADER_BYTES, Operation, Request, immediate};
use sidewire_tests::intruder::Intruder;
use sidewire_tests::{scale, setting, stamped};
use std::time::{Duration, Instant};

fn with_key(request: Request, key: &[u8], value: &[u8]) -> Vec<u8> {
    let request = Request { key_len: key.len() as u16, value_len: value.len() as u32, ..request };
    [&request.encode()[..], key, value].concat()
}

/// A replay is answered again and carried out once; what is below the line is forgotten; a gap is a gap.
#[test]
fn replays_gaps_and_old_lines() {
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let create = Request { kind: Kind::Counter, ..Request::new(Operation::Put, 1) };
    assert_eq!(line.write(0, &with_key(create, b"replayed", b""), immediate(0, 1)), Status::Ok);
    assert_eq!(line.answer().unwrap().outcome, Outcome::Done);
    let add = with_key(Request { argument: 5, ..Request::new(Operation::Add, 2) }, b"replayed", b"");
    let mut answers = Vec::new();
    for _ in 0..20 {
        assert_eq!(line.write(4, &add, immediate(4, 2)), Status::Ok);
        answers.push(line.answer().unwrap());
    }
    assert!(answers.iter().all(|ack| *ack == answers[0]), "the same answer each time: {answers:?}");
    let add = |sequence, resolved_below| {
        with_key(Request { argument: 0, resolved_below, ..Request::new(Operation::Add, sequence) }, b"replayed", b"")
    };
    // Another request under a number that was used is not carried out either.
    assert_eq!(line.write(4, &add(2, 0), immediate(4, 2)), Status::Ok);
    assert_eq!(line.answer(), Some(answers[0]));
    // The far end of the window, then a line that is drawn above all of it.
    assert_eq!(line.write(4, &add(256, 0), immediate(4, 256)), Status::Ok);
    let seen = line.answer().unwrap();
    assert_eq!((seen.outcome, seen.figures[0]), (Outcome::Done, 5), "replays were added");
    assert_eq!(line.write(4, &add(1000, 1000), immediate(4, 1000)), Status::Ok);
    assert_eq!(line.answer().unwrap().outcome, Outcome::Done);
    assert_eq!(line.write(4, &add(257, 0), immediate(4, 257)), Status::Ok);
    assert_eq!(line.answer().unwrap().outcome, Outcome::Forgotten);
    let delete = with_key(Request::new(Operation::Delete, 1001), b"replayed", b"");
    assert_eq!(line.write(4, &delete, immediate(4, 1001)), Status::Ok);
    assert_eq!(line.answer().unwrap().outcome, Outcome::Done);
    line.intruder.attached.leave().unwrap();
    drop(line);
    scene.ends_as_it_began();
}

/// Requests whose answers are never taken: on `shm` they pile up at the server, on verbs nothing receives them.
#[test]
fn answers_that_nobody_takes() {
    let scene = Scene::new();
    for below_the_line in [false, true] {
        let mut line = Line::new(&scene);
        let raise = Request { resolved_below: 5, ..Request::new(Operation::Expire, 5) };
        assert_eq!(line.write(0, &with_key(raise, b"nothing", b""), immediate(0, 5)), Status::Ok);
        line.answer().unwrap();
        let sequence = if below_the_line { 1 } else { 5 };
        let request = with_key(Request::new(Operation::Expire, sequence), b"nothing", b"");
        let counted = scene.refused("request.credits");
        let (until, mut posted) = (Instant::now() + setting::patience(Duration::from_secs(20)), 0u64);
        while !line.intruder.is_lost(line.writer) && Instant::now() < until {
            let to = line.ring.base;
            let imm = immediate(0, sequence);
            posted += u64::from(
                line.intruder.run_unheard(line.writer, &request, |from| Verb::WriteImm { from, to, imm }) == Status::Ok,
            );
        }
        println!("{posted} requests until the connection was lost");
        assert!(line.intruder.is_lost(line.writer), "a greedy client keeps its connection after {posted} requests");
        if !setting::is_verbs() {
            assert_eq!(scene.refused("request.credits"), counted + 1);
        }
        line.intruder.attached.leave().unwrap();
    }
    scene.ends_as_it_began();
}

/// Headers that change while they are looked at, and requests that overlap one that is not finished.
#[test]
fn requests_that_change_on_the_way() {
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let (mut lost, mut answered, mut sequence) = (0, 0, 0);
    for round in 0..scale(300) {
        sequence += 1;
        let (short, long) = (vec![b's'; 30], vec![b'l'; 2000]);
        let request = Request { resolved_below: sequence, ..Request::new(Operation::Put, sequence) };
        let first = with_key(request, b"changing", &long);
        let other = match round % 4 {
            0 => with_key(request, b"changing", &short),
            1 => vec![0xff; HEADER_BYTES],
            // Only the lengths.
            2 => with_key(request, &[b'c'; 4096], &short)[..HEADER_BYTES].to_vec(),
            _ => with_key(Request::new(Operation::Put, sequence + 1), b"changing", &long)[32..].to_vec(),
        };
        let (to, imm) = (line.ring.base, immediate(0, sequence));
        let over = to.plus(if round % 4 == 3 { 32 } else { 0 });
        let writer = line.writer;
        let posted = line.intruder.run_chain(writer, &[&first, &other], |at, from| match at {
            0 => Verb::WriteImm { from, to, imm },
            _ => Verb::Write { from, to: over },
        });
        assert!(matches!(posted, Status::Ok | Status::Flushed | Status::RemoteAccess | Status::Unreachable), "{posted:?}");
        match line.answer() {
            Some(_) => answered += 1,
            None => {
                lost += 1;
                sequence = 0;
                line.again();
            }
        }
    }
    println!("{answered} answered, {lost} connections lost");
    assert!(answered > 0, "no request got through");
    let client = scene.server.client();
    let session = client.session().unwrap();
    if let Some(value) = session.get(b"changing").unwrap() {
        // Whatever the intruder tore is its own, but it is one record.
        assert!(value.len() <= 32 << 10);
    }
    session.delete(b"changing").unwrap();
    drop((session, client));
    line.intruder.attached.leave().unwrap();
    drop(line);
    scene.ends_as_it_began();
}

/// Random bits of a right request. What is right is answered, what is not costs the connection.
#[test]
fn requests_with_random_bits() {
    let scene = Scene::new();
    let mut line = Line::new(&scene);
    let (mut lost, mut answered) = (0, 0);
    for round in 0..scale(400) {
        let roll = |n: u64| stamped::mixed(round, n);
        let mut bytes = with_key(Request::new(Operation::Put, 1), b"bits", &[7; 40]);
        for n in 0..1 + roll(0) % 3 {
            let bit = (roll(n + 1) % (HEADER_BYTES as u64 * 8)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let imm = if roll(9) % 8 == 0 { roll(10) as u32 } else { immediate(0, u64::from(bytes[8])) };
        assert!(matches!(line.write(0, &bytes, imm), Status::Ok | Status::Flushed | Status::RemoteAccess | Status::Unreachable));
        match line.answer() {
            Some(_) => answered += 1,
            None => lost += 1,
        }
        line.again();
    }
    println!("{answered} answered, {lost} connections lost");
    assert!(lost > 0 && answered > 0);
    line.intruder.attached.leave().unwrap();
    drop(line);
    // What some of them stored or created.
    let admin = sidewire::Admin::connect(scene.address()).unwrap();
    let keys: Vec<Vec<u8>> = admin.scan(b"", false, 0).unwrap().map(|item| item.unwrap().key).collect();
    let client = scene.server.client();
    let session = client.session().unwrap();
    for key in keys.iter().filter(|key| !key.starts_with(b"neighbour")) {
        session.delete(key).unwrap();
    }
    drop((session, client, admin));
    scene.ends_as_it_began();
}

/// One who opens all that he may, and closes nothing.
#[test]
fn one_who_takes_all_sessions() {
    let scene = Scene::new();
    let mut greedy = Intruder::at(scene.address());
    let mut opened = 0;
    let refusal = loop {
        match greedy.open(if opened % 2 == 0 { Role::Reader } else { Role::Writer }) {
            Ok(_) => opened += 1,
            Err(refusal) => break refusal,
        }
        assert!(opened < 2000, "sessions without end");
    };
    println!("{opened} endpoints, then: {}", refusal.message());
    assert_eq!(refusal.code(), tonic::Code::ResourceExhausted, "{refusal}");
    assert!(scene.refused("control.limit") >= 1);
    scene.neighbour_goes_on();
    // Somebody else still gets in.
    let client = scene.server.client();
    let session = client.session().unwrap();
    session.put(b"late", b"comer").unwrap();
    assert!(session.delete(b"late").unwrap());
    drop((session, client));
    greedy.attached.leave().unwrap();
    drop(greedy);
    scene.ends_as_it_began();
}

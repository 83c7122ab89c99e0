//! Heartbeats that are none, and too many of them.

use super::scene::Scene;
use sidewire_common::fabric::{EndpointId, Role, Status};
use sidewire_common::id::{ClientId, Incarnation};
use sidewire_common::layout::beat::{Answer, BEAT_BYTES, Beat, GetStats, Verdict};
use sidewire_common::limits::MESSAGE_BYTES;
use sidewire_tests::intruder::{Heard, Intruder};
use sidewire_tests::{scale, setting};
use std::time::Duration;

fn beat_of(intruder: &Intruder, number: u64) -> Beat {
    Beat {
        client: intruder.attached.id,
        incarnation: Incarnation(intruder.attached.reply.incarnation),
        number,
        layout_epoch: intruder.attached.reply.layout_epoch,
        map_epoch: 0,
        stats: GetStats::default(),
    }
}

fn hear(intruder: &mut Intruder, end: EndpointId) -> Option<Answer> {
    loop {
        match probed(intruder, end) {
            Heard::Message(message) => {
                let answer = Answer::decode(&message).expect("an honest answer");
                // What is told unasked is no answer.
                if answer.number != 0 {
                    return Some(answer);
                }
            }
            Heard::Broken => return None,
            Heard::Nothing => panic!("neither an answer nor the end"),
        }
    }
}

/// Verbs tell nobody that the peer has closed its end: a message that nothing confirms does.
fn probed(intruder: &mut Intruder, end: EndpointId) -> Heard {
    if setting::is_verbs() {
        let heard = intruder.hear(end, Duration::from_millis(500));
        if heard != Heard::Nothing {
            return heard;
        }
        // One that is right: an end that is not closed would answer it.
        let probe = beat_of(intruder, 1).encode();
        if !intruder.send(end, &probe).is_ok() {
            return Heard::Broken;
        }
    }
    intruder.hear(end, setting::patience(Duration::from_secs(5)))
}

#[test]
fn what_is_no_heartbeat() {
    let scene = Scene::new();
    let mut intruder = Intruder::at(scene.address());
    let right = beat_of(&intruder, 1);
    let spoilt = |at: usize, byte: u8| {
        let mut bytes = right.encode().to_vec();
        bytes[at] = byte;
        bytes
    };
    let answer = Answer {
        verdict: Verdict::Alive,
        incarnation: right.incarnation,
        number: 1,
        layout_epoch: 1,
        clock_ms: 1,
        clock_error_ms: 1,
        lease_ms: 1,
        map_epoch: 0,
        member: 0,
    };
    let cases = [
        ("nothing", Vec::new(), "beat.malformed"),
        ("a byte", vec![2], "beat.malformed"),
        ("short by one", right.encode()[..BEAT_BYTES - 1].to_vec(), "beat.malformed"),
        ("long by one", [&right.encode()[..], &[0]].concat(), "beat.malformed"),
        ("as long as there is room", vec![2; MESSAGE_BYTES], "beat.malformed"),
        ("an answer", answer.encode().to_vec(), "beat.malformed"),
        ("another tag", spoilt(0, 1), "beat.malformed"),
        ("reserved bytes", spoilt(3, 1), "beat.malformed"),
        ("number 0", Beat { number: 0, ..right }.encode().to_vec(), "beat.malformed"),
        ("another client", Beat { client: ClientId(7), ..right }.encode().to_vec(), "beat.client"),
        ("no client", Beat { client: ClientId(0), ..right }.encode().to_vec(), "beat.client"),
        ("an epoch to come", Beat { layout_epoch: right.layout_epoch + 1000, ..right }.encode().to_vec(), "beat.epoch"),
        ("the last epoch", Beat { layout_epoch: u64::MAX, ..right }.encode().to_vec(), "beat.epoch"),
    ];
    for (what, bytes, cause) in cases {
        let before = scene.refused(cause);
        let (end, _) = intruder.open(Role::Beat).unwrap();
        let status = intruder.send(end, &bytes);
        assert!(matches!(status, Status::Ok | Status::Flushed | Status::Unreachable), "{what}: {status:?}");
        assert_eq!(hear(&mut intruder, end), None, "{what} was answered");
        assert_eq!(scene.refused(cause), before + 1, "{what}: {cause} was not counted");
        intruder.close(end);
    }
    // A number that does not rise, after one that was answered.
    for number in [u64::MAX, 5, 1] {
        let (end, _) = intruder.open(Role::Beat).unwrap();
        let first = beat_of(&intruder, if number == u64::MAX { u64::MAX } else { 5 });
        intruder.send(end, &first.encode());
        assert_eq!(hear(&mut intruder, end).map(|answer| answer.verdict), Some(Verdict::Alive));
        let before = scene.refused("beat.number");
        intruder.send(end, &Beat { number, ..first }.encode());
        assert_eq!(hear(&mut intruder, end), None, "number {number} again");
        assert_eq!(scene.refused("beat.number"), before + 1);
        intruder.close(end);
    }
    // Another life is told so; that is no misdeed.
    let (end, _) = intruder.open(Role::Beat).unwrap();
    intruder.send(end, &Beat { incarnation: Incarnation(1), ..beat_of(&intruder, 1) }.encode());
    assert_eq!(hear(&mut intruder, end).map(|answer| answer.verdict), Some(Verdict::Unknown));
    intruder.close(end);
    intruder.attached.leave().unwrap();
    drop(intruder);
    scene.ends_as_it_began();
}

/// Each is answered or left unanswered; the others' leases are kept, and absurd figures are the sender's word only.
#[test]
fn heartbeats_without_end() {
    let scene = Scene::new();
    let mut intruder = Intruder::at(scene.address());
    let (end, _) = intruder.open(Role::Beat).unwrap();
    let stats = GetStats { gets: u64::MAX, reads: u64::MAX, retries_torn: u64::MAX, retries_stale: 7, ..GetStats::default() };
    let (mut sent, rounds) = (0, scale(5_000));
    for number in 1..=rounds {
        sent += u64::from(intruder.send(end, &Beat { stats, ..beat_of(&intruder, number) }.encode()).is_ok());
    }
    scene.neighbour_goes_on();
    let told = scene.server.info();
    let gets: Vec<u64> = told.clients.iter().map(|client| client.gets).collect();
    println!("{sent} of {rounds} sent; Gets of the clients {gets:?}");
    assert!(sent > 0 && gets.contains(&u64::MAX));
    intruder.close(end);
    intruder.attached.leave().unwrap();
    drop(intruder);
    scene.ends_as_it_began();
}

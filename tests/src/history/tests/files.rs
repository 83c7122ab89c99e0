//! Histories of several processes and several lives of the server.

use super::super::file::{Writer, now, read};
use super::super::lives::{Lived, check_all, split};
use super::super::{Call, Condition, Event, Limits, Outcome};
use super::{get, value, written};
use std::collections::HashMap;

fn lived(life: u64, until: u64, from: u64, call: Call, outcome: Outcome) -> Lived {
    let event = Event { client: 1, invoked: from, returned: Some(from + 1), call, outcome };
    Lived { event, life, until: Some(until) }
}

fn never(life: u64, from: u64, call: Call) -> Lived {
    let event = Event { client: 2, invoked: from, returned: None, call, outcome: Outcome::Unknown };
    Lived { event, life, until: None }
}

fn checked(calls: &[Lived]) -> Result<usize, String> {
    check_all(&split(calls, &HashMap::new()), &Limits::default()).map(|lives| lives.len())
}

#[test]
fn what_is_written_is_read() {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 3);
    let before = now();
    let put = writer.begin(7, Call::put_if("a", 1, Condition::Version(4))).unwrap();
    writer.end(put, 7, written(5)).unwrap();
    let all = writer.begin(7, Call::MultiGet { keys: vec!["a".into(), "b \"quoted\" \u{1f600}".into()] }).unwrap();
    writer.end(all, 8, Outcome::Each(vec![value(1, 5), Outcome::Absent])).unwrap();
    writer.begin(8, get("a")).unwrap();
    let whole = read(&bytes[..]).unwrap();
    assert_eq!(whole.len(), 3);
    assert_eq!((whole[0].event.client, whole[0].life, whole[0].until), (3, 7, Some(7)));
    assert_eq!((whole[1].life, whole[1].until), (7, Some(8)));
    assert_eq!((whole[2].event.returned, whole[2].until), (None, None));
    assert!(whole[0].event.invoked >= before && whole[0].event.returned <= Some(now()));
    // Killed while it wrote: the last line is cut short at any byte.
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in last..bytes.len() - 1 {
        assert_eq!(read(&bytes[..cut]).unwrap(), whole[..2], "cut at {cut}");
    }
    let mut torn = bytes.clone();
    torn[3] = b'?';
    assert!(read(&torn[..]).is_err(), "a bad line in the middle");
}

#[test]
fn each_life_is_a_history_of_its_own() {
    let put = lived(1, 1, 0, Call::put("a", 1), written(10));
    let absent = |life, from| lived(life, life, from, get("a"), Outcome::Absent);
    assert_eq!(checked(&[put.clone(), absent(2, 10)]), Ok(2));
    assert!(checked(&[put.clone(), absent(1, 10)]).is_err());
    let from_the_dead = lived(2, 2, 10, get("a"), value(1, 10));
    assert!(checked(&[put, from_the_dead]).unwrap_err().contains("nobody wrote"));
}

#[test]
fn a_call_over_a_restart_may_belong_to_either_life() {
    let over = lived(1, 2, 5, Call::put("a", 1), written(10));
    let seen = |life, from| lived(life, life, from, get("a"), value(1, 10));
    let absent = |life, from| lived(life, life, from, get("a"), Outcome::Absent);
    assert!(checked(&[over.clone(), absent(1, 0), seen(2, 10)]).is_ok());
    assert!(checked(&[over.clone(), absent(1, 0), absent(2, 10)]).is_ok());
    assert!(checked(&[over.clone(), absent(1, 0), seen(2, 10), absent(2, 20)]).is_err());
    // What never returned may be carried over too, until its client's end.
    let open = never(1, 5, Call::put("a", 1));
    let calls = [open, absent(1, 0), absent(2, 10), seen(3, 20)];
    assert!(checked(&calls).is_ok());
    let ended = HashMap::from([(2, 9)]);
    assert!(check_all(&split(&calls, &ended), &Limits::default()).is_err());
}

#[test]
fn tokens_rise_over_lives() {
    let taken = |life, from, token| lived(life, life, from, Call::TryLock { key: "l".into() }, Outcome::Locked { token });
    assert_eq!(checked(&[taken(1, 0, 7), taken(2, 10, 8)]), Ok(2));
    assert!(checked(&[taken(1, 0, 7), taken(2, 10, 7)]).unwrap_err().contains("token 7 in life 2 after 7 in life 1"));
}

/// Whoever had not noticed calls first in a life that is over, and ends in the one that another client has seen before.
#[test]
fn lives_have_their_order_from_who_moved_on() {
    let early = lived(9, 9, 10, Call::put("a", 1), written(1));
    let over = lived(5, 9, 20, Call::put("a", 2), written(2));
    let read = lived(9, 9, 30, get("a"), value(2, 2));
    assert_eq!(checked(&[early, over, read]), Ok(2));
}

//! Values, conditions, expiry: one violation a test.

use super::super::{Call, Condition, Outcome, Reason};
use super::{at, bad, get, good, open, value, written};

#[test]
fn what_overlaps_may_be_seen_in_either_order() {
    good(&[]);
    let put = |to| at(0, to, Call::put("a", 1), written(10));
    good(&[put(10), at(5, 7, get("a"), Outcome::Absent), at(8, 9, get("a"), value(1, 10))]);
    good(&[put(10), at(5, 7, get("a"), value(1, 10)), at(20, 21, get("a"), value(1, 10))]);
    let second = at(1, 10, Call::put("a", 2), written(11));
    good(&[put(10), second.clone(), at(20, 21, get("a"), value(2, 11))]);
    bad(Reason::NoOrder, &[put(10), second, at(20, 21, get("a"), value(1, 10))]);
}

#[test]
fn a_stale_read_is_refused() {
    let puts = [at(0, 1, Call::put("a", 1), written(10)), at(2, 3, Call::put("a", 2), written(11))];
    let [one, two] = puts.clone();
    let text = bad(Reason::NoOrder, &[one, two, at(4, 5, get("a"), value(1, 10))]);
    assert!(text.contains("> [") && text.contains("get a") && text.contains("#2 (version 11)"), "{text}");
    // Once one reader has seen the new value, no reader that starts later sees an older one.
    let [one, two] = puts;
    let late = super::Event { returned: Some(20), ..two };
    good(&[one.clone(), late.clone(), at(4, 5, get("a"), value(1, 10)), at(6, 7, get("a"), value(2, 11))]);
    bad(Reason::NoOrder, &[one, late, at(4, 5, get("a"), value(2, 11)), at(6, 7, get("a"), value(1, 10))]);
}

#[test]
fn a_lost_write_is_refused() {
    bad(Reason::NoOrder, &[at(0, 1, Call::put("a", 1), written(10)), at(2, 3, get("a"), Outcome::Absent)]);
    let exists = Call::Exists { key: "a".into() };
    bad(Reason::NoOrder, &[at(0, 1, Call::put("a", 1), written(10)), at(2, 3, exists, Outcome::Found(false))]);
    let all = Call::MultiGet { keys: vec!["a".into(), "b".into()] };
    let each = |a| Outcome::Each(vec![a, Outcome::Absent]);
    good(&[at(0, 1, Call::put("a", 1), written(10)), at(2, 3, all.clone(), each(value(1, 10)))]);
    bad(Reason::NoOrder, &[at(0, 1, Call::put("a", 1), written(10)), at(2, 3, all, each(Outcome::Absent))]);
}

#[test]
fn values_of_nowhere_are_refused() {
    let put = at(0, 1, Call::put("a", 1), written(10));
    bad(Reason::FromNowhere, &[put.clone(), at(2, 3, get("a"), value(9, 12))]);
    bad(Reason::OtherKey, &[put.clone(), at(2, 3, get("b"), value(1, 10))]);
    bad(Reason::TwoVersions, &[put.clone(), at(2, 3, get("a"), value(1, 11))]);
    bad(Reason::Torn, &[put.clone(), at(2, 3, get("a"), Outcome::Torn("byte 3".into()))]);
    bad(Reason::StampTwice, &[put.clone(), put.clone()]);
    bad(Reason::Unfitting, &[at(2, 3, get("a"), Outcome::Deleted)]);
    bad(Reason::Backwards, &[at(3, 2, get("a"), Outcome::Absent)]);
    // Seen before it was asked for.
    bad(Reason::NoOrder, &[at(5, 6, Call::put("a", 1), written(10)), at(2, 3, get("a"), value(1, 10))]);
}

#[test]
fn a_refused_write_has_no_effect() {
    let refused = at(0, 1, Call::put("a", 1), Outcome::NotExecuted);
    good(&[refused.clone(), at(2, 3, get("a"), Outcome::Absent)]);
    bad(Reason::RefusedButSeen, &[refused, at(2, 3, get("a"), value(1, 10))]);
    let deleted = at(2, 3, Call::delete("a", Condition::None), Outcome::NotExecuted);
    let put = at(0, 1, Call::put("a", 1), written(10));
    good(&[put.clone(), deleted.clone(), at(4, 5, get("a"), value(1, 10))]);
    bad(Reason::NoOrder, &[put, deleted, at(4, 5, get("a"), Outcome::Absent)]);
    let exists = at(2, 3, Call::put_if("a", 2, Condition::Absent), Outcome::Exists { version: 10 });
    let put = at(0, 1, Call::put("a", 1), written(10));
    bad(Reason::RefusedButSeen, &[put, exists, at(4, 5, get("a"), value(2, 11))]);
}

#[test]
fn a_write_in_doubt_counts_once_or_never() {
    let put = at(0, 1, Call::put("a", 1), written(10));
    let doubt = open(2, Call::put("a", 2));
    let see = |from, stamp, version| at(from, from + 1, get("a"), value(stamp, version));
    good(&[put.clone(), doubt.clone(), see(4, 1, 10), see(6, 1, 10)]);
    good(&[put.clone(), doubt.clone(), see(4, 1, 10), see(6, 2, 11), see(1000, 2, 11)]);
    bad(Reason::NoOrder, &[put.clone(), doubt.clone(), see(4, 2, 11), see(6, 1, 10)]);
    // Not before it was asked for.
    bad(Reason::NoOrder, &[put.clone(), open(9, Call::put("a", 2)), see(4, 2, 11)]);
    // Applied again after somebody else's write: twice.
    let other = at(6, 7, Call::put("a", 3), written(12));
    bad(Reason::NoOrder, &[put.clone(), doubt, see(4, 2, 11), other, see(8, 2, 11)]);
    // A delete in doubt explains one absence, not two.
    let gone = open(2, Call::delete("a", Condition::None));
    let absent = |from| at(from, from + 1, get("a"), Outcome::Absent);
    good(&[put.clone(), gone.clone(), absent(4)]);
    let again = at(6, 7, Call::put("a", 3), written(12));
    bad(Reason::NoOrder, &[put, gone, absent(4), again, absent(8)]);
}

#[test]
fn conditions_are_judged_by_what_is_there() {
    let put = at(0, 1, Call::put("a", 1), written(10));
    let at_version = |version, outcome| at(2, 3, Call::put_if("a", 2, Condition::Version(version)), outcome);
    let if_absent = |outcome| at(2, 3, Call::put_if("a", 2, Condition::Absent), outcome);
    good(&[put.clone(), at_version(10, written(11))]);
    good(&[put.clone(), at_version(9, Outcome::Mismatch { version: 10 })]);
    good(&[put.clone(), if_absent(Outcome::Exists { version: 10 })]);
    good(&[if_absent(written(10))]);
    good(&[at_version(9, Outcome::Absent)]);
    bad(Reason::NoOrder, &[put.clone(), at_version(9, written(11))]);
    bad(Reason::NoOrder, &[put.clone(), at_version(10, Outcome::Mismatch { version: 10 })]);
    bad(Reason::NoOrder, &[put.clone(), if_absent(written(11))]);
    bad(Reason::NoOrder, &[if_absent(Outcome::Exists { version: 10 })]);
    bad(Reason::NoOrder, &[put.clone(), at_version(10, Outcome::Absent)]);
    let delete = |condition, outcome| at(2, 3, Call::delete("a", condition), outcome);
    good(&[put.clone(), delete(Condition::Version(10), Outcome::Deleted), at(4, 5, get("a"), Outcome::Absent)]);
    bad(Reason::NoOrder, &[put.clone(), delete(Condition::Version(9), Outcome::Deleted)]);
    bad(Reason::NoOrder, &[put.clone(), delete(Condition::None, Outcome::Absent)]);
    bad(Reason::NoOrder, &[delete(Condition::None, Outcome::Deleted)]);
    bad(Reason::NoOrder, &[put, delete(Condition::None, Outcome::Deleted), at(4, 5, get("a"), value(1, 10))]);
}

#[test]
fn versions_rise() {
    let put = |from, stamp, version| at(from, from + 1, Call::put("a", stamp), written(version));
    good(&[put(0, 1, 10), put(2, 2, 11)]);
    bad(Reason::NoOrder, &[put(0, 1, 10), put(2, 2, 10)]);
    bad(Reason::NoOrder, &[put(0, 1, 10), put(2, 2, 9)]);
    let gone = at(2, 3, Call::delete("a", Condition::None), Outcome::Deleted);
    bad(Reason::NoOrder, &[put(0, 1, 10), gone, put(4, 2, 10)]);
    // Side by side, the versions tell the order.
    let (one, two) = (at(0, 9, Call::put("a", 1), written(11)), at(0, 9, Call::put("a", 2), written(10)));
    good(&[one.clone(), two.clone(), at(10, 11, get("a"), value(1, 11))]);
    bad(Reason::NoOrder, &[one, two, at(10, 11, get("a"), value(2, 10))]);
}

#[test]
fn a_value_expires_in_its_time() {
    // Written between 0 and 10, for 100, by a clock that is wrong by 5 at most: gone between 95 and 115.
    let put = at(0, 10, Call::put_for("a", 1, 100), written(10));
    let (seen, absent) = (value(1, 10), Outcome::Absent);
    good(&[put.clone(), at(110, 114, get("a"), seen.clone())]);
    good(&[put.clone(), at(90, 95, get("a"), absent.clone())]);
    bad(Reason::NoOrder, &[put.clone(), at(80, 94, get("a"), absent.clone())]);
    bad(Reason::NoOrder, &[put.clone(), at(116, 117, get("a"), seen.clone())]);
    bad(Reason::NoOrder, &[put.clone(), at(96, 97, get("a"), absent.clone()), at(98, 99, get("a"), seen)]);
    let if_absent = |from, outcome| at(from, from + 1, Call::put_if("a", 2, Condition::Absent), outcome);
    good(&[put.clone(), if_absent(120, written(11))]);
    bad(Reason::NoOrder, &[put.clone(), if_absent(50, written(11))]);
    bad(Reason::NoOrder, &[put, if_absent(120, Outcome::Exists { version: 10 })]);
    // In doubt, it may begin its time at any moment.
    let doubt = open(0, Call::put_for("a", 1, 100));
    good(&[doubt.clone(), at(1000, 1001, get("a"), value(1, 10)), at(1002, 1003, get("a"), absent.clone())]);
    bad(Reason::NoOrder, &[doubt, at(80, 81, get("a"), value(1, 10)), at(90, 91, get("a"), absent)]);
}

//! Counters, sequences, locks and fences: one violation a test.

use super::super::{Call, Cell, Condition, Event, Outcome, Reason};
use super::{at, bad, get, good, open, value, written};

fn create(from: u64, created: bool) -> Event {
    at(from, from + 1, Call::Create { key: "n".into(), cell: Cell::Counter, initial: 5 }, Outcome::Created(created))
}

fn add(from: u64, to: u64, sum: i64) -> Event {
    at(from, to, Call::Add { key: "n".into(), delta: 1 }, Outcome::Number(sum))
}

fn read(from: u64, to: u64, value: i64) -> Event {
    at(from, to, Call::Read { key: "n".into() }, Outcome::Number(value))
}

fn doubt(from: u64) -> Event {
    open(from, Call::Add { key: "n".into(), delta: 1 })
}

/// The same, with a deletion at the end, so that the search decides and not the sums alone.
fn both(reason: Option<Reason>, events: &[Event]) {
    let end = at(9000, 9001, Call::delete("n", Condition::None), Outcome::Deleted);
    let with_end: Vec<Event> = events.iter().cloned().chain([end]).collect();
    match reason {
        None => {
            good(events);
            good(&with_end);
        }
        Some(reason) => {
            bad(reason, events);
            bad(Reason::NoOrder, &with_end);
        }
    }
}

#[test]
fn a_counters_sum_is_that_of_its_adds() {
    both(None, &[create(0, true), add(2, 3, 6), read(4, 5, 6), add(6, 7, 7), create(8, false)]);
    both(None, &[create(0, true), add(2, 9, 7), add(3, 8, 6), read(4, 5, 6), read(4, 5, 5)]);
    both(Some(Reason::SumTwice), &[create(0, true), add(2, 3, 6), add(4, 5, 6)]);
    both(Some(Reason::WrongSum), &[create(0, true), add(2, 3, 6), add(4, 5, 8)]);
    both(Some(Reason::WrongSum), &[create(0, true), add(2, 3, 6), read(4, 5, 7)]);
    both(Some(Reason::WrongSum), &[create(0, true), add(2, 3, 5)]);
    both(Some(Reason::OutOfOrder), &[create(0, true), add(2, 3, 7), add(4, 5, 6)]);
    both(Some(Reason::OutOfOrder), &[create(0, true), add(2, 3, 6), read(4, 5, 5)]);
    both(Some(Reason::OutOfOrder), &[create(0, true), read(2, 3, 6), add(4, 5, 6)]);
}

#[test]
fn adds_in_doubt_fill_what_is_missing_and_no_more() {
    both(None, &[create(0, true), doubt(2), add(4, 5, 6), read(6, 7, 6)]);
    both(None, &[create(0, true), doubt(2), add(4, 5, 7), read(6, 7, 7)]);
    both(None, &[create(0, true), doubt(2), add(4, 5, 6), read(6, 7, 7)]);
    both(None, &[create(0, true), doubt(2), doubt(3), read(4, 5, 6), add(6, 7, 8)]);
    both(Some(Reason::WrongSum), &[create(0, true), doubt(2), add(4, 5, 8)]);
    both(Some(Reason::WrongSum), &[create(0, true), doubt(2), add(4, 5, 7), read(6, 7, 8)]);
    // It was made after the sum that it should explain.
    both(Some(Reason::WrongSum), &[create(0, true), doubt(8), add(4, 5, 7)]);
}

#[test]
fn a_counter_is_there_once_it_was_created() {
    let missing = |from| at(from, from + 1, Call::Add { key: "n".into(), delta: 1 }, Outcome::Absent);
    both(None, &[missing(0), create(2, true), add(4, 5, 6)]);
    both(Some(Reason::OutOfOrder), &[create(0, true), missing(2)]);
    both(Some(Reason::NotCreated), &[add(0, 1, 6)]);
    both(Some(Reason::NotCreated), &[create(0, false)]);
    both(Some(Reason::CreatedTwice), &[create(0, true), create(2, true)]);
    both(Some(Reason::NotCreated), &[create(0, false), create(2, true)]);
    let maybe = open(0, Call::Create { key: "n".into(), cell: Cell::Counter, initial: 5 });
    both(None, &[maybe.clone(), create(2, false), add(4, 5, 6)]);
    both(Some(Reason::NotCreated), &[maybe, create(2, false), missing(4)]);
}

#[test]
fn a_counter_made_anew_begins_anew() {
    let gone = |from| at(from, from + 1, Call::delete("n", Condition::None), Outcome::Deleted);
    good(&[create(0, true), add(2, 3, 6), gone(4), create(6, true), add(8, 9, 6)]);
    bad(Reason::NoOrder, &[create(0, true), add(2, 3, 6), gone(4), create(6, true), add(8, 9, 7)]);
    bad(Reason::NoOrder, &[create(0, true), gone(4), add(8, 9, 6)]);
}

#[test]
fn a_sequence_may_skip_and_never_repeats() {
    let create = at(0, 1, Call::Create { key: "s".into(), cell: Cell::Sequence, initial: 1 }, Outcome::Created(true));
    let next = |from, number| at(from, from + 1, Call::Next { key: "s".into() }, Outcome::Number(number));
    good(&[create.clone(), next(2, 1), next(4, 2), next(6, 9)]);
    bad(Reason::NumberTwice, &[create.clone(), next(2, 1), next(4, 1)]);
    bad(Reason::OutOfOrder, &[create.clone(), next(2, 2), next(4, 1)]);
    bad(Reason::WrongSum, &[create, next(2, 0)]);
}

fn lock(from: u64, outcome: Outcome) -> Event {
    at(from, from + 1, Call::TryLock { key: "{t}l".into() }, outcome)
}

fn unlock(from: u64, token: u64, outcome: Outcome) -> Event {
    at(from, from + 1, Call::Unlock { key: "{t}l".into(), token }, outcome)
}

fn lost(from: u64, token: u64) -> Event {
    at(from, from + 1, Call::Lost { key: "{t}l".into(), token }, Outcome::Noted)
}

fn taken(from: u64, token: u64) -> Event {
    lock(from, Outcome::Locked { token })
}

#[test]
fn a_lock_has_one_holder_and_its_tokens_rise() {
    good(&[taken(0, 7), lock(2, Outcome::Busy), unlock(4, 7, Outcome::Unlocked), taken(6, 8)]);
    bad(Reason::TokenTwice, &[taken(0, 7), unlock(2, 7, Outcome::Unlocked), taken(4, 7)]);
    bad(Reason::NoOrder, &[taken(0, 7), unlock(2, 7, Outcome::Unlocked), taken(4, 6)]);
    bad(Reason::NoOrder, &[taken(0, 7), taken(2, 8)]);
    bad(Reason::NoOrder, &[lock(2, Outcome::Busy)]);
    bad(Reason::NoOrder, &[taken(0, 7), unlock(2, 6, Outcome::Unlocked)]);
    bad(Reason::NoOrder, &[taken(0, 7), unlock(2, 7, Outcome::Fenced)]);
    let state = |from, held, token| at(from, from + 1, Call::LockState { key: "{t}l".into() }, Outcome::State { held, token });
    good(&[taken(0, 7), state(2, true, 7), unlock(4, 7, Outcome::Unlocked), state(6, false, 7)]);
    bad(Reason::NoOrder, &[taken(0, 7), state(2, false, 7)]);
    bad(Reason::NoOrder, &[taken(0, 7), state(2, true, 6)]);
    // Made, seen, taken: by one call.
    let slow = Event { returned: Some(9), ..taken(0, 7) };
    good(&[slow, state(2, false, 6), state(4, true, 7)]);
}

#[test]
fn a_lost_lock_may_be_anybodys() {
    good(&[taken(0, 7), lost(2, 7), taken(4, 8)]);
    good(&[taken(0, 7), lost(2, 7), lock(4, Outcome::Busy), unlock(6, 7, Outcome::Unlocked), taken(8, 8)]);
    good(&[taken(0, 7), lost(2, 7), taken(4, 8), unlock(6, 7, Outcome::Fenced)]);
    bad(Reason::NoOrder, &[taken(0, 7), lost(2, 7), taken(4, 8), unlock(6, 7, Outcome::Unlocked)]);
    bad(Reason::NoOrder, &[taken(0, 7), lost(9, 7), taken(4, 8)]);
    let maybe = open(2, Call::TryLock { key: "{t}l".into() });
    good(&[maybe.clone(), lock(4, Outcome::Busy), taken(6, 8)]);
    bad(Reason::NoOrder, &[taken(0, 7), maybe, unlock(4, 7, Outcome::Unlocked), lock(6, Outcome::Busy), taken(8, 8)]);
}

#[test]
fn a_lock_of_untold_token_may_be_broken() {
    // A call that took it across a restart: what it got was told in the life before.
    let maybe = open(0, Call::TryLock { key: "{t}l".into() });
    let broken = |from| at(from, from + 1, Call::BreakLock { key: "{t}l".into() }, Outcome::Found(true));
    let state = |from, held, token| at(from, from + 1, Call::LockState { key: "{t}l".into() }, Outcome::State { held, token });
    let start = [maybe.clone(), lock(2, Outcome::Busy), broken(4), unlock(6, 7, Outcome::Fenced)];
    let then = |rest: &[Event]| [&start[..], rest].concat();
    good(&then(&[state(8, false, 7), taken(10, 8)]));
    good(&then(&[taken(8, 9)]));
    good(&then(&[broken(8), state(10, false, 7)]));
    good(&then(&[open(5, Call::TryLock { key: "{t}l".into() }), lock(8, Outcome::Busy), broken(10), state(12, false, 8)]));
    bad(Reason::NoOrder, &then(&[lock(8, Outcome::Busy)]));
    bad(Reason::NoOrder, &then(&[state(8, true, 7)]));
    bad(Reason::NoOrder, &then(&[unlock(8, 7, Outcome::Unlocked)]));
    bad(Reason::NoOrder, &then(&[state(8, false, 7), state(10, false, 6)]));
}

#[test]
fn an_unlock_may_not_know_of_a_break() {
    let broken = |from| at(from, from + 1, Call::BreakLock { key: "{t}l".into() }, Outcome::Found(true));
    good(&[taken(0, 7), broken(2), unlock(4, 7, Outcome::Unlocked), taken(6, 8)]);
    good(&[taken(0, 7), broken(2), unlock(4, 7, Outcome::Fenced), taken(6, 8)]);
    bad(Reason::NoOrder, &[taken(0, 7), broken(2), unlock(4, 7, Outcome::Unlocked), unlock(6, 7, Outcome::Unlocked)]);
    bad(Reason::NoOrder, &[taken(0, 7), broken(2), taken(4, 8), unlock(6, 7, Outcome::Unlocked)]);
    bad(Reason::NoOrder, &[taken(0, 7), broken(2), lock(4, Outcome::Busy)]);
}

#[test]
fn a_call_may_take_a_lock_twice_if_it_is_broken_meanwhile() {
    let broken = |from| at(from, from + 1, Call::BreakLock { key: "{t}l".into() }, Outcome::Found(true));
    let state = |from, held, token| at(from, from + 1, Call::LockState { key: "{t}l".into() }, Outcome::State { held, token });
    let first = [taken(0, 7), unlock(2, 7, Outcome::Unlocked)];
    let slow = |returned, token| Event { returned: Some(returned), ..taken(4, token) };
    let then = |rest: &[Event]| [&first[..], rest].concat();
    good(&then(&[slow(20, 9), state(6, true, 8), lock(8, Outcome::Busy), broken(10), state(12, false, 8)]));
    good(&then(&[slow(20, 10), lock(8, Outcome::Busy), broken(10), taken(12, 9), unlock(14, 9, Outcome::Unlocked)]));
    // Without a break, and after it has returned, it holds what it says and nothing else.
    bad(Reason::NoOrder, &then(&[slow(20, 9), state(6, true, 8), state(12, false, 8)]));
    bad(Reason::NoOrder, &then(&[slow(12, 8), broken(10), unlock(14, 8, Outcome::Unlocked), lock(16, Outcome::Busy)]));
    bad(Reason::NoOrder, &then(&[slow(8, 8), state(6, true, 9), broken(10), state(12, false, 9)]));
}

#[test]
fn a_late_holders_writes_are_refused() {
    let put = |from, stamp, token, outcome| at(from, from + 1, Call::put_fenced("{t}k", stamp, "{t}l", token), outcome);
    good(&[taken(0, 7), put(2, 1, 7, written(10)), unlock(4, 7, Outcome::Unlocked), put(6, 2, 7, Outcome::Fenced)]);
    bad(Reason::NoOrder, &[taken(0, 7), put(2, 1, 7, Outcome::Fenced)]);
    bad(Reason::NoOrder, &[taken(0, 7), put(2, 1, 6, written(10))]);
    bad(Reason::NoOrder, &[taken(0, 7), unlock(2, 7, Outcome::Unlocked), put(4, 1, 7, written(10))]);
    bad(Reason::NoOrder, &[taken(0, 7), lost(2, 7), taken(4, 8), put(6, 1, 7, written(10))]);
    good(&[taken(0, 7), lost(2, 7), put(4, 1, 7, written(10)), taken(6, 8)]);
    // Nor does one in doubt come later.
    let late = open(2, Call::put_fenced("{t}k", 1, "{t}l", 7));
    let seen = |from| at(from, from + 1, get("{t}k"), value(1, 10));
    good(&[taken(0, 7), late.clone(), unlock(4, 7, Outcome::Unlocked), seen(6)]);
    let absent = at(6, 7, get("{t}k"), Outcome::Absent);
    bad(Reason::NoOrder, &[taken(0, 7), late, unlock(4, 7, Outcome::Unlocked), absent, seen(8)]);
}

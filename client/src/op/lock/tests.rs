//! Locks against a script that loses what it is told to lose.

use super::super::script::{HOLDER, SEGMENT, World, at, version};
use super::*;
use sidewire_common::layout::record::State;

fn name_cell(world: &mut World, index: u32) {
    let value = CellReference { index, generation: 1 }.encode();
    let key = world.key.clone();
    let location = world.record_of(at(0), Kind::Lock, &key, &value, 1, 0, State::Live(version(1)));
    world.set_slot(SEGMENT, 0, location);
}

/// The word before each verb can be changed by `meddle`; each answer by `lose`.
fn run(
    world: &mut World,
    lock: &mut Lock,
    meddle: &mut dyn FnMut(&mut World, &CellVerb),
    lose: &mut dyn FnMut(u64) -> bool,
) -> Result<Done, Error> {
    let mut on = |input, cx: &mut Context<'_>| match input {
        Input::Cell { old } if lose(old) => lock.on(Input::CellLost, cx),
        input => lock.on(input, cx),
    };
    let mut between = |world: &mut World, _: usize, ask: &Ask| {
        if let Ask::Cell { verb, .. } = ask {
            meddle(world, verb);
        }
    };
    let mut create = |world: &mut World, _| {
        name_cell(world, 3);
        (Outcome::Done, 0)
    };
    world.run(&mut on, &mut between, &mut create)
}

fn take(world: &mut World) -> Result<Done, Error> {
    run(world, &mut Lock::new(LockGoal::Take), &mut |_, _| {}, &mut |_| false)
}

fn held(by: u32, token: u64) -> LockWord {
    LockWord::free(token - 1).acquired_by(by).unwrap()
}

#[test]
fn a_lock_is_created_taken_seen_and_given_back() {
    let mut world = World::new(b"lock");
    let Ok(Done::Lock(Ok(taken))) = take(&mut world) else { panic!() };
    assert_eq!((world.cell(3), taken.word), (held(HOLDER, 1).raw(), held(HOLDER, 1)));
    let Ok(Done::Lock(Err(view))) = take(&mut world) else { panic!() };
    assert_eq!(view, LockView { holder: Some(HOLDER), token: 1 });
    let mut back = Lock::new(LockGoal::GiveBack(taken));
    assert!(matches!(run(&mut world, &mut back, &mut |_, _| {}, &mut |_| false), Ok(Done::Unlocked)));
    assert_eq!(world.cell(3), LockWord::free(1).raw());
}

#[test]
fn a_lost_race_is_told_or_tried_again() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    let mut rivals = vec![LockWord::free(6), held(9, 5)];
    // Between read and swap somebody takes the lock, and by the next swap has given it back.
    let mut meddle = |world: &mut World, verb: &CellVerb| {
        if matches!(verb, CellVerb::Swap { .. })
            && let Some(word) = rivals.pop()
        {
            world.set_cell(3, word.raw());
        }
    };
    let done = run(&mut world, &mut Lock::new(LockGoal::Take), &mut meddle, &mut |_| false);
    assert!(matches!(done, Ok(Done::Lock(Err(LockView { holder: Some(9), token: 5 })))));
    world.set_cell(3, LockWord::free(5).raw());
    let done = run(&mut world, &mut Lock::new(LockGoal::Take), &mut meddle, &mut |_| false);
    assert!(matches!(done, Ok(Done::Lock(Ok(taken))) if taken.word == held(HOLDER, 7)));
}

#[test]
fn a_lost_swap_is_resolved_by_the_word() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    let mut answers = 0;
    // The second answer, that of the swap, is lost; the swap itself was done.
    let done = run(&mut world, &mut Lock::new(LockGoal::Take), &mut |_, _| {}, &mut |_| {
        answers += 1;
        answers == 2
    });
    let Ok(Done::Lock(Ok(taken))) = done else { panic!("{done:?}") };
    assert_eq!(world.cell(3), taken.word.raw());
    let mut answers = 0;
    let mut back = Lock::new(LockGoal::GiveBack(taken));
    let done = run(&mut world, &mut back, &mut |_, _| {}, &mut |_| {
        answers += 1;
        answers == 1
    });
    assert!(matches!(done, Ok(Done::Unlocked)));
    assert_eq!(world.cell(3), LockWord::free(1).raw());
}

#[test]
fn a_lock_given_back_without_an_answer_is_not_called_lost() {
    let mut world = World::new(b"lock");
    let Ok(Done::Lock(Ok(taken))) = take(&mut world) else { panic!() };
    // The swap was done, its answer is lost, and another has the lock before the word is read.
    let mut meddle = |world: &mut World, verb: &CellVerb| {
        if matches!(verb, CellVerb::Read) {
            assert_eq!(world.cell(3), LockWord::free(1).raw());
            world.set_cell(3, held(9, 2).raw());
        }
    };
    let mut answers = 0;
    let done = run(&mut world, &mut Lock::new(LockGoal::GiveBack(taken)), &mut meddle, &mut |_| {
        answers += 1;
        answers == 1
    });
    assert!(matches!(done, Err(Error::Indeterminate { operation: "unlock" })), "{done:?}");
}

#[test]
fn a_lost_swap_that_arrives_late_is_ones_own() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    let (mut swaps, mut answers) = (0, 0);
    // The first swap is lost on the way, the word is read, then it arrives; only then the second one.
    let mut meddle = |world: &mut World, verb: &CellVerb| match verb {
        CellVerb::Swap { .. } => {
            swaps += 1;
            if swaps == 2 {
                world.set_cell(3, held(HOLDER, 1).raw());
            }
        }
        _ if swaps == 1 => world.set_cell(3, LockWord::free(0).raw()),
        _ => {}
    };
    let done = run(&mut world, &mut Lock::new(LockGoal::Take), &mut meddle, &mut |_| {
        answers += 1;
        answers == 2
    });
    assert!(matches!(done, Ok(Done::Lock(Ok(taken))) if taken.word == held(HOLDER, 1)), "{done:?}");
}

#[test]
fn a_token_of_another_session_is_not_ones_own() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    // This session has read that the lock is free; then another one of the same client takes it.
    let mut lock = Lock::new(LockGoal::Take);
    let mut other = None;
    let mut swaps = 0;
    let mut step = lock.on(Input::Resume, &mut world.context());
    let done = loop {
        let input = match step {
            Step::Finished(done) => break done,
            Step::Reconnect => Input::Restart,
            Step::Wait => {
                let ask = world.asks.remove(0);
                let is_read = matches!(ask, Ask::Cell { verb: CellVerb::Read, .. });
                let is_swap = matches!(ask, Ask::Cell { verb: CellVerb::Swap { .. }, .. });
                swaps += u32::from(is_swap);
                let input = world.carry_out(ask, &mut |_, _| (Outcome::Busy, 0));
                if is_read && other.is_none() {
                    let rest = std::mem::take(&mut world.asks);
                    other = Some(take(&mut world));
                    world.asks = rest;
                }
                // The answer to the swap, which came too late, is lost.
                if is_swap { Input::CellLost } else { input }
            }
            other => panic!("{other:?}"),
        };
        step = lock.on(input, &mut world.context());
    };
    assert!(matches!(other, Some(Ok(Done::Lock(Ok(taken)))) if taken.word == held(HOLDER, 1)));
    assert_eq!(swaps, 1);
    assert!(matches!(done, Ok(Done::Lock(Err(LockView { holder: Some(HOLDER), token: 1 })))), "{done:?}");
}

#[test]
fn a_cell_that_serves_another_lock_is_taken_with_a_lower_token() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    for last in [7, 2] {
        world.set_cell(3, LockWord::free(last).raw());
        let taken = take(&mut world);
        assert!(matches!(taken, Ok(Done::Lock(Ok(taken))) if taken.word == held(HOLDER, last + 1)), "{taken:?}");
    }
}

#[test]
fn a_broken_lock_is_told_when_it_is_given_back() {
    let mut world = World::new(b"lock");
    let Ok(Done::Lock(Ok(taken))) = take(&mut world) else { panic!() };
    world.set_cell(3, held(9, 2).raw());
    let mut back = Lock::new(LockGoal::GiveBack(taken));
    let done = run(&mut world, &mut back, &mut |_, _| {}, &mut |_| false);
    assert!(matches!(done, Err(Error::Fenced { token: 1, holder: Some(9), current: 2 })));
}

#[test]
fn an_abandoned_attempt_gives_back_what_it_takes() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    let mut lock = Lock::new(LockGoal::Take);
    let mut step = lock.on(Input::Resume, &mut world.context());
    loop {
        assert!(matches!(step, Step::Wait));
        let ask = world.asks.remove(0);
        if matches!(ask, Ask::Cell { verb: CellVerb::Swap { .. }, .. }) {
            assert!(lock.abandon());
            let input = world.carry_out(ask, &mut |_, _| (Outcome::Busy, 0));
            step = lock.on(input, &mut world.context());
            break;
        }
        let input = world.carry_out(ask, &mut |_, _| (Outcome::Busy, 0));
        step = lock.on(input, &mut world.context());
    }
    assert!(matches!(step, Step::Wait));
    let ask = world.asks.remove(0);
    let input = world.carry_out(ask, &mut |_, _| (Outcome::Busy, 0));
    assert!(matches!(lock.on(input, &mut world.context()), Step::Finished(Ok(Done::Unlocked))));
    assert_eq!(world.cell(3), LockWord::free(1).raw());
}

#[test]
fn a_retired_cell_is_resolved_again() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    let _ = take(&mut world);
    world.set_cell(3, held(HOLDER, 1).retired().raw());
    name_cell(&mut world, 4);
    let Ok(Done::Lock(Ok(taken))) = take(&mut world) else { panic!() };
    assert_eq!(taken.cell.index, 4);
}

#[test]
fn one_attempt_of_a_client_at_a_time() {
    let mut world = World::new(b"lock");
    name_cell(&mut world, 3);
    assert!(world.attempts.begin(3));
    let mut lock = Lock::new(LockGoal::Take);
    let mut step = lock.on(Input::Resume, &mut world.context());
    while matches!(step, Step::Wait) {
        let ask = world.asks.remove(0);
        let input = world.carry_out(ask, &mut |_, _| (Outcome::Busy, 0));
        step = lock.on(input, &mut world.context());
    }
    assert!(matches!(step, Step::Pause(_)));
    world.attempts.end(3);
    let done = {
        let mut on = |input, cx: &mut Context<'_>| lock.on(input, cx);
        world.run(&mut on, &mut |_, _, _| {}, &mut |_, _| (Outcome::Busy, 0))
    };
    assert!(matches!(done, Ok(Done::Lock(Ok(_)))));
}

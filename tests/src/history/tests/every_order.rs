//! Small histories, compared with a search through every order.

use super::super::model::{NEVER, State};
use super::super::prepare::{self, Op};
use super::super::{Event, Limits, check};
use super::mutants::mutated;
use super::store::{Shape, history};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Whether some order of all that is known, with any part of what is in doubt, explains everything.
fn some_order(ops: &[Op<'_>], placed: u32, state: &State) -> bool {
    let waits = |at: usize| placed & (1 << at) == 0;
    if (0..ops.len()).all(|at| !waits(at) || !ops[at].is_known()) {
        return true;
    }
    (0..ops.len()).filter(|at| waits(*at)).any(|at| {
        let is_first = (0..ops.len()).all(|other| !waits(other) || ops[other].returned >= ops[at].invoked);
        let in_time = (0..ops.len()).all(|other| waits(other) || ops[other].invoked <= ops[at].until);
        is_first && in_time && state.after(&ops[at], NEVER - 1).is_some_and(|state| some_order(ops, placed | (1 << at), &state))
    })
}

fn is_good(events: &[Event]) -> bool {
    prepare::groups(events, 0)
        .is_ok_and(|groups| groups.iter().all(|group| some_order(&group.ops, 0, &State::empty(group.keys.len()))))
}

#[test]
fn the_check_agrees_with_every_order() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..30_000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let keys = random.random_range(1..=4);
        let shape = Shape { calls: 8, keys, clients: 3, spread: [0, 12, 30][seed as usize % 3], doubt: 5 };
        let mut events = history(seed, shape);
        // All calls at one kind of key, so that they meet.
        for _ in 0..random.random_range(0..3) {
            let at = random.random_range(0..events.len());
            if let Some(outcome) = mutated(&mut random, &events, at) {
                events[at].outcome = outcome;
            }
        }
        let (ours, theirs) = (check(&events, &Limits::default()), is_good(&events));
        assert_eq!(ours.is_good(), theirs, "seed {seed}: {ours}\n{events:#?}");
        if theirs { good += 1 } else { bad += 1 }
    }
    println!("{good} good, {bad} bad");
    assert!(good > 3000 && bad > 3000, "{good} good, {bad} bad");
}

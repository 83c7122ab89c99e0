//! Counters and sequences, checked without a search.
//!
//! Every sum of an add, and every value of a read, says where in the one order of adds it stands, as long as all deltas
//! rise. What is left to check: each sum follows the one before it, nothing stands before what had returned when it was
//! invoked, and what is missing between two sums can be made up by adds of which nobody knows and which were invoked by then.

use super::event::{Call, Outcome};
use super::prepare::{Group, Op};
use super::report::Reason;
use std::collections::HashMap;

/// What is wrong, and which calls show it.
pub(super) type Wrong = (Reason, Vec<usize>);

/// Where a call stands in the order: before the counter, its creation, or at a value (the add that made it first).
type Position = (u8, i64, u8);
const BEFORE: Position = (0, 0, 0);
const CREATION: Position = (1, 0, 0);

/// Checks a counter; `None` when it needs the search.
pub(super) fn counter(group: &Group<'_>) -> Option<Result<(), Wrong>> {
    let ops = &group.ops;
    let simple = group.keys.len() == 1
        && ops.iter().all(|op| match op.call {
            Call::Create { cell, .. } => *cell == super::Cell::Counter,
            Call::Add { delta, .. } => *delta > 0,
            Call::Read { .. } => true,
            _ => false,
        });
    let initials: Vec<i64> = ops.iter().filter_map(|op| initial(op)).collect();
    let maybe: Vec<&Op<'_>> = ops.iter().filter(|op| matches!(op.call, Call::Add { .. }) && !op.is_known()).collect();
    let step = maybe.first().and_then(|op| delta(op));
    let fits = maybe.iter().all(|op| delta(op) == step) && initials.iter().all(|i| *i == initials[0]);
    (simple && fits).then(|| check(ops, initials.first().copied(), &maybe, step.unwrap_or(0)))
}

fn initial(op: &Op<'_>) -> Option<i64> {
    match op.call {
        Call::Create { initial, .. } if *op.outcome != Outcome::Created(false) => Some(*initial),
        _ => None,
    }
}

const fn delta(op: &Op<'_>) -> Option<i64> {
    match op.call {
        Call::Add { delta, .. } => Some(*delta),
        _ => None,
    }
}

fn position(op: &Op<'_>) -> Option<Position> {
    match (op.call, op.outcome) {
        (_, Outcome::Unknown) => None,
        (_, Outcome::Absent) => Some(BEFORE),
        (Call::Create { .. }, Outcome::Created(true)) => Some(CREATION),
        // It was there; that is all that is known.
        (Call::Create { .. }, _) => None,
        (Call::Add { .. }, Outcome::Number(sum)) => Some((2, *sum, 0)),
        (_, Outcome::Number(value)) => Some((2, *value, 1)),
        _ => None,
    }
}

/// The calls whose place is told, in their order.
fn line(ops: &[Op<'_>]) -> Vec<(Position, usize)> {
    let mut line: Vec<_> = ops.iter().enumerate().filter_map(|(at, op)| Some((position(op)?, at))).collect();
    line.sort_unstable();
    line
}

/// By when at the latest each place of the line was passed.
fn latest(ops: &[Op<'_>], line: &[(Position, usize)]) -> Vec<u64> {
    let mut latest = vec![u64::MAX; line.len() + 1];
    for at in (0..line.len()).rev() {
        latest[at] = latest[at + 1].min(ops[line[at].1].returned);
    }
    latest
}

fn check(ops: &[Op<'_>], initial: Option<i64>, maybe: &[&Op<'_>], step: i64) -> Result<(), Wrong> {
    let line = line(ops);
    in_time(ops, &line)?;
    let latest = latest(ops, &line);
    created(ops, &line, &latest)?;
    let mut value = initial.unwrap_or(0);
    let mut used = 0;
    let (mut last, mut made) = (None, HashMap::new());
    for (at, (position, op)) in line.iter().enumerate().filter(|(_, (position, _))| position.0 == 2) {
        let op_delta = if position.2 == 0 { delta(&ops[*op]).unwrap_or(0) } else { 0 };
        if position.2 == 0
            && let Some(other) = made.insert(position.1, *op)
        {
            return Err((Reason::SumTwice, vec![other, *op]));
        }
        let missing = position.1 - op_delta - value;
        let shown = last.into_iter().chain([*op]).collect();
        if missing < 0 || (missing > 0 && (step == 0 || missing % step != 0)) {
            return Err((Reason::WrongSum, shown));
        }
        used += if missing > 0 { (missing / step) as usize } else { 0 };
        if maybe.iter().filter(|maybe| maybe.invoked <= latest[at]).count() < used {
            return Err((Reason::WrongSum, shown));
        }
        value = position.1;
        last = Some(*op);
    }
    Ok(())
}

/// Whether nothing stands before what had returned when it was invoked. Reads of one value stand together.
fn in_time(ops: &[Op<'_>], line: &[(Position, usize)]) -> Result<(), Wrong> {
    let mut newest: Option<usize> = None;
    for same in line.chunk_by(|a, b| a.0 == b.0) {
        for (_, op) in same {
            if let Some(newest) = newest
                && ops[*op].returned < ops[newest].invoked
            {
                return Err((Reason::OutOfOrder, vec![newest, *op]));
            }
        }
        newest = same.iter().map(|(_, op)| *op).chain(newest).max_by_key(|op| ops[*op].invoked);
    }
    Ok(())
}

/// Whether somebody created the counter, once, before the first that found it.
fn created(ops: &[Op<'_>], line: &[(Position, usize)], latest: &[u64]) -> Result<(), Wrong> {
    let first_there = line.iter().position(|(position, _)| *position > CREATION).unwrap_or(line.len());
    let before = line.partition_point(|(position, _)| *position == BEFORE);
    let creations: Vec<usize> = line.iter().filter(|(position, _)| *position == CREATION).map(|(_, op)| *op).collect();
    if creations.len() > 1 {
        return Err((Reason::CreatedTwice, creations));
    }
    let found = ops.iter().enumerate().filter(|(_, op)| *op.outcome == Outcome::Created(false));
    let found_by = found.min_by_key(|(_, op)| op.returned);
    let by = latest[first_there].min(found_by.map_or(u64::MAX, |(_, op)| op.returned));
    if by == u64::MAX {
        return Ok(());
    }
    let is_creator = |op: &Op<'_>| initial(op).is_some() && (creations.is_empty() || op.is_known());
    // What found nothing stands before the creation.
    let after = line[..before].iter().map(|(_, op)| ops[*op].invoked).max().unwrap_or(0);
    let late = found_by.filter(|(_, op)| op.returned < after);
    if ops.iter().any(|op| is_creator(op) && op.invoked <= by) && late.is_none() {
        return Ok(());
    }
    let shown = line.get(first_there).map(|(_, op)| *op).into_iter().chain(found_by.map(|(at, _)| at));
    Err((Reason::NotCreated, shown.collect()))
}

/// Checks a sequence that is never deleted; `None` when it needs the search.
pub(super) fn sequence(group: &Group<'_>) -> Option<Result<(), Wrong>> {
    let ops = &group.ops;
    let simple = group.keys.len() == 1
        && ops.iter().all(|op| match op.call {
            Call::Create { cell, .. } => *cell == super::Cell::Sequence,
            Call::Next { .. } => true,
            _ => false,
        });
    simple.then(|| {
        let line = line(ops);
        if let Some(same) = line.windows(2).find(|pair| pair[0].0.0 == 2 && pair[0].0 == pair[1].0) {
            return Err((Reason::NumberTwice, vec![same[0].1, same[1].1]));
        }
        in_time(ops, &line)?;
        created(ops, &line, &latest(ops, &line))?;
        let least = ops.iter().filter_map(initial).min().unwrap_or(i64::MIN);
        match line.iter().find(|(position, _)| position.0 == 2 && position.1 < least) {
            Some((_, op)) => Err((Reason::WrongSum, vec![*op])),
            None => Ok(()),
        }
    })
}

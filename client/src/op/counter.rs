//! Counters and sequences: one Fetch-and-Add or Read on a cell.

use super::cell::{Resolve, Resolved};
use super::{Ask, CellVerb, Context, Done, Input, Step};
use crate::error::Error;
use crate::retry::{ATTEMPTS_MAX, attempt_pause};
use sidewire_common::layout::cell_reference::CellReference;
use sidewire_common::layout::counter_cell::{CounterState, classify};
use sidewire_common::layout::record::Kind;

/// What is wanted of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CounterGoal {
    /// Add to a counter.
    Add(i64),
    /// Read a counter or sequence.
    Read,
    /// The next number of a sequence.
    Next,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    Resolving,
    /// A verb was asked for on this cell.
    Cell(CellReference),
}

/// The machine.
pub(crate) struct Counter {
    goal: CounterGoal,
    stage: Stage,
    resolve: Resolve,
}

impl Counter {
    /// A machine with this goal.
    pub fn new(goal: CounterGoal) -> Self {
        Self { goal, stage: Stage::Idle, resolve: Resolve::default() }
    }

    /// Its name in messages to people.
    pub fn name(&self) -> &'static str {
        match self.goal {
            CounterGoal::Add(_) => "add",
            CounterGoal::Read => "counter read",
            CounterGoal::Next => "next",
        }
    }

    /// Whether a verb that changes the cell is under way.
    pub fn may_have_counted(&self) -> bool {
        matches!(self.stage, Stage::Cell(_)) && self.goal != CounterGoal::Read
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        match self.stage {
            Stage::Idle | Stage::Resolving => self.resolve.seen(),
            Stage::Cell(cell) => format!("waiting for cell {}", cell.index),
        }
    }

    fn kinds(&self) -> (Kind, Kind) {
        match self.goal {
            CounterGoal::Add(_) => (Kind::Counter, Kind::Counter),
            CounterGoal::Read => (Kind::Counter, Kind::Sequence),
            CounterGoal::Next => (Kind::Sequence, Kind::Sequence),
        }
    }

    /// Eats what happened.
    #[inline]
    pub fn on(&mut self, input: Input, cx: &mut Context<'_>) -> Step {
        let (wanted, or) = self.kinds();
        let resolved = match (self.stage, input) {
            (Stage::Cell(_), Input::Cell { old }) => return self.on_word(old, cx),
            (Stage::Cell(_), Input::CellLost) if self.goal == CounterGoal::Read => {
                self.stage = Stage::Idle;
                return Step::Reconnect;
            }
            (Stage::Cell(_), Input::CellLost) => return Step::Finished(Err(Error::Indeterminate { operation: self.name() })),
            (_, Input::Restart) | (Stage::Idle, Input::Resume) => {
                self.stage = Stage::Resolving;
                self.resolve.start(wanted, or, cx)
            }
            (Stage::Resolving, input) => self.resolve.on(input, wanted, or, cx),
            _ => return Step::Wait,
        };
        match resolved {
            Resolved::Cell(cell) => self.ask(cell, cx),
            Resolved::Absent if self.goal == CounterGoal::Read => Step::Finished(Ok(Done::Value(None))),
            Resolved::Absent => Step::Finished(Err(Error::NotFound)),
            Resolved::Step(step) => step,
        }
    }

    fn ask(&mut self, cell: CellReference, cx: &mut Context<'_>) -> Step {
        let verb = match self.goal {
            CounterGoal::Add(delta) => CellVerb::Add(delta),
            CounterGoal::Read => CellVerb::Read,
            CounterGoal::Next => CellVerb::Add(1),
        };
        self.stage = Stage::Cell(cell);
        cx.asks.push(Ask::Cell { index: cell.index, verb });
        Step::Wait
    }

    fn on_word(&mut self, old: u64, cx: &mut Context<'_>) -> Step {
        let result = match (classify(old), self.goal) {
            (CounterState::Frozen, _) => return self.on_frozen(cx),
            (CounterState::Counted(value), CounterGoal::Add(delta)) => Ok(Done::Sum(value.wrapping_add(delta))),
            (CounterState::Counted(value), CounterGoal::Next) => Ok(Done::Sum(value)),
            (CounterState::Counted(value), CounterGoal::Read) => Ok(Done::Value(Some(value))),
            (CounterState::OutOfRange(value), CounterGoal::Add(delta)) => {
                Err(Error::OutOfRange { value: value.wrapping_add(delta) })
            }
            (CounterState::OutOfRange(value), _) => Err(Error::OutOfRange { value }),
        };
        if matches!(self.goal, CounterGoal::Add(_) | CounterGoal::Next) {
            cx.stats.adds.add(1);
        }
        Step::Finished(result)
    }

    /// The cell is retired: the add did not count. The key is resolved again.
    fn on_frozen(&mut self, cx: &mut Context<'_>) -> Step {
        cx.cells.forget(cx.key);
        self.stage = Stage::Idle;
        self.resolve.retired += 1;
        if self.resolve.retired > ATTEMPTS_MAX {
            return Step::Exhausted;
        }
        Step::Pause(attempt_pause(self.resolve.retired))
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::{SEGMENT, World, at, version};
    use super::*;
    use sidewire_common::layout::ack::Outcome;
    use sidewire_common::layout::counter_cell::frozen;
    use sidewire_common::layout::record::State;

    fn world(kind: Kind) -> World {
        let mut world = World::new(b"counter");
        name_cell(&mut world, kind, 5, 1);
        world
    }

    fn name_cell(world: &mut World, kind: Kind, index: u32, v: u64) {
        let value = CellReference { index, generation: 1 }.encode();
        let key = world.key.clone();
        let location = world.record_of(at(v as u32 * 4), kind, &key, &value, v, 0, State::Live(version(v)));
        world.set_slot(SEGMENT, 0, location);
    }

    fn run(world: &mut World, goal: CounterGoal) -> Result<Done, Error> {
        let mut counter = Counter::new(goal);
        world.run(&mut |input, cx| counter.on(input, cx), &mut |_, _, _| {}, &mut |_, _| (Outcome::Busy, 0))
    }

    #[test]
    fn adds_and_reads() {
        let mut world = world(Kind::Counter);
        world.set_cell(5, 40);
        assert!(matches!(run(&mut world, CounterGoal::Add(2)), Ok(Done::Sum(42))));
        assert!(matches!(run(&mut world, CounterGoal::Read), Ok(Done::Value(Some(42)))));
        assert!(matches!(run(&mut world, CounterGoal::Next), Err(Error::WrongKind { .. })));
    }

    #[test]
    fn a_frozen_cell_is_resolved_again() {
        let mut world = world(Kind::Counter);
        world.set_cell(5, 40);
        run(&mut world, CounterGoal::Read).unwrap();
        world.set_cell(5, frozen(40));
        name_cell(&mut world, Kind::Counter, 6, 2);
        world.set_cell(6, 40);
        // The cached record was superseded by then.
        let next = world.record_of(
            at(8),
            Kind::Counter,
            b"counter",
            &CellReference { index: 6, generation: 1 }.encode(),
            2,
            0,
            State::Live(version(2)),
        );
        world.set_state(at(4), State::Superseded { successor: next.successor_tag() });
        assert!(matches!(run(&mut world, CounterGoal::Add(-1)), Ok(Done::Sum(39))));
        assert_eq!(world.cell(6), 39);
    }

    #[test]
    fn a_sequence_tells_the_number_before() {
        let mut world = world(Kind::Sequence);
        world.set_cell(5, 100);
        assert!(matches!(run(&mut world, CounterGoal::Next), Ok(Done::Sum(100))));
        assert!(matches!(run(&mut world, CounterGoal::Next), Ok(Done::Sum(101))));
    }

    #[test]
    fn a_lost_add_is_indeterminate_and_a_lost_read_is_repeated() {
        let mut world = world(Kind::Counter);
        let lost = |goal| {
            let mut world = self::world(Kind::Counter);
            let mut counter = Counter::new(goal);
            let mut lose = true;
            let mut on = |input, cx: &mut Context<'_>| match input {
                Input::Cell { .. } if std::mem::take(&mut lose) => counter.on(Input::CellLost, cx),
                input => counter.on(input, cx),
            };
            world.run(&mut on, &mut |_, _, _| {}, &mut |_, _| (Outcome::Busy, 0))
        };
        assert!(matches!(lost(CounterGoal::Add(1)), Err(Error::Indeterminate { .. })));
        assert!(matches!(lost(CounterGoal::Read), Ok(Done::Value(Some(0)))));
        world.set_slot(SEGMENT, 0, sidewire_common::layout::location::Location::EMPTY);
        assert!(matches!(run(&mut world, CounterGoal::Add(1)), Err(Error::NotFound)));
    }
}

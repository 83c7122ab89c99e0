//! Counters and sequences: one Fetch-and-Add or Read on a cell. Where there are replicas the record holds the count:
//! it is read as any record, and the worker adds.

use super::cell::{Resolve, Resolved};
use super::write::error_of;
use super::{Ask, CellVerb, Context, Done, Input, Step};
use crate::error::Error;
use crate::retry::{Backoff, attempt_pause};
use sidewire_common::layout::ack::{Ack, Outcome};
use sidewire_common::layout::cell_reference::CellReference;
use sidewire_common::layout::counter_cell::{CounterState, classify};
use sidewire_common::layout::record::Kind;
use sidewire_common::layout::request::{Operation, Request};
use std::time::Duration;

/// Pauses after the worker said that it is busy.
const BUSY_PAUSE_FIRST: Duration = Duration::from_micros(200);
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(50);

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
    /// The worker was asked to add.
    Asking,
    /// It was busy, and is asked again.
    Pausing,
}

/// The machine.
pub(crate) struct Counter {
    goal: CounterGoal,
    stage: Stage,
    resolve: Resolve,
    busy: Backoff,
}

impl Counter {
    /// A machine with this goal.
    pub fn new(goal: CounterGoal) -> Self {
        Self { goal, stage: Stage::Idle, resolve: Resolve::default(), busy: Backoff::new(BUSY_PAUSE_FIRST, BUSY_PAUSE_MAX) }
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

    /// Whether the worker was asked to add.
    pub fn has_asked(&self) -> bool {
        self.stage == Stage::Asking
    }

    /// The attachment it was made for has ended, and it was not carried out there.
    pub fn forget_attempt(&mut self) {
        self.stage = Stage::Idle;
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        match self.stage {
            Stage::Idle | Stage::Resolving => self.resolve.seen(),
            Stage::Cell(cell) => format!("waiting for cell {}", cell.index),
            Stage::Asking => "waiting for the worker's ack".into(),
            Stage::Pausing => "waiting for the worker, which was busy".into(),
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
            (Stage::Asking, Input::Ack(ack)) => return self.on_ack(&ack, cx),
            (Stage::Pausing, Input::Resume) => return self.ask_worker(cx),
            // Its request is under way; a Read that it needs no more has failed.
            (Stage::Asking | Stage::Pausing, Input::Restart) => return Step::Wait,
            (_, Input::Restart) | (Stage::Idle, Input::Resume) => {
                self.stage = Stage::Resolving;
                self.resolve.start(wanted, or, self.delta().is_some(), cx)
            }
            (Stage::Resolving, input) => self.resolve.on(input, wanted, or, self.delta().is_some(), cx),
            _ => return Step::Wait,
        };
        match resolved {
            Resolved::Cell(cell) => self.ask(cell, cx),
            Resolved::Count(count) => Step::Finished(Ok(Done::Value(Some(count)))),
            Resolved::Counted => self.ask_worker(cx),
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

    /// What is added.
    fn delta(&self) -> Option<i64> {
        match self.goal {
            CounterGoal::Add(delta) => Some(delta),
            CounterGoal::Next => Some(1),
            CounterGoal::Read => None,
        }
    }

    fn ask_worker(&mut self, cx: &mut Context<'_>) -> Step {
        self.stage = Stage::Asking;
        let (kind, _) = self.kinds();
        let argument = self.delta().unwrap_or(0);
        cx.asks.push(Ask::Request(Request { kind, argument, ..Request::new(Operation::Add, 0) }));
        Step::Wait
    }

    fn on_ack(&mut self, ack: &Ack, cx: &mut Context<'_>) -> Step {
        if ack.outcome == Outcome::Busy {
            self.stage = Stage::Pausing;
            return Step::Pause(self.busy.pause());
        }
        if ack.outcome == Outcome::Done {
            cx.stats.adds.add(1);
        }
        Step::Finished(self.settled(ack))
    }

    /// How the add has ended that the worker was asked for.
    pub fn settled(&self, ack: &Ack) -> Result<Done, Error> {
        let before = ack.figures[0] as i64;
        match (ack.outcome, self.goal) {
            (Outcome::Done, CounterGoal::Add(delta)) => Ok(Done::Asked(before.wrapping_add(delta))),
            (Outcome::Done, _) => Ok(Done::Asked(before)),
            (Outcome::OutOfRange, CounterGoal::Add(delta)) => Err(Error::OutOfRange { value: before.wrapping_add(delta) }),
            _ => Err(error_of(ack, self.kinds().0, None, self.name())),
        }
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
        // Until a new primary has opened nothing changes: the deadline is the bound.
        self.resolve.retired = self.resolve.retired.saturating_add(1);
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

    /// A record that holds the count itself: read as it is, added to by the worker.
    #[test]
    fn a_count_in_the_record_is_read_there_and_added_to_by_the_worker() {
        let mut world = World::new(b"counter");
        let key = world.key.clone();
        let value = [&7_i64.to_le_bytes()[..], &[0; 8]].concat();
        let location = world.record_of(at(4), Kind::Counter, &key, &value, 1, 0, State::Live(version(1)));
        world.set_slot(SEGMENT, 0, location);
        assert!(matches!(run(&mut world, CounterGoal::Read), Ok(Done::Value(Some(7)))));
        let mut asked = Vec::new();
        for outcome in [Outcome::Busy, Outcome::Done] {
            let mut outcomes = vec![Outcome::Done, outcome];
            let mut counter = Counter::new(CounterGoal::Add(5));
            let mut on = |input, cx: &mut Context<'_>| counter.on(input, cx);
            let sum = world.run(&mut on, &mut |_, _, _| {}, &mut |_, request| {
                asked.push((request.operation, request.argument, request.kind));
                (outcomes.pop().unwrap_or(Outcome::Done), 0)
            });
            // The script's worker tells 0 as the value before.
            assert!(matches!(sum, Ok(Done::Asked(5))), "{sum:?}");
        }
        assert_eq!(asked, [(Operation::Add, 5, Kind::Counter); 3]);
        assert!(matches!(run(&mut world, CounterGoal::Next), Err(Error::WrongKind { .. })));
        assert!(matches!(run(&mut world, CounterGoal::Read), Ok(Done::Value(Some(7)))), "the count itself is never cached");
    }
}

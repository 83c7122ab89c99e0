//! The search for an order: Lowe's just-in-time linearization.
//!
//! Time is walked through once. At each moment the search holds every *configuration* that explains all that has
//! returned: a state, and the open calls that it has already placed. When a call returns, each configuration must place
//! it, after any others that are open. What has no effect where it fits is placed at once. A call of which nobody knows may
//! be placed at any time or never; a configuration that reached the same state with fewer of them stands for both.

use super::event::{Call, Outcome};
use super::model::State;
use super::prepare::{Group, Op};
use std::collections::HashMap;

/// Calls about one group that are open at once.
pub(super) const OPEN_MAX: usize = 128;

/// One explanation of all that has returned.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub state: State,
    /// Open calls that are placed, by their place among the open ones.
    placed: u128,
    /// Calls of which nobody knows that are placed, rising.
    used: Vec<usize>,
}

/// How a search ended.
pub(super) enum Found {
    /// An order explains everything.
    Order,
    /// Nothing explains `op`, which came back when all was in one of `states`.
    Nothing { op: usize, states: Vec<State> },
    /// More than the bound: of configurations, or of open calls.
    TooMuch,
}

#[derive(Default)]
struct Configurations(HashMap<(State, u128), Vec<Vec<usize>>>);

impl Configurations {
    /// False when one that is there stands for it.
    fn add(&mut self, one: &Configuration) -> bool {
        let same = self.0.entry((one.state.clone(), one.placed)).or_default();
        let is_part = |few: &[usize], many: &[usize]| few.iter().all(|u| many.binary_search(u).is_ok());
        if same.iter().any(|used| is_part(used, &one.used)) {
            return false;
        }
        same.retain(|used| !is_part(&one.used, used));
        same.push(one.used.clone());
        true
    }

    fn into_vec(self) -> Vec<Configuration> {
        let all = self.0.into_iter();
        all.flat_map(|((state, placed), some)| {
            some.into_iter().map(move |used| Configuration { state: state.clone(), placed, used })
        })
        .collect()
    }
}

struct Search<'a, 'b> {
    ops: &'b [Op<'a>],
    /// Open calls that will return.
    open: Vec<Option<usize>>,
    /// Calls of which nobody knows.
    maybe: Vec<usize>,
    configurations: Vec<Configuration>,
    explored: usize,
}

/// Searches for an order of the group's calls; adds what it explored to `explored`.
pub(super) fn search(group: &Group<'_>, bound: usize, explored: &mut usize) -> Found {
    let start = Configuration { state: State::empty(group.keys.len()), placed: 0, used: Vec::new() };
    let mut search =
        Search { ops: &group.ops, open: vec![None; OPEN_MAX], maybe: Vec::new(), configurations: vec![start], explored: 0 };
    let found = search.run(bound);
    *explored += search.explored;
    found
}

/// Moments of invocation and return, in their order; at one moment invocations come first.
fn moments(ops: &[Op<'_>]) -> Vec<(u64, bool, usize)> {
    let mut moments = Vec::with_capacity(2 * ops.len());
    for (at, op) in ops.iter().enumerate() {
        moments.push((op.invoked, false, at));
        if op.is_known() {
            moments.push((op.returned, true, at));
        }
    }
    moments.sort_unstable();
    moments
}

impl Search<'_, '_> {
    fn run(&mut self, bound: usize) -> Found {
        for (now, returns, op) in moments(self.ops) {
            if !returns {
                if !self.ops[op].is_known() {
                    self.maybe.push(op);
                } else if let Some(free) = self.open.iter().position(Option::is_none) {
                    self.open[free] = Some(op);
                } else {
                    return Found::TooMuch;
                }
                continue;
            }
            let place = self.open.iter().position(|o| *o == Some(op)).expect("it was invoked before it returned");
            let before = std::mem::take(&mut self.configurations);
            let Some(after) = self.place(&before, place, now, bound) else { return Found::TooMuch };
            if after.is_empty() {
                let states = before.into_iter().map(|one| one.state).collect();
                return Found::Nothing { op, states };
            }
            self.configurations = after;
            self.open[place] = None;
            self.forget(now);
        }
        Found::Order
    }

    /// All configurations that have placed the open call at `place`; `None` when there are too many.
    fn place(&mut self, from: &[Configuration], place: usize, now: u64, bound: usize) -> Option<Vec<Configuration>> {
        let bit = 1 << place;
        let (mut seen, mut done) = (Configurations::default(), Configurations::default());
        let mut todo: Vec<Configuration> = from.to_vec();
        while let Some(mut one) = todo.pop() {
            self.explored += 1;
            if self.explored > bound {
                return None;
            }
            self.place_looks(&mut one, now);
            if one.placed & bit != 0 {
                one.placed &= !bit;
                done.add(&one);
                continue;
            }
            if !seen.add(&one) {
                continue;
            }
            for (at, op) in self.open.iter().enumerate() {
                let Some(op) = op.filter(|_| one.placed & (1 << at) == 0) else { continue };
                if let Some(state) = self.step(&one, op, now) {
                    todo.push(Configuration { state, placed: one.placed | (1 << at), used: one.used.clone() });
                }
            }
            self.place_maybes(&one, now, &mut todo);
        }
        Some(done.into_vec())
    }

    /// Places every open call that fits and changes nothing: whatever comes later may come after it.
    fn place_looks(&self, one: &mut Configuration, now: u64) {
        for (at, op) in self.open.iter().enumerate() {
            let Some(op) = op.filter(|_| one.placed & (1 << at) == 0) else { continue };
            // A lock that is free now may be broken when it is held, later.
            if matches!(self.ops[op].call, Call::BreakLock { .. }) {
                continue;
            }
            if one.state.after(&self.ops[op], now).is_some_and(|state| state == one.state) {
                one.placed |= 1 << at;
            }
        }
    }

    /// Places one call of which nobody knows, of each class the first that is left.
    fn place_maybes(&self, one: &Configuration, now: u64, todo: &mut Vec<Configuration>) {
        let mut classes: Vec<u32> = Vec::new();
        for op in &self.maybe {
            let class = self.ops[*op].class;
            if classes.contains(&class) || self.ops[*op].until < now {
                continue;
            }
            let Err(at) = one.used.binary_search(op) else { continue };
            classes.push(class);
            if let Some(state) = self.step(one, *op, now) {
                let mut used = one.used.clone();
                used.insert(at, *op);
                todo.push(Configuration { state, placed: one.placed, used });
            }
        }
    }

    /// The state after `op`, unless an open write of an earlier version would come too late.
    fn step(&self, one: &Configuration, op: usize, now: u64) -> Option<State> {
        let op = &self.ops[op];
        let state = one.state.after(op, now)?;
        if state == one.state && !op.is_known() {
            return None;
        }
        let is_late = self.open.iter().enumerate().any(|(at, other)| {
            other.is_some_and(|other| {
                let other = &self.ops[other];
                let waits = one.placed & (1 << at) == 0 && other.slot == op.slot;
                waits && matches!(other.outcome, Outcome::Written { version } if *version < op.version)
            })
        });
        (!is_late).then_some(state)
    }

    /// Forgets the calls of which nobody knows that every configuration has placed, and those that can do nothing more.
    fn forget(&mut self, now: u64) {
        let all = &mut self.configurations;
        let ops = self.ops;
        self.maybe.retain(|op| {
            let is_over = ops[*op].until < now;
            let is_past = is_over || all.iter().all(|one| one.used.contains(op) || one.state.is_past(&ops[*op]));
            if is_past {
                all.iter_mut().for_each(|one| one.used.retain(|used| used != op));
            }
            !is_past
        });
    }
}

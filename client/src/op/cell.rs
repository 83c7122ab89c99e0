//! From a key to its cell: the part that counters and locks share.

use super::{Context, Done, Found, Get, Input, Step, check_kind};
use crate::error::Error;
use sidewire_common::layout::cell_reference::CellReference;
use sidewire_common::layout::count;
use sidewire_common::layout::record::Kind;

/// Remembered in the place of the cell of a key whose record holds the count.
const COUNTED: CellReference = CellReference { index: u32::MAX, generation: u32::MAX };

/// How a search for a cell goes on.
pub(crate) enum Resolved {
    /// This is it.
    Cell(CellReference),
    /// The record holds the count itself: this was it.
    Count(i64),
    /// The same, and what is wanted is not to read it.
    Counted,
    /// The key holds nothing.
    Absent,
    /// Not yet, or it failed.
    Step(Step),
}

/// Searches the cell of a key that must hold one of two kinds.
#[derive(Default)]
pub(crate) struct Resolve {
    get: Get,
    /// Times that a cell turned out to be retired.
    pub retired: u32,
}

impl Resolve {
    /// Begins, from what the session remembers if it may.
    pub fn start(&mut self, wanted: Kind, or: Kind, changes: bool, cx: &mut Context<'_>) -> Resolved {
        for kind in [wanted, or] {
            if let Some(cell) = cx.cells.find(cx.key, kind as u8, cx.reign) {
                match cell {
                    COUNTED if changes => return Resolved::Counted,
                    COUNTED => {}
                    cell => return Resolved::Cell(cell),
                }
            }
        }
        self.get.reset();
        self.on(Input::Resume, wanted, or, changes, cx)
    }

    /// Eats what happened while it searches.
    pub fn on(&mut self, input: Input, wanted: Kind, or: Kind, changes: bool, cx: &mut Context<'_>) -> Resolved {
        let record = match self.get.on(input, cx) {
            Step::Finished(Ok(Done::Found(Found::Record(record)))) => record,
            Step::Finished(Ok(Done::Found(Found::Absent))) => return Resolved::Absent,
            other => return Resolved::Step(other),
        };
        let kind = record.whole.kind;
        if kind != or
            && let Err(error) = check_kind(wanted, kind)
        {
            return Resolved::Step(Step::Finished(Err(error)));
        }
        if kind != Kind::Lock
            && let Some(count) = count::decode(record.value())
        {
            cx.cells.learned(cx.key, kind as u8, cx.reign, COUNTED);
            return if changes { Resolved::Counted } else { Resolved::Count(count) };
        }
        match CellReference::decode(record.value(), cx.cell_count) {
            Some(cell) => {
                cx.cells.learned(cx.key, kind as u8, cx.reign, cell);
                Resolved::Cell(cell)
            }
            None => {
                let reason = format!("the record of a {} names no cell of {}", kind.name(), cx.cell_count);
                Resolved::Step(Step::Finished(Err(Error::Layout { reason })))
            }
        }
    }

    /// What it waits for, for people.
    pub fn seen(&self) -> String {
        format!("{} of the record that names the cell", self.get.seen())
    }
}

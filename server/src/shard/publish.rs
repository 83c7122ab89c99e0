//! Publication: the one order in which a write becomes visible.
//!
//! | write | stores, each after the one before |
//! | --- | --- |
//! | update | body whole, *pending* → old := *superseded* → new := *live* → slot := new |
//! | insert | body whole, *pending* → slot := new → new := *live* |
//! | delete | old := *deleted* → slot := empty |
//!
//! At most one record of a key is live at any moment; a Get linearizes where it reads the state word. The model
//! behind the order tried the others: state before slot is wrong for inserts, slot before state for updates.

use super::index::{Found, SlotAt};
use crate::worker::Memory;
use sidewire_common::layout::location::Location;
use sidewire_common::layout::record::{State, Version};

/// A record whose body is whole, in state *pending*, at a place that nobody knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub location: Location,
    pub version: Version,
}

pub(super) fn update(memory: &mut Memory, old: &Found, new: Prepared) {
    let successor = new.location.successor_tag();
    memory.publish_state(old.location.place(), State::Superseded { successor });
    memory.publish_state(new.location.place(), State::Live(new.version));
    memory.publish(old.slot.segment, old.slot.offset, new.location.raw());
}

pub(super) fn insert(memory: &mut Memory, slot: SlotAt, new: Prepared) {
    memory.publish(slot.segment, slot.offset, new.location.raw());
    memory.publish_state(new.location.place(), State::Live(new.version));
}

pub(super) fn delete(memory: &mut Memory, old: &Found) {
    memory.publish_state(old.location.place(), State::Deleted(old.header.version));
    memory.publish(old.slot.segment, old.slot.offset, Location::EMPTY.raw());
}

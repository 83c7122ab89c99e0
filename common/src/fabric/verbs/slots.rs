//! Endpoints of a port by id: an index and a generation, so that an id never names two endpoints.

use crate::fabric::EndpointId;

/// Bits of an id that are the index of a slot; the others count the slot's lives.
const INDEX_BITS: u32 = 18;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MAX: u32 = u32::MAX >> INDEX_BITS;

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A table whose keys are never used twice. A slot that has lived through all its generations is retired.
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// The id that the next insertion will have; none when all ids are used up.
    pub(super) fn next_id(&self) -> Option<EndpointId> {
        match self.free.last() {
            Some(&index) => Some(id(index, self.slots[index as usize].generation)),
            None => u32::try_from(self.slots.len()).ok().filter(|&n| n <= INDEX_MASK).map(|n| id(n, 0)),
        }
    }

    /// Inserts `value` under [`Slots::next_id`].
    pub(super) fn insert(&mut self, value: T) -> Option<EndpointId> {
        let id = self.next_id()?;
        match self.free.pop() {
            Some(index) => self.slots[index as usize].value = Some(value),
            None => self.slots.push(Slot { generation: 0, value: Some(value) }),
        }
        Some(id)
    }

    #[inline]
    pub(super) fn get(&self, id: EndpointId) -> Option<&T> {
        let slot = self.slots.get((id.0 & INDEX_MASK) as usize)?;
        if slot.generation == id.0 >> INDEX_BITS { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: EndpointId) -> Option<&mut T> {
        let slot = self.slots.get_mut((id.0 & INDEX_MASK) as usize)?;
        if slot.generation == id.0 >> INDEX_BITS { slot.value.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, id: EndpointId) -> Option<T> {
        self.get_mut(id)?;
        let index = id.0 & INDEX_MASK;
        let slot = &mut self.slots[index as usize];
        let value = slot.value.take();
        if slot.generation < GENERATION_MAX {
            slot.generation += 1;
            self.free.push(index);
        }
        value
    }

    /// The ids of all values.
    pub(super) fn ids(&self) -> Vec<EndpointId> {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.value.is_some());
        used.filter_map(|(index, slot)| u32::try_from(index).ok().map(|index| id(index, slot.generation))).collect()
    }
}

const fn id(index: u32, generation: u32) -> EndpointId {
    EndpointId(generation << INDEX_BITS | index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_id_comes_twice_and_old_ones_name_nothing() {
        let mut slots = Slots::new();
        let mut seen = HashSet::new();
        for round in 0..3 * GENERATION_MAX {
            let id = slots.insert(round).unwrap();
            assert!(seen.insert(id));
            assert_eq!(slots.remove(id), Some(round));
            assert_eq!(slots.get(id), None);
            assert_eq!(slots.remove(id), None);
        }
    }

    #[test]
    fn the_next_id_is_foretold() {
        let mut slots = Slots::new();
        let first = slots.next_id();
        assert_eq!(slots.insert('a'), first);
        let second = slots.insert('b').unwrap();
        slots.remove(first.unwrap());
        assert_eq!(slots.next_id(), slots.insert('c'));
        assert_eq!((slots.ids().len(), slots.get(second)), (2, Some(&'b')));
    }
}

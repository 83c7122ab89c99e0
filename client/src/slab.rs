//! Slots that are used again, under names that never are.

/// Names an entry; a name of an entry that is gone finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SlabKey {
    slot: u32,
    life: u32,
}

impl SlabKey {
    /// A name that no entry has.
    pub const NOBODY: Self = Self { slot: u32::MAX, life: u32::MAX };

    /// The name in one word.
    #[inline]
    pub const fn raw(self) -> u64 {
        (self.life as u64) << 32 | self.slot as u64
    }

    /// The name with this word.
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        Self { slot: raw as u32, life: (raw >> 32) as u32 }
    }
}

struct Slot<T> {
    life: u32,
    used: bool,
    value: T,
}

/// Entries whose memory is kept when they end, so that the next one need not allocate.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Entries in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a slot; `reuse` makes its last value a new one, `make` makes the first.
    #[inline]
    pub fn take(&mut self, make: impl FnOnce() -> T) -> (SlabKey, &mut T) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).expect("bounded by the work in flight");
                self.slots.push(Slot { life: 0, used: false, value: make() });
                slot
            }
        };
        let entry = &mut self.slots[slot as usize];
        entry.used = true;
        (SlabKey { slot, life: entry.life }, &mut entry.value)
    }

    /// The entry of this name, if it is not gone.
    #[inline]
    pub fn find(&mut self, key: SlabKey) -> Option<&mut T> {
        self.slots.get_mut(key.slot as usize).filter(|s| s.used && s.life == key.life).map(|s| &mut s.value)
    }

    /// The same, to look at.
    #[inline]
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        self.slots.get(key.slot as usize).filter(|s| s.used && s.life == key.life).map(|s| &s.value)
    }

    /// Ends an entry; its value stays for the next one.
    #[inline]
    pub fn release(&mut self, key: SlabKey) {
        if let Some(entry) = self.slots.get_mut(key.slot as usize).filter(|s| s.used && s.life == key.life) {
            entry.used = false;
            entry.life = entry.life.wrapping_add(1);
            self.free.push(key.slot);
        }
    }

    /// All entries in use.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter(|slot| slot.used).map(|slot| &slot.value)
    }

    /// The same, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter(|slot| slot.used).map(|slot| &mut slot.value)
    }

    /// Names of all entries in use.
    pub fn keys(&self) -> Vec<SlabKey> {
        let used = self.slots.iter().enumerate().filter(|(_, s)| s.used);
        used.map(|(slot, s)| SlabKey { slot: slot as u32, life: s.life }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_dies_with_its_entry() {
        let mut slab = Slab::<Vec<u8>>::default();
        let (one, value) = slab.take(Vec::new);
        value.extend([1, 2, 3]);
        assert_eq!(SlabKey::from_raw(one.raw()), one);
        slab.release(one);
        assert!(slab.find(one).is_none());
        let (two, value) = slab.take(Vec::new);
        assert!(value.capacity() >= 3, "memory is kept");
        assert_ne!(one, two);
        slab.release(one);
        assert!(slab.find(two).is_some());
        assert_eq!((slab.len(), slab.keys()), (1, vec![two]));
    }
}

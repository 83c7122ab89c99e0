//! Size classes: each 64-byte unit up to 1 KiB, then eight steps a doubling up to 32 KiB, then whole pages.

use sidewire_common::layout::record::UNIT_BYTES;

/// Bytes of a heap page: what slabs and large records are made of.
pub const PAGE_BYTES: usize = 16 << 10;
/// Units of a page.
pub const PAGE_UNITS: u32 = (PAGE_BYTES / UNIT_BYTES) as u32;
/// Largest block that is carved from a slab, bytes; larger records take whole pages.
pub const BLOCK_BYTES_MAX: usize = 32 << 10;

const FINE_UNITS: usize = 16;
const STEPS: usize = 8;
const DOUBLINGS: usize = (BLOCK_BYTES_MAX / UNIT_BYTES / FINE_UNITS).ilog2() as usize;
/// Number of slab classes.
pub const CLASSES: usize = FINE_UNITS + DOUBLINGS * STEPS;

/// How a record of a certain size is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeClass {
    /// In a block of this class.
    Block(usize),
    /// In this many pages of its own.
    Pages(u32),
}

/// The class for a record of `bytes` bytes.
#[must_use]
pub fn class_of(bytes: usize) -> SizeClass {
    let units = bytes.div_ceil(UNIT_BYTES).max(1);
    if units <= FINE_UNITS {
        return SizeClass::Block(units - 1);
    }
    if units * UNIT_BYTES > BLOCK_BYTES_MAX {
        return SizeClass::Pages(u32::try_from(bytes.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX));
    }
    // The doubling that `units` lies in, (16 << d, 32 << d], and the step within it.
    let doubling = ((units - 1) / FINE_UNITS).ilog2() as usize;
    let step_units = (FINE_UNITS << doubling) / STEPS;
    let step = (units - (FINE_UNITS << doubling)).div_ceil(step_units);
    SizeClass::Block(FINE_UNITS + doubling * STEPS + step - 1)
}

/// Units of a block of `class`.
#[must_use]
pub const fn block_units(class: usize) -> u32 {
    assert!(class < CLASSES);
    if class < FINE_UNITS {
        return class as u32 + 1;
    }
    let (doubling, step) = ((class - FINE_UNITS) / STEPS, (class - FINE_UNITS) % STEPS + 1);
    ((FINE_UNITS << doubling) + step * ((FINE_UNITS << doubling) / STEPS)) as u32
}

/// Pages of a slab of `class`: a power of two, so that a block's slab is found by rounding down; at least 64 KiB,
/// more where the unused tail would be over 3 %.
#[must_use]
pub const fn slab_pages(class: usize) -> u32 {
    let block = block_units(class);
    let mut pages = 4;
    while pages < 32 && (pages * PAGE_UNITS) % block * 32 > pages * PAGE_UNITS {
        pages *= 2;
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_fits_its_block_with_little_waste(bytes in 1usize..200_000) {
            match class_of(bytes) {
                SizeClass::Block(class) => {
                    let block = block_units(class) as usize * UNIT_BYTES;
                    prop_assert!(block >= bytes);
                    prop_assert!(block <= bytes + bytes / 8 + UNIT_BYTES);
                    prop_assert!(class == 0 || (block_units(class - 1) as usize * UNIT_BYTES) < bytes);
                }
                SizeClass::Pages(pages) => prop_assert_eq!(pages as usize, bytes.div_ceil(PAGE_BYTES)),
            }
        }
    }

    #[test]
    fn classes_rise_and_slabs_waste_little() {
        for class in 0..CLASSES {
            assert!(class == 0 || block_units(class) > block_units(class - 1));
            let (slab, block) = (slab_pages(class) * PAGE_UNITS, block_units(class));
            assert!(slab % block * 12 <= slab, "class {class} wastes {} of {slab} units", slab % block);
        }
        assert_eq!(block_units(CLASSES - 1) as usize * UNIT_BYTES, BLOCK_BYTES_MAX);
    }
}

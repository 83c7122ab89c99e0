//! Where chunks and cells lie.

use crate::error::Error;
use sidewire_common::fabric::{RemoteAddr, RemoteRegion};
use sidewire_common::layout::counter_cell::CELL_BYTES;
use sidewire_common::layout::location::Place;
use sidewire_common::layout::record::UNIT_BYTES;
use sidewire_proto::convert::{RegionUse, UsedRegion};

/// The regions of one layout epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegionTable {
    chunks: Vec<Option<RemoteRegion>>,
    cells: Option<RemoteRegion>,
    cell_count: u32,
}

impl RegionTable {
    /// Sorts regions by their use.
    ///
    /// # Errors
    /// When chunk 0 or the cells are missing, or are shorter than they must be.
    pub fn new(regions: &[UsedRegion], cell_count: u32) -> Result<Self, Error> {
        let mut table = Self { cell_count, ..Self::default() };
        for region in regions {
            match region.used_for {
                RegionUse::Index | RegionUse::Heap => {
                    let chunk = usize::from(region.chunk);
                    if table.chunks.len() <= chunk {
                        table.chunks.resize(chunk + 1, None);
                    }
                    table.chunks[chunk] = Some(region.region);
                }
                RegionUse::Cells => table.cells = Some(region.region),
                RegionUse::Staging => {}
            }
        }
        if table.chunks.first().is_none_or(Option::is_none) {
            return Err(Error::Layout { reason: "the server told no chunk 0".into() });
        }
        let cells = table.cells.map_or(0, |r| r.bytes);
        if cells < u64::from(cell_count) * CELL_BYTES as u64 {
            let reason = format!("{cell_count} cells do not fit the {cells} bytes that the server told");
            return Err(Error::Layout { reason });
        }
        Ok(table)
    }

    /// The place of `bytes` bytes at `offset` behind `place`, if they lie within a known chunk.
    #[inline]
    pub fn at(&self, place: Place, offset: u64, bytes: u64) -> Option<RemoteAddr> {
        self.chunks.get(usize::from(place.chunk))?.as_ref()?.at(place.offset() + offset, bytes)
    }

    /// `bytes` bytes of chunk 0 for raw reads, `step` units from its start as far as it is long enough.
    pub fn sample(&self, bytes: u64, step: u64) -> Option<RemoteAddr> {
        let chunk = self.chunks.first()?.as_ref()?;
        let choices = chunk.bytes.checked_sub(bytes)? / UNIT_BYTES as u64 + 1;
        chunk.at(step % choices * UNIT_BYTES as u64, bytes)
    }

    /// A cell's word.
    #[inline]
    pub fn cell(&self, index: u32) -> Option<RemoteAddr> {
        if index >= self.cell_count {
            return None;
        }
        self.cells.as_ref()?.at(u64::from(index) * CELL_BYTES as u64, 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(used_for: RegionUse, chunk: u16, bytes: u64) -> UsedRegion {
        let base = RemoteAddr { addr: 0x1000 * (u64::from(chunk) + 1), rkey: 7 };
        UsedRegion { used_for, chunk, region: RemoteRegion { base, bytes, atomic: used_for == RegionUse::Cells } }
    }

    #[test]
    fn nothing_is_addressed_outside_what_was_told() {
        let told = [region(RegionUse::Index, 0, 256), region(RegionUse::Heap, 2, 128), region(RegionUse::Cells, 9, 128)];
        let table = RegionTable::new(&told, 2).unwrap();
        let at = |chunk, unit, bytes| table.at(Place { chunk, unit }, 0, bytes);
        assert_eq!(at(2, 1, 64), Some(RemoteAddr { addr: 0x3040, rkey: 7 }));
        assert_eq!(at(2, 1, 65), None);
        assert_eq!((at(1, 0, 8), at(3, 0, 8)), (None, None));
        assert_eq!(table.cell(1), Some(RemoteAddr { addr: 0xa040, rkey: 7 }));
        assert_eq!(table.cell(2), None);
        assert!(RegionTable::new(&told, 3).is_err());
        assert!(RegionTable::new(&told[1..], 2).is_err());
    }
}

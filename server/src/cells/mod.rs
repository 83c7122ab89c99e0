//! Cells: where counters, sequences and locks live.
//!
//! A cell that clients can reach is changed by the executor of atomics only. The CPU stores to a cell in one
//! case: before it is given out, when every live client has acknowledged that it knows it no more.

use crate::epochs::Epochs;
use crate::store::StartError;
use parking_lot::Mutex;
use sidewire_common::fabric::{Access, Fabric, Registered, RemoteAddr, RemoteRegion};
use sidewire_common::layout::cell_reference::CellReference;
use sidewire_common::layout::counter_cell::{self, CELL_BYTES};
use sidewire_common::layout::lock_word::{LockState, LockWord};
use sidewire_common::layout::record::Kind;
use sidewire_common::memory::{HugepageMode, Mapping, Seals, View};
use std::collections::VecDeque;
use std::sync::Arc;

/// Fencing tokens begin at the time of creation in units of 2^-14 s since this moment (2025-01-01, Unix seconds),
/// so that they rise over restarts as long as a lock is granted less than 16,384 times a second on average.
const TOKEN_ORIGIN: u64 = 1_735_689_600;
const TOKENS_PER_SECOND: u128 = 1 << 14;

struct Slot {
    generation: u32,
    kind: Option<Kind>,
}

struct Inner {
    slots: Vec<Slot>,
    free: Vec<u32>,
    retired: VecDeque<(u64, u32)>,
}

/// All cells of a server.
pub struct Cells {
    view: View,
    registered: Registered,
    epochs: Arc<Epochs>,
    inner: Mutex<Inner>,
}

/// All cells are in use, or wait for an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoCell {
    /// Cells in use.
    pub in_use: u32,
    /// Cells there are.
    pub count: u32,
    /// Whether some come free by themselves soon.
    pub soon: bool,
}

/// Cells of a clustered server that serve no key: a copy's records name them until it is made primary. Their words tell a
/// client that comes too early to resolve its key again.
const RESERVED: u32 = 2;
const RESERVED_LOCK: u32 = 0;
const RESERVED_COUNTER: u32 = 1;

impl Cells {
    /// Takes the cells out of use that the records of copies name.
    pub fn reserve(&self) {
        let mut inner = self.inner.lock();
        inner.free.retain(|&index| index >= RESERVED);
        for (index, word) in [(RESERVED_LOCK, LockWord::free(0).retired().raw()), (RESERVED_COUNTER, counter_cell::frozen(0))] {
            self.view.store_release(index as usize * CELL_BYTES, word).expect("there are cells");
        }
    }

    /// What a copy's record of this kind names.
    #[must_use]
    pub fn reserved(kind: Kind) -> CellReference {
        let index = if kind == Kind::Lock { RESERVED_LOCK } else { RESERVED_COUNTER };
        CellReference { index, generation: 0 }
    }

    /// Whether a cell that a record names is one of those.
    #[must_use]
    pub fn is_reserved(&self, index: u32) -> bool {
        index < RESERVED && self.inner.lock().slots[index as usize].generation == 0
    }

    /// The highest token that any lock has granted, as the CPU sees them now; 0 without locks.
    #[must_use]
    pub fn highest_token(&self) -> u64 {
        let inner = self.inner.lock();
        let locks = inner.slots.iter().enumerate().filter(|(_, slot)| slot.kind == Some(Kind::Lock));
        locks.map(|(index, _)| LockWord::from_raw(self.peek(index as u32)).token()).max().unwrap_or(0)
    }

    /// Maps and registers `count` cells, on normal pages since clients write there.
    ///
    /// # Errors
    /// When memory cannot be mapped or registered.
    pub fn new(count: u32, fabric: &dyn Fabric, epochs: Arc<Epochs>) -> Result<Self, StartError> {
        let bytes = count as usize * CELL_BYTES;
        let mapping = Arc::new(Mapping::memfd("cells", bytes, HugepageMode::Off, Seals::Shared)?);
        let registered = fabric.register(&mapping, Access::RemoteReadAtomic)?;
        let slots = (0..count).map(|_| Slot { generation: 0, kind: None }).collect();
        let inner = Inner { slots, free: (0..count).rev().collect(), retired: VecDeque::new() };
        Ok(Self { view: View::whole(mapping), registered, epochs, inner: Mutex::new(inner) })
    }

    /// Cells there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.inner.lock().slots.len() as u32
    }

    /// Cells in use.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        let inner = self.inner.lock();
        (inner.slots.len() - inner.free.len() - inner.retired.len()) as u32
    }

    /// The region that clients reach.
    #[must_use]
    pub fn region(&self) -> RemoteRegion {
        self.registered.remote()
    }

    /// A cell's address for one-sided operations, the server's own through a loopback endpoint included.
    #[must_use]
    pub fn remote(&self, index: u32) -> RemoteAddr {
        self.region().base.plus(u64::from(index) * CELL_BYTES as u64)
    }

    /// A look at a cell by the CPU: a guess for a compare-and-swap, or a figure for people.
    #[must_use]
    pub fn peek(&self, index: u32) -> u64 {
        self.view.load(index as usize * CELL_BYTES).expect("cells are given out within their region")
    }

    /// Takes a cell that no client knows and gives it its first word.
    ///
    /// # Errors
    /// When all are in use.
    pub fn take(&self, kind: Kind, word: u64) -> Result<CellReference, NoCell> {
        let mut inner = self.inner.lock();
        while let Some((_, index)) = inner.retired.pop_front_if(|(after, _)| self.epochs.is_over_for_cells(*after)) {
            inner.free.push(index);
        }
        let Some(index) = inner.free.pop() else {
            let (count, waiting) = (inner.slots.len() as u32, inner.retired.len() as u32);
            return Err(NoCell { in_use: count - waiting, count, soon: waiting > 0 });
        };
        self.view.store_release(index as usize * CELL_BYTES, word).expect("cells are given out within their region");
        let slot = &mut inner.slots[index as usize];
        slot.kind = Some(kind);
        slot.generation = slot.generation.wrapping_add(1);
        Ok(CellReference { index, generation: slot.generation })
    }

    /// Gives a cell back after its record was unpublished; it serves again in a later epoch.
    pub fn retire(&self, index: u32) {
        if self.is_reserved(index) {
            return;
        }
        let after = self.epochs.retire();
        let mut inner = self.inner.lock();
        inner.slots[index as usize].kind = None;
        inner.retired.push_back((after, index));
    }

    /// Locks that this holder has, as the CPU sees them now.
    #[must_use]
    pub fn held_by(&self, holder: u32) -> Vec<(u32, LockWord)> {
        let inner = self.inner.lock();
        let locks = inner.slots.iter().enumerate().filter(|(_, slot)| slot.kind == Some(Kind::Lock));
        locks
            .map(|(index, _)| (index as u32, LockWord::from_raw(self.peek(index as u32))))
            .filter(|(_, word)| word.state() == LockState::Held { holder })
            .collect()
    }
}

/// The token below all tokens that are granted from now on in a life that begins now.
#[must_use]
pub fn token_floor_now() -> u64 {
    let since = sidewire_common::host::unix_time().as_nanos();
    let since = since.saturating_sub(u128::from(TOKEN_ORIGIN) * 1_000_000_000);
    u64::try_from(since * TOKENS_PER_SECOND / 1_000_000_000).unwrap_or(0) & (sidewire_common::layout::lock_word::TOKEN_MAX >> 1)
}

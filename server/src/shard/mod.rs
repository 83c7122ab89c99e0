//! Shards: the index of a part of the key space, and the order in which changes of it become visible.

mod delete;
mod extent;
mod index;
mod publish;
mod put;
mod split;

pub use delete::{Deleted, delete, judge as judge_delete};
pub use extent::Extent;
pub use index::{Found, Index, SlotAt};
pub use put::{Draft, PutAsk, PutDone, discard_draft, draft, judge as judge_put, publish_draft, put};

use sidewire_common::layout::ack::Outcome;

/// A write that was not carried out: what its ack says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unmet {
    /// Why.
    pub outcome: Outcome,
    /// The ack's detail.
    pub detail: u8,
    /// The ack's figures.
    pub figures: [u64; 2],
}

impl Unmet {
    /// Without detail or figures.
    #[must_use]
    pub const fn plain(outcome: Outcome) -> Self {
        Self { outcome, detail: 0, figures: [0; 2] }
    }
}

//! Where the map lives, as the rest of the server sees it: compared and swapped as a whole, beside one key for each
//! member that lives.

use sidewire_common::cluster::{ClusterMap, MapError, MemberId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Which state of the map a copy is.
pub type Revision = i64;

/// What went wrong at the store. The next attempt may succeed unless `is_final`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct StoreError {
    /// What was tried.
    pub what: &'static str,
    /// Why it failed, and what to do if that is known.
    pub reason: String,
    /// Whether trying again is of no use.
    pub is_final: bool,
}

/// Why the map was not swapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// Somebody else was first.
    #[error("the map has changed meanwhile")]
    Conflict,
    /// The writer's own key is gone: its lease has run out.
    #[error("this member's lease has run out")]
    Gone,
    /// The map is not one, or there is no room in it.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The store. Whether the map was swapped is not known.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a lease was not renewed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// It has run out.
    #[error("this member's lease has run out")]
    Gone,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The store of one cluster's map. Every call blocks for a bounded time and comes from one thread.
pub trait MapStore: Send + Sync {
    /// The map and its revision, if the cluster was made.
    ///
    /// # Errors
    /// When the store cannot tell, or holds something else.
    fn load(&self) -> Result<Option<(ClusterMap, Revision)>, StoreError>;

    /// Puts the first map; `Conflict` when there is one.
    ///
    /// # Errors
    /// When it was not put.
    fn create(&self, map: &ClusterMap) -> Result<Revision, SwapError>;

    /// Takes a lease of at least `lease` and, in one step, puts the map that names `me` and `me`'s key, which lives as long
    /// as the lease. Tells how long that is from the call's beginning.
    ///
    /// # Errors
    /// When nothing was put, or that is not known.
    fn enter(
        &self,
        map: &ClusterMap,
        revision: Revision,
        me: MemberId,
        lease: Duration,
    ) -> Result<(Revision, Duration), SwapError>;

    /// Puts another map if the revision is still the one given and the own key is there.
    ///
    /// # Errors
    /// When it was not put, or that is not known.
    fn swap(&self, map: &ClusterMap, revision: Revision) -> Result<Revision, SwapError>;

    /// Renews the own lease; tells how long it is from the call's beginning.
    ///
    /// # Errors
    /// When it was not renewed.
    fn keep_alive(&self) -> Result<Duration, KeepError>;

    /// Members whose keys are there, as of now: never an answer from before this call.
    ///
    /// # Errors
    /// When the store cannot tell.
    fn live(&self) -> Result<BTreeSet<MemberId>, StoreError>;

    /// Who leads; becomes it when nobody does.
    ///
    /// # Errors
    /// When the store cannot tell.
    fn lead(&self) -> Result<Option<MemberId>, StoreError>;

    /// Gives the lease back, and with it the own key and the lead.
    ///
    /// # Errors
    /// When it was not given back; it runs out by itself.
    fn leave(&self) -> Result<(), StoreError>;

    /// Has `nudge` called when anything has changed, with whether somebody may have gone. It may be called for nothing,
    /// and now and then not at all.
    fn watch(&self, nudge: Box<dyn Fn(bool) + Send + Sync>);
}

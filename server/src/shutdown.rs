//! The end of a server, in the order in which its parts depend on each other.

use crate::cluster::thread::Membership;
use crate::control::Core;
use crate::pools::GrowerHandle;
use std::sync::Arc;

/// What runs, and what has to be ended in order.
pub struct Running {
    core: Arc<Core>,
    grower: GrowerHandle,
    member: Option<Membership>,
}

impl Running {
    /// All parts are up.
    #[must_use]
    pub fn new(core: Arc<Core>, grower: GrowerHandle, member: Option<Membership>) -> Self {
        Self { core, grower, member }
    }

    /// What requests are answered from.
    #[must_use]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Whether the thread that keeps the server in its cluster has ended by itself.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.member.as_ref().is_some_and(Membership::has_ended)
    }

    /// Ends everything. Clients have been told, and nobody is admitted any more.
    ///
    /// Workers finish what they had accepted; heartbeats are answered until they have, so that no client takes its
    /// lease for lost while its last write is acked.
    pub fn finish(self) {
        drop(self.grower);
        self.core.workers.stop();
        self.core.leases.stop();
        // No lease is granted any more: another member may take over.
        if let Some(member) = self.member {
            member.stop();
        }
    }
}

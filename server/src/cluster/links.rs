//! Links between workers of two servers are asked for over the control plane, by threads that live as long as the call.

use super::LinkAsk;
use crate::worker::{Command, Workers};
use sidewire_common::fabric::{PeerInfo, RemoteRegion};
use sidewire_common::host;
use sidewire_common::id::Incarnation;
use sidewire_proto::convert::{self, UsedRegion};
use sidewire_proto::v1::{OpenReplicaReply, OpenReplicaRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longest time for another server to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Links that may be asked for at once; one more is refused, and asked for again.
const ASKED_MAX: usize = 64;

/// How another server's control plane is reached.
pub trait Peers: Send + Sync {
    /// Calls `Cluster.OpenReplica` of the server at `address`, within `limit`.
    ///
    /// # Errors
    /// Why it did not answer, or refused.
    fn open_replica(&self, address: &str, limit: Duration, request: OpenReplicaRequest) -> Result<OpenReplicaReply, String>;
}

/// Asks for links.
pub struct Links {
    peers: Arc<dyn Peers>,
    incarnation: Incarnation,
    asked: Arc<AtomicUsize>,
}

impl Links {
    /// Of this life of the server.
    #[must_use]
    pub fn new(peers: Arc<dyn Peers>, incarnation: Incarnation) -> Self {
        Self { peers, incarnation, asked: Arc::default() }
    }

    /// Asks for one; the worker is told.
    pub fn ask(&self, workers: &Arc<Workers>, ask: LinkAsk) {
        let (peers, workers, incarnation, asked) =
            (Arc::clone(&self.peers), Arc::clone(workers), self.incarnation, Arc::clone(&self.asked));
        let LinkAsk { worker, member, to_worker, endpoint, .. } = ask;
        let tell = move |workers: &Workers, answer| {
            // A worker that has ended wants no link.
            let _ = workers.send(worker, Command::LinkAnswered { member, to_worker, endpoint, answer });
        };
        if self.asked.fetch_add(1, Ordering::AcqRel) >= ASKED_MAX {
            self.asked.fetch_sub(1, Ordering::AcqRel);
            return tell(&workers, Err("too many links are asked for at once".into()));
        }
        let thread = host::spawn("kv-link", move || {
            let answer = call(&*peers, incarnation, &ask);
            asked.fetch_sub(1, Ordering::AcqRel);
            tell(&workers, answer);
        });
        if let Err(error) = thread {
            self.asked.fetch_sub(1, Ordering::AcqRel);
            tracing::error!(%error, "no thread to ask for a link");
        }
    }
}

fn call(peers: &dyn Peers, incarnation: Incarnation, ask: &LinkAsk) -> Result<(PeerInfo, RemoteRegion, u32), String> {
    let request = OpenReplicaRequest {
        member: ask.me.0,
        incarnation: incarnation.0,
        from_worker: ask.worker,
        to_worker: ask.to_worker,
        peer: convert::peer_to_wire(&ask.peer),
    };
    let reply = peers.open_replica(&ask.address, ANSWER_LIMIT, request)?;
    let peer = convert::peer(reply.peer).map_err(|error| error.to_string())?;
    let staging = reply.staging.ok_or("the other server told no ring")?;
    let staging = UsedRegion::try_from(staging).map_err(|error| error.to_string())?;
    Ok((peer, staging.region, reply.worker_count))
}

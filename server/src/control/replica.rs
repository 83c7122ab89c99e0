//! Between servers: another server's worker is let in, and a client asks what became of a write whose primary is gone.

use super::Core;
use super::ask::ask;
use super::refusal::Refusal;
use crate::worker::Command;
use sidewire_common::cluster::MemberId;
use sidewire_common::key::SHARD_COUNT;
use sidewire_proto::convert::{self, RegionUse, UsedRegion};
use sidewire_proto::v1::{OpenReplicaReply, OpenReplicaRequest, ResolveReply, ResolveRequest};

/// Opens a ring for another server's worker. `known` says whether it is a member of the cluster.
pub(super) async fn open(
    core: &Core,
    known: impl FnOnce(MemberId, u64) -> bool,
    request: OpenReplicaRequest,
) -> Result<OpenReplicaReply, Refusal> {
    let member = MemberId(request.member);
    if !known(member, request.incarnation) {
        return Err(Refusal::field(
            "member",
            request.member,
            "a member of the cluster in its present life; its map may be behind",
        ));
    }
    if request.to_worker >= core.workers.count() {
        return Err(Refusal::field("to_worker", request.to_worker, "below the server's number of workers"));
    }
    let peer = convert::peer(request.peer)?;
    let answer = ask("a worker", |reply| {
        let command = Command::OpenPeer { member, worker: request.from_worker, peer, reply };
        core.workers.send(request.to_worker, command).map_err(|_| Refusal::Stopping)
    });
    let opened = answer.await??;
    let staging = opened.staging.map(|region| UsedRegion { used_for: RegionUse::Staging, chunk: 0, region }.into());
    Ok(OpenReplicaReply {
        peer: convert::peer_to_wire(&opened.peer),
        staging,
        incarnation: core.store.incarnation().0,
        worker_count: core.workers.count(),
    })
}

/// What became of a write.
pub(super) async fn resolve(core: &Core, map_epoch: u32, request: ResolveRequest) -> Result<ResolveReply, Refusal> {
    let client = convert::client_id(&request.client_id)?;
    if request.shard >= SHARD_COUNT {
        return Err(Refusal::field("shard", request.shard, "below 256"));
    }
    let (session, sequence, shard) = (request.session, request.sequence, request.shard);
    let told = ask("a worker", |reply| {
        let command = Command::Resolve { client, session, sequence, shard, reply };
        core.workers.send(shard % core.workers.count(), command).map_err(|_| Refusal::Stopping)
    });
    let told = told.await?;
    Ok(ResolveReply { outcome: told.outcome as u32, version: told.version, value: told.figure as i64, map_epoch })
}

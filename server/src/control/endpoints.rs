//! OpenEndpoint: one end of a connection is made by the thread that will use it.

use super::Core;
use super::ask::{ask, ask_all};
use super::refusal::{Refusal, incarnation};
use crate::lease::Order;
use crate::lease::sessions::Wanted;
use crate::worker::{Command, OpenedEndpoint};
use sidewire_common::fabric::PeerInfo;
use sidewire_common::id::ClientId;
use sidewire_common::limits::SESSIONS_PER_CLIENT_MAX;
use sidewire_proto::convert::{self, RegionUse, UsedRegion};
use sidewire_proto::v1::open_endpoint_request::Role;
use sidewire_proto::v1::{CloseSessionRequest, OpenEndpointReply, OpenEndpointRequest};

/// Opens what is asked for.
pub(super) async fn open(core: &Core, request: OpenEndpointRequest) -> Result<OpenEndpointReply, Refusal> {
    let client = convert::client_id(&request.client_id)?;
    let life = incarnation(request.incarnation)?;
    let role = Role::try_from(request.role).unwrap_or(Role::Unspecified);
    let (session, worker) = (request.session, request.worker);
    let peer = convert::peer(request.peer)?;
    if core.shared().is_stopping() {
        return Err(Refusal::Stopping);
    }
    if role != Role::Writer && worker != 0 {
        return Err(Refusal::field("worker", worker, "0 unless role is writer"));
    }
    match role {
        Role::Beat if session != 0 => Err(Refusal::field("session", session, "0 for the beat")),
        Role::Beat => open_beat(core, client, life, peer).await,
        Role::Reader => open_data(core, client, life, session, Wanted::Reader, peer).await,
        Role::Writer if worker >= core.workers.count() => {
            Err(Refusal::field("worker", worker, "below the worker_count of the attach reply"))
        }
        Role::Writer => open_data(core, client, life, session, Wanted::Writer { worker }, peer).await,
        Role::Unspecified => Err(Refusal::field("role", request.role, "1 (reader), 2 (writer) or 3 (beat)")),
    }
}

async fn open_beat(core: &Core, client: ClientId, life: u64, peer: PeerInfo) -> Result<OpenEndpointReply, Refusal> {
    let opened = ask("the lease thread", |reply| {
        let order = Order::OpenBeat { client, peer, reply };
        let taken = core.with_live(client, life, |_| core.leases.order(order))?;
        if taken { Ok(()) } else { Err(Refusal::Stopping) }
    });
    let peer = opened.await??;
    Ok(OpenEndpointReply { peer: convert::peer_to_wire(&peer), staging: None })
}

async fn open_data(
    core: &Core,
    client: ClientId,
    life: u64,
    session: u32,
    wanted: Wanted,
    peer: PeerInfo,
) -> Result<OpenEndpointReply, Refusal> {
    let worker = match wanted {
        Wanted::Reader => session % core.workers.count(),
        Wanted::Writer { worker } => worker,
    };
    let who = format!("worker {worker}");
    let mut reserved = false;
    let answer = ask(&who, |reply| {
        reserve(core, client, life, session, wanted, |holder| {
            reserved = true;
            let command = match wanted {
                Wanted::Reader => Command::OpenReader { client, session, peer, reply },
                Wanted::Writer { .. } => Command::OpenWriter { client, holder, session, peer, reply },
            };
            core.workers.send(worker, command).map_err(|_| Refusal::Stopping)
        })
    });
    let opened = answer.await.and_then(|answer| answer.map_err(Refusal::from));
    if reserved && let Some(entry) = core.shared().table.lock().live(client) {
        match &opened {
            Ok(_) => {
                entry.set_linked();
                entry.sessions.opened(session);
            }
            Err(_) => entry.sessions.failed(session, wanted),
        }
    }
    opened.map(told)
}

/// Counts the endpoint and hands the command over, both under the table's lock: once a sweep has marked the client,
/// no command of its can follow the `Expel`.
fn reserve(
    core: &Core,
    client: ClientId,
    life: u64,
    session: u32,
    wanted: Wanted,
    send: impl FnOnce(u32) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let limit = core.staging_total_bytes;
    let mut table = core.clients_of(life)?;
    // Counted under the same lock, so that many who ask at once do not pass the limit together.
    let rings = table.rings();
    let entry = table.live(client).ok_or(Refusal::UnknownClient(client))?;
    let another = matches!(wanted, Wanted::Writer { .. }) && !entry.sessions.has(session, wanted);
    let asked = (rings + u64::from(another)).saturating_mul(core.store.settings().staging_bytes as u64);
    if another && asked > limit {
        return Err(Refusal::StagingMax { asked, limit });
    }
    let too_many = Refusal::SessionsMax { session, limit: SESSIONS_PER_CLIENT_MAX };
    entry.sessions.open(session, wanted).map_err(|_| too_many)?;
    send(entry.holder)
}

fn told(opened: OpenedEndpoint) -> OpenEndpointReply {
    let staging = opened.staging.map(|region| UsedRegion { used_for: RegionUse::Staging, chunk: 0, region }.into());
    OpenEndpointReply { peer: convert::peer_to_wire(&opened.peer), staging }
}

/// Closes a session's endpoints on all workers.
pub(super) async fn close(core: &Core, request: CloseSessionRequest) -> Result<(), Refusal> {
    let client = convert::client_id(&request.client_id)?;
    let life = incarnation(request.incarnation)?;
    let session = request.session;
    let count = core.workers.count();
    ask_all("a worker", count as usize, |reply| {
        core.with_live(client, life, |entry| {
            entry.sessions.close(session);
            for worker in 0..count {
                let command = Command::CloseSession { client, session, reply: reply.clone() };
                core.workers.send(worker, command).map_err(|_| Refusal::Stopping)?;
            }
            Ok(())
        })?
    })
    .await?;
    Ok(())
}

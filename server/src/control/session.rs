//! The Session service: how a client process comes to reach the memory, and how it leaves.

use super::ask::{apart, ask};
use super::refusal::{Refusal, incarnation};
use super::{Core, attach, endpoints};
use crate::lease::Order;
use sidewire_proto::convert;
use sidewire_proto::v1::session_server::Session;
use sidewire_proto::v1::{
    AttachReply, AttachRequest, CloseSessionReply, CloseSessionRequest, DetachReply, DetachRequest, OpenEndpointReply,
    OpenEndpointRequest, RegionsReply, RegionsRequest,
};
use std::sync::Arc;
use tonic::{Request, Response, Status, async_trait};

/// The service, answered out of a server's [`Core`].
pub struct SessionService {
    core: Arc<Core>,
}

impl SessionService {
    /// For one server.
    #[must_use]
    pub fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

#[async_trait]
impl Session for SessionService {
    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<AttachReply>, Status> {
        self.core.answer(attach::attach(&self.core, request.into_inner()))
    }

    async fn open_endpoint(&self, request: Request<OpenEndpointRequest>) -> Result<Response<OpenEndpointReply>, Status> {
        // On a task of its own: a caller that hangs up half-way leaves the count of endpoints right.
        let core = Arc::clone(&self.core);
        let opening = apart(async move { endpoints::open(&core, request.into_inner()).await });
        self.core.answer(opening.await)
    }

    async fn regions(&self, request: Request<RegionsRequest>) -> Result<Response<RegionsReply>, Status> {
        self.core.answer(regions(&self.core, &request.into_inner()))
    }

    async fn close_session(&self, request: Request<CloseSessionRequest>) -> Result<Response<CloseSessionReply>, Status> {
        let closed = endpoints::close(&self.core, request.into_inner()).await;
        self.core.answer(closed.map(|()| CloseSessionReply {}))
    }

    async fn detach(&self, request: Request<DetachRequest>) -> Result<Response<DetachReply>, Status> {
        let gone = detach(&self.core, &request.into_inner()).await;
        self.core.answer(gone.map(|()| DetachReply {}))
    }
}

fn regions(core: &Core, request: &RegionsRequest) -> Result<RegionsReply, Refusal> {
    let client = convert::client_id(&request.client_id)?;
    core.with_live(client, incarnation(request.incarnation)?, |_| ())?;
    let (layout_epoch, regions) = core.store.regions();
    Ok(RegionsReply { layout_epoch, regions: regions.into_iter().map(Into::into).collect() })
}

/// Answers when everything that the client held is back.
async fn detach(core: &Core, request: &DetachRequest) -> Result<(), Refusal> {
    let client = convert::client_id(&request.client_id)?;
    core.with_live(client, incarnation(request.incarnation)?, |_| ())?;
    ask("the sweep", |reply| if core.leases.order(Order::Detach { client, reply }) { Ok(()) } else { Err(Refusal::Stopping) })
        .await
}

//! The Cluster service: the map for clients and tools, and what servers ask of each other.

use super::ask::{apart, ask};
use super::refusal::Refusal;
use super::{Core, replica};
use crate::cluster::{Event, Hands, View};
use sidewire_common::cluster::change::NodeChange;
use sidewire_common::cluster::plan::is_settled;
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_proto::cluster_map::to_wire;
use sidewire_proto::v1::change_node_request::Change;
use sidewire_proto::v1::cluster_server::Cluster;
use sidewire_proto::v1::{
    self, ChangeNodeReply, ChangeNodeRequest, MapRequest, OpenReplicaReply, OpenReplicaRequest, ResolveReply, ResolveRequest,
    StatusReply, StatusRequest,
};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

/// Maps that wait for a slow reader.
const MAPS_WAITING: usize = 1;

/// The service, answered out of a server's [`Core`].
pub struct ClusterService {
    core: Arc<Core>,
    /// The map now; whoever watches sees the latest and may miss those between.
    maps: Option<watch::Receiver<Arc<ClusterMap>>>,
}

impl ClusterService {
    /// For one server.
    #[must_use]
    pub fn new(core: Arc<Core>) -> Self {
        let maps = core.cluster.as_ref().map(|view| {
            let (sender, maps) = watch::channel(view.map());
            view.listen(move |map| drop(sender.send_replace(Arc::clone(map))));
            maps
        });
        Self { core, maps }
    }

    fn view(&self) -> Result<&Arc<View>, Refusal> {
        self.core.cluster.as_ref().ok_or(Refusal::Alone)
    }
}

#[async_trait]
impl Cluster for ClusterService {
    type WatchStream = ReceiverStream<Result<v1::ClusterMap, Status>>;

    async fn map(&self, _: Request<MapRequest>) -> Result<Response<v1::ClusterMap>, Status> {
        self.core.answer(self.view().map(|view| to_wire(&view.map())))
    }

    async fn watch(&self, _: Request<MapRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let maps = self.core.answer(self.maps.clone().ok_or(Refusal::Alone))?.into_inner();
        let (sender, stream) = mpsc::channel(MAPS_WAITING);
        tokio::spawn(tell_maps(maps, sender));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn open_replica(&self, request: Request<OpenReplicaRequest>) -> Result<Response<OpenReplicaReply>, Status> {
        let map = self.core.answer(self.view().map(|view| view.map()))?.into_inner();
        let core = Arc::clone(&self.core);
        let known = move |id: MemberId, life: u64| {
            map.members.get(&id).is_some_and(|member| member.incarnation.is_none_or(|incarnation| incarnation.0 == life))
        };
        self.core.answer(apart(async move { replica::open(&core, known, request.into_inner()).await }).await)
    }

    async fn resolve(&self, request: Request<ResolveRequest>) -> Result<Response<ResolveReply>, Status> {
        let epoch = self.core.answer(self.view().map(|view| view.map_epoch()))?.into_inner();
        self.core.answer(replica::resolve(&self.core, epoch, request.into_inner()).await)
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        self.core.answer(self.view().map(|view| status(view)))
    }

    async fn change_node(&self, request: Request<ChangeNodeRequest>) -> Result<Response<ChangeNodeReply>, Status> {
        let changed = match self.view() {
            Ok(view) => change_node(view, request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        self.core.answer(changed)
    }
}

/// Tells the map and each later one that is there when the reader is ready, until it has gone or the server stops.
async fn tell_maps(mut maps: watch::Receiver<Arc<ClusterMap>>, sender: mpsc::Sender<Result<v1::ClusterMap, Status>>) {
    loop {
        let map = to_wire(&maps.borrow_and_update());
        if sender.send(Ok(map)).await.is_err() {
            return;
        }
        tokio::select! {
            changed = maps.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
    }
}

fn status(view: &View) -> StatusReply {
    let map = view.map();
    let standing = view.standing();
    StatusReply {
        settled: view.is_static() || is_settled(&map, &standing.live),
        map: Some(to_wire(&map)),
        member: view.my_id().map_or(0, |id| id.0),
        leader: standing.leader.map_or(0, |id| id.0),
        live: standing.live.iter().map(|id| id.0).collect(),
        lease_left_ms: view.lease_left().map_or(0, |left| left.as_millis() as u64),
        static_map: view.is_static(),
    }
}

async fn change_node(view: &View, request: ChangeNodeRequest) -> Result<ChangeNodeReply, Refusal> {
    let change = match request.change {
        Some(Change::Draining(draining)) => NodeChange::Draining(draining),
        Some(Change::Weight(weight)) => NodeChange::Weight(weight),
        None => return Err(Refusal::field("change", "missing", "draining or weight")),
    };
    if view.is_static() {
        return Err(crate::cluster::NodeError::Static.into());
    }
    let name = request.node;
    let asked =
        ask(
            "the cluster thread",
            |reply| {
                if view.tell(Event::Node { name, change, reply }) { Ok(()) } else { Err(Refusal::Stopping) }
            },
        );
    Ok(ChangeNodeReply { epoch: asked.await?? })
}

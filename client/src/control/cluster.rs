//! What servers tell of their cluster.

use super::{Control, ControlError, Plane, REPLY_BYTES_MAX};
use crate::cluster::Members;
use crate::retry::Backoff;
use sidewire_proto::v1;
use sidewire_proto::v1::cluster_client::ClusterClient;
use std::sync::Weak;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Longest time for the map, when nobody waits for it: another server is asked then.
const MAP_LIMIT: Duration = Duration::from_millis(500);
/// Longest time for the word on a write.
const RESOLVE_LIMIT: Duration = Duration::from_secs(1);
/// Pauses between attempts to watch.
const WATCH_PAUSE_FIRST: Duration = Duration::from_millis(50);
const WATCH_PAUSE_MAX: Duration = Duration::from_secs(2);
/// A watch that has told nothing for so long is given up for one at another server: this one may have stopped.
const WATCH_SILENCE: Duration = Duration::from_secs(10);

/// `None` of a server that runs alone, or is of a version that knows no cluster.
fn map_if_any(told: Result<v1::ClusterMap, Status>) -> Result<Option<v1::ClusterMap>, Status> {
    match told {
        Ok(map) => Ok(Some(map)),
        Err(status) if matches!(status.code(), Code::FailedPrecondition | Code::Unimplemented) => Ok(None),
        Err(status) => Err(status),
    }
}

impl Control {
    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone()).max_decoding_message_size(REPLY_BYTES_MAX)
    }

    /// The map of the server's cluster, if it is in one.
    pub fn map(&self, limit: Duration) -> Result<Option<v1::ClusterMap>, ControlError> {
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return Ok(map_if_any(direct.map(self.name(), limit))?);
        }
        let mut client = self.cluster();
        self.wait(limit, async move { map_if_any(client.map(v1::MapRequest {}).await.map(tonic::Response::into_inner)) })
    }

    /// The map, without waiting: `told` is called with the answer, on another thread.
    pub fn map_later(&self, told: impl FnOnce(Result<v1::ClusterMap, ControlError>) + Send + 'static) {
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return self.ask_direct(direct, told, |direct, server| direct.map(server, MAP_LIMIT));
        }
        let mut client = self.cluster();
        self.ask(MAP_LIMIT, told, async move { client.map(v1::MapRequest {}).await });
    }

    /// What became of a write, without waiting.
    pub fn resolve(
        &self,
        request: v1::ResolveRequest,
        told: impl FnOnce(Result<v1::ResolveReply, ControlError>) + Send + 'static,
    ) {
        #[cfg(feature = "sim")]
        if let Some(direct) = &self.direct {
            return self.ask_direct(direct, told, |direct, server| direct.resolve(server, RESOLVE_LIMIT, request));
        }
        let mut client = self.cluster();
        self.ask(RESOLVE_LIMIT, told, async move { client.resolve(request).await });
    }
}

impl Plane {
    /// Has maps told as they come, for as long as there is a client. In a simulated world heartbeats alone tell.
    pub fn watch(&self, members: Weak<Members>) {
        if !self.is_simulated() {
            drop(self.runtime().spawn(follow(members)));
        }
    }
}

async fn follow(members: Weak<Members>) {
    let mut backoff = Backoff::new(WATCH_PAUSE_FIRST, WATCH_PAUSE_MAX);
    loop {
        let Some(control) = members.upgrade().map(|members| members.somebody(None)) else { return };
        if let Some(control) = control
            && watch(&control, &members).await
        {
            backoff = Backoff::new(WATCH_PAUSE_FIRST, WATCH_PAUSE_MAX);
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// Takes the maps of one server until it ends or falls silent. True when it has told any.
async fn watch(control: &Control, members: &Weak<Members>) -> bool {
    let mut client = control.cluster();
    let mut told = false;
    let Ok(Ok(stream)) = tokio::time::timeout(MAP_LIMIT, client.watch(v1::MapRequest {})).await else { return told };
    let mut stream = stream.into_inner();
    while let Ok(Ok(Some(map))) = tokio::time::timeout(WATCH_SILENCE, stream.message()).await {
        told = true;
        let Some(members) = members.upgrade() else { return told };
        members.offer(map);
    }
    told
}

//! The Admin service: for people and tools.

use super::refusal::Refusal;
use super::{Core, report, scan};
use sidewire_proto::v1::admin_server::Admin;
use sidewire_proto::v1::{InfoReply, InfoRequest, ScanReply, ScanRequest};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

/// Messages of a scan that wait for a slow reader; the workers are not asked for more meanwhile.
const SCAN_MESSAGES_WAITING: usize = 2;

pub(super) struct AdminService {
    core: Arc<Core>,
    scans: Arc<Semaphore>,
    scans_max: usize,
}

impl AdminService {
    pub(super) fn new(core: Arc<Core>, scans: Arc<Semaphore>) -> Self {
        let scans_max = scans.available_permits();
        Self { core, scans, scans_max }
    }
}

#[async_trait]
impl Admin for AdminService {
    type ScanStream = ReceiverStream<Result<ScanReply, Status>>;

    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoReply>, Status> {
        Ok(Response::new(report::info(&self.core)))
    }

    async fn scan(&self, request: Request<ScanRequest>) -> Result<Response<Self::ScanStream>, Status> {
        let wish = self.core.answer(scan::Wish::try_from(request.into_inner()))?.into_inner();
        let place = Arc::clone(&self.scans).try_acquire_owned().map_err(|_| Refusal::ScansMax { limit: self.scans_max });
        let place = self.core.answer(place)?.into_inner();
        let (sender, stream) = mpsc::channel(SCAN_MESSAGES_WAITING);
        let core = Arc::clone(&self.core);
        tokio::spawn(async move {
            if let Err(refusal) = scan::run(&core, wish, &sender).await {
                let _ = sender.send(Err(refusal.into())).await;
            }
            drop(place);
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

//! A client built to misbehave: attached by hand, without the library, to post what it likes.

use crate::setting;
use sidewire_common::fabric::{
    Completion, EndpointId, EndpointSpec, Event, Fabric, Port, PortSpec, RemoteRegion, Role, Status, Verb, WorkId, WorkRequest,
    open_client,
};
use sidewire_common::id::ClientId;
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_common::limits::{MESSAGE_CREDITS, READ_DEPTH};
use sidewire_common::memory::{BufferPool, Mapping};
use sidewire_proto::convert::{self, RegionUse, UsedRegion};
use sidewire_proto::v1;
use sidewire_proto::v1::open_endpoint_request::Role as WireRole;
use sidewire_proto::v1::session_client::SessionClient;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const COMPLETIONS: u32 = 4096;
const BUFFER_BYTES: usize = 64 << 10;
/// Longer than any retry of any provider.
const PATIENCE: Duration = Duration::from_secs(20);

/// Attached over gRPC, and nothing else yet.
pub struct Attached {
    runtime: tokio::runtime::Runtime,
    control: SessionClient<Channel>,
    /// Its identity.
    pub id: ClientId,
    /// What the server told.
    pub reply: v1::AttachReply,
}

impl Attached {
    /// Attaches.
    ///
    /// # Panics
    /// When the server refuses: it cannot know yet what this one is up to.
    #[must_use]
    pub fn to(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let id = ClientId::random();
        let (control, reply) = runtime
            .block_on(async {
                let mut control = SessionClient::connect(format!("http://{address}")).await?;
                let request = v1::AttachRequest {
                    client_id: id.to_bytes().to_vec(),
                    layout_version: LAYOUT_VERSION,
                    host: "tests".into(),
                    pid: std::process::id(),
                    program: "intruder".into(),
                };
                let reply = control.attach(request).await?.into_inner();
                Ok::<_, Box<dyn std::error::Error>>((control, reply))
            })
            .expect("the server admits everybody");
        Self { runtime, control, id, reply }
    }

    /// The server's regions.
    ///
    /// # Panics
    /// When the server told nonsense.
    #[must_use]
    pub fn regions(&self) -> Vec<UsedRegion> {
        convert::regions(self.reply.regions.clone()).expect("the server's regions")
    }

    /// The regions of one use.
    #[must_use]
    pub fn regions_for(&self, used_for: RegionUse) -> Vec<RemoteRegion> {
        self.regions().into_iter().filter(|region| region.used_for == used_for).map(|region| region.region).collect()
    }
}

/// Attached, with ports and endpoints of its own.
pub struct Intruder {
    /// Its attachment.
    pub attached: Attached,
    /// Its fabric.
    pub fabric: Arc<dyn Fabric>,
    port: Box<dyn Port>,
    pool: Option<BufferPool>,
    next_id: u64,
    next_session: u32,
}

impl Intruder {
    /// Attaches, links and adopts what it is offered.
    ///
    /// # Panics
    /// When the server refuses.
    #[must_use]
    pub fn at(address: &str) -> Self {
        let attached = Attached::to(address);
        let local = setting::address().parse().ok();
        let fabric = open_client(setting::fabric(), setting::device().as_deref(), local).expect("the fabric under test");
        let invitation = convert::peer(attached.reply.link.clone()).expect("an invitation");
        fabric.link(&invitation).expect("the server's link");
        let offered: Vec<_> = attached.regions().iter().map(|region| region.region).collect();
        fabric.adopt(&offered).expect("the server's regions");
        let port = fabric.port(PortSpec { name: "intruder".into(), completions: COMPLETIONS }).expect("a port");
        let map = Arc::new(Mapping::anonymous("intruder", 16 * BUFFER_BYTES).expect("memory"));
        let registered = fabric.register(&map, sidewire_common::fabric::Access::Local).expect("registered");
        let pool = Some(BufferPool::new(map, registered, BUFFER_BYTES));
        Self { attached, fabric, port, pool, next_id: 0, next_session: 0 }
    }

    /// Opens an endpoint of a new session: [`Role::Reader`] or [`Role::Writer`], with its staging ring.
    ///
    /// # Errors
    /// What the server says.
    ///
    /// # Panics
    /// When this end fails.
    pub fn open(&mut self, role: Role) -> Result<(EndpointId, Option<RemoteRegion>), tonic::Status> {
        self.next_session += 1;
        let (send_depth, recv_depth, wire) = match role {
            Role::Writer => (MESSAGE_CREDITS, MESSAGE_CREDITS, WireRole::Writer),
            _ => (READ_DEPTH, 0, WireRole::Reader),
        };
        let opened = self.port.open(&EndpointSpec { role, send_depth, recv_depth }).expect("an endpoint");
        let request = v1::OpenEndpointRequest {
            client_id: self.attached.id.to_bytes().to_vec(),
            incarnation: self.attached.reply.incarnation,
            session: self.next_session,
            role: wire.into(),
            worker: 0,
            peer: convert::peer_to_wire(&opened.info),
        };
        let reply = self.attached.runtime.block_on(self.attached.control.open_endpoint(request))?.into_inner();
        let peer = convert::peer(reply.peer).expect("the server's end");
        self.port.connect(opened.endpoint, &peer).expect("connected");
        let staging = reply.staging.map(|region| UsedRegion::try_from(region).expect("a ring").region);
        Ok((opened.endpoint, staging))
    }

    /// Posts one request over a buffer with these bytes, waits for its end, and says how it ended.
    ///
    /// # Panics
    /// When it does not end.
    pub fn run(
        &mut self,
        endpoint: EndpointId,
        bytes: &[u8],
        verb: impl FnOnce(sidewire_common::memory::Lent) -> Verb<'static>,
    ) -> Status {
        self.next_id += 1;
        let id = WorkId(self.next_id);
        let mut buffer = self.pool.as_ref().and_then(BufferPool::take).expect("a buffer");
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let verb = verb(buffer.lend(0..bytes.len(), id));
        if self.port.post(endpoint, &mut vec![WorkRequest { id, verb }]).is_err() {
            buffer.give_back(id);
            return Status::Flushed;
        }
        let done = self.wait(|completion| match completion.event {
            Event::Done { id: done, status, .. } if done == id => Some(status),
            _ => None,
        });
        buffer.give_back(id);
        done.expect("every request ends")
    }

    /// Polls until a completion is what is looked for.
    pub fn wait<T>(&mut self, mut wanted: impl FnMut(&Completion) -> Option<T>) -> Option<T> {
        let until = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        while Instant::now() < until {
            all.clear();
            if self.port.poll(&mut all) == 0 {
                let _ = self.port.sleep(Duration::from_millis(20));
            }
            let found = all.iter().find_map(&mut wanted);
            for completion in &all {
                if let Event::Message { slot } = completion.event {
                    let _ = self.port.take_message(completion.endpoint, slot, &mut [0; sidewire_common::limits::MESSAGE_BYTES]);
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Waits for an answer of the server, at most `patience`, and says whether the endpoint broke instead.
    pub fn is_broken(&mut self, endpoint: EndpointId, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let (mut answered, mut all) = (false, Vec::new());
        while !answered && self.port.room(endpoint) > 0 && Instant::now() < until {
            all.clear();
            if self.port.poll(&mut all) == 0 {
                let _ = self.port.sleep(Duration::from_millis(1));
            }
            for completion in &all {
                if let Event::Message { slot } = completion.event {
                    let _ = self.port.take_message(completion.endpoint, slot, &mut [0; sidewire_common::limits::MESSAGE_BYTES]);
                    answered = true;
                }
            }
        }
        self.port.room(endpoint) == 0
    }

    /// Ends an endpoint.
    pub fn close(&mut self, endpoint: EndpointId) {
        self.port.close(endpoint);
        let mut all = Vec::new();
        self.port.poll(&mut all);
    }
}

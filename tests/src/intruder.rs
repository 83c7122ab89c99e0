//! A client built to misbehave: attached by hand, without the library, to post what it likes.

use crate::setting;
use sidewire_common::fabric::{
    Completion, EndpointId, EndpointSpec, Event, Fabric, Port, PortSpec, PostError, RemoteRegion, Role, Status, Verb, WorkId,
    WorkRequest, open_client,
};
use sidewire_common::id::ClientId;
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_common::limits::{BEAT_DEPTH, MESSAGE_BYTES, MESSAGE_CREDITS, READ_DEPTH};
use sidewire_common::memory::{BufferPool, Lent, Mapping};
use sidewire_proto::convert::{self, RegionUse, UsedRegion};
use sidewire_proto::v1;
use sidewire_proto::v1::open_endpoint_request::Role as WireRole;
use sidewire_proto::v1::session_client::SessionClient;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const COMPLETIONS: u32 = 24_000;
/// Reads in flight: few, so that there is room for many endpoints.
const READS: u32 = 16;
const _: () = assert!(READS <= READ_DEPTH);
const BUFFER_BYTES: usize = 64 << 10;
/// Longer than any retry of any provider.
const PATIENCE: Duration = Duration::from_secs(20);

/// Attached over gRPC, and nothing else yet.
pub struct Attached {
    runtime: tokio::runtime::Runtime,
    control: SessionClient<Channel>,
    address: String,
    /// Its identity.
    pub id: ClientId,
    /// What the server told.
    pub reply: v1::AttachReply,
}

impl Attached {
    /// Asks the server something.
    pub fn ask<T>(&mut self, what: impl AsyncFnOnce(&mut SessionClient<Channel>) -> T) -> T {
        self.runtime.block_on(what(&mut self.control))
    }

    /// A request for an endpoint of its own, with nothing wrong in it.
    #[must_use]
    pub fn endpoint_request(&self, session: u32, role: WireRole, peer: Option<v1::Peer>) -> v1::OpenEndpointRequest {
        v1::OpenEndpointRequest {
            client_id: self.id.to_bytes().to_vec(),
            incarnation: self.reply.incarnation,
            session,
            role: role.into(),
            worker: 0,
            peer,
        }
    }

    /// Says goodbye, and waits until the server has taken everything back.
    ///
    /// # Errors
    /// What the server says.
    pub fn leave(&mut self) -> Result<(), tonic::Status> {
        let request = v1::DetachRequest { client_id: self.id.to_bytes().to_vec(), incarnation: self.reply.incarnation };
        let address = format!("http://{}", self.address);
        self.ask(async |control| {
            // The old connection may be gone: nobody drove it for a while.
            if let Ok(new) = SessionClient::connect(address).await {
                *control = new;
            }
            control.detach(request).await
        })
        .map(|_| ())
    }

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
        Self { runtime, control, address: address.to_owned(), id, reply }
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
    /// Messages that came and were not looked at.
    heard: VecDeque<Vec<u8>>,
    /// Messages that came and were not taken.
    unheard: VecDeque<(EndpointId, u32)>,
    lost: Vec<EndpointId>,
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
        Self {
            attached,
            fabric,
            port,
            pool,
            next_id: 0,
            next_session: 0,
            heard: VecDeque::new(),
            unheard: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    /// Opens an endpoint: [`Role::Reader`] or [`Role::Writer`] of a new session, with its staging ring, or
    /// [`Role::Beat`].
    ///
    /// # Errors
    /// What the server says.
    ///
    /// # Panics
    /// When this end fails.
    pub fn open(&mut self, role: Role) -> Result<(EndpointId, Option<RemoteRegion>), tonic::Status> {
        let session = if role == Role::Beat {
            0
        } else {
            self.next_session += 1;
            self.next_session
        };
        let (send_depth, recv_depth, wire) = match role {
            Role::Writer => (MESSAGE_CREDITS, MESSAGE_CREDITS, WireRole::Writer),
            Role::Beat => (BEAT_DEPTH, BEAT_DEPTH, WireRole::Beat),
            _ => (READS, 0, WireRole::Reader),
        };
        let opened = self.port.open(&EndpointSpec { role, send_depth, recv_depth }).expect("an endpoint");
        let request = self.attached.endpoint_request(session, wire, convert::peer_to_wire(&opened.info));
        let reply = match self.attached.ask(async |control| control.open_endpoint(request).await) {
            Ok(reply) => reply.into_inner(),
            Err(status) => {
                self.close(opened.endpoint);
                return Err(status);
            }
        };
        let peer = convert::peer(reply.peer).expect("the server's end");
        self.port.connect(opened.endpoint, &peer).expect("connected");
        let staging = reply.staging.map(|region| UsedRegion::try_from(region).expect("a ring").region);
        Ok((opened.endpoint, staging))
    }

    /// Posts one request over a buffer with these bytes, waits for its end, and says how it ended.
    ///
    /// # Panics
    /// When it does not end.
    pub fn run(&mut self, endpoint: EndpointId, bytes: &[u8], verb: impl FnOnce(Lent) -> Verb<'static>) -> Status {
        let status = self.run_unheard(endpoint, bytes, verb);
        let mut all = Vec::new();
        self.port.poll(&mut all);
        self.take_messages(&all);
        status
    }

    /// The same without taking the messages that come meanwhile: their receive buffers stay used up.
    ///
    /// # Panics
    /// When it does not end.
    pub fn run_unheard(&mut self, endpoint: EndpointId, bytes: &[u8], verb: impl FnOnce(Lent) -> Verb<'static>) -> Status {
        let mut verb = Some(verb);
        self.run_chain(endpoint, &[bytes], |_, lent| verb.take().expect("one request")(lent))
    }

    /// Posts a chain, one request over each of `parts`, with one doorbell, and says how the first that failed ended.
    ///
    /// # Panics
    /// When they do not end.
    pub fn run_chain(
        &mut self,
        endpoint: EndpointId,
        parts: &[&[u8]],
        mut verb: impl FnMut(usize, Lent) -> Verb<'static>,
    ) -> Status {
        let (mut chain, mut lent) = (Vec::new(), Vec::new());
        for (at, bytes) in parts.iter().enumerate() {
            self.next_id += 1;
            let id = WorkId(self.next_id);
            let mut buffer = self.pool.as_ref().and_then(BufferPool::take).expect("a buffer");
            buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            chain.push(WorkRequest { id, verb: verb(at, buffer.lend(0..bytes.len(), id)) });
            lent.push((buffer, id));
        }
        let posted = self.post(endpoint, &mut chain);
        drop(chain);
        let (mut worst, mut left) = (Status::Ok, if posted { lent.len() } else { 0 });
        let until = Instant::now() + PATIENCE;
        while left > 0 {
            let mut all = Vec::new();
            if self.port.poll(&mut all) == 0 {
                assert!(Instant::now() < until, "every request ends");
                let _ = self.port.sleep(Duration::from_millis(1));
            }
            for completion in all {
                match completion.event {
                    Event::Done { id, status, .. } if lent.iter().any(|(_, of)| *of == id) => {
                        left -= 1;
                        worst = if worst.is_ok() { status } else { worst };
                    }
                    _ => self.note(&completion),
                }
            }
        }
        for (mut buffer, id) in lent {
            buffer.give_back(id);
        }
        if posted { worst } else { Status::Flushed }
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
            self.take_messages(&all);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Waits for an answer of the server, at most `patience`, and says whether the endpoint broke instead.
    pub fn is_broken(&mut self, endpoint: EndpointId, patience: Duration) -> bool {
        self.hear(endpoint, patience);
        self.is_lost(endpoint)
    }

    /// Sends a message, and says how that ended.
    pub fn send(&mut self, endpoint: EndpointId, bytes: &[u8]) -> Status {
        self.next_id += 1;
        let id = WorkId(self.next_id);
        if !self.post(endpoint, &mut vec![WorkRequest { id, verb: Verb::Send { bytes } }]) {
            return Status::Flushed;
        }
        let done = self.wait(|completion| match completion.event {
            Event::Done { id: done, status, .. } if done == id => Some(status),
            _ => None,
        });
        done.unwrap_or(Status::Flushed)
    }

    /// Waits, at most `patience`, for a message on an endpoint.
    pub fn hear(&mut self, endpoint: EndpointId, patience: Duration) -> Heard {
        let until = Instant::now() + patience;
        loop {
            self.take_messages(&[]);
            if let Some(message) = self.heard.pop_front() {
                return Heard::Message(message);
            }
            let mut all = Vec::new();
            if self.port.poll(&mut all) == 0 {
                if self.is_lost(endpoint) {
                    return Heard::Broken;
                }
                if Instant::now() >= until {
                    return Heard::Nothing;
                }
                let _ = self.port.sleep(Duration::from_millis(1));
            }
            self.take_messages(&all);
        }
    }

    /// Posts as soon as there is room. False when the endpoint is broken, or there is none in time.
    fn post(&mut self, endpoint: EndpointId, chain: &mut Vec<WorkRequest<'_>>) -> bool {
        let until = Instant::now() + PATIENCE;
        while !self.is_lost(endpoint) && Instant::now() < until {
            match self.port.post(endpoint, chain) {
                Ok(()) => return true,
                Err(PostError::Full { .. }) => {
                    let mut all = Vec::new();
                    if self.port.poll(&mut all) == 0 {
                        let _ = self.port.sleep(Duration::from_millis(1));
                    }
                    all.iter().for_each(|completion| self.note(completion));
                }
                Err(_) => return false,
            }
        }
        false
    }

    fn note(&mut self, completion: &Completion) {
        match completion.event {
            Event::Message { slot } => self.unheard.push_back((completion.endpoint, slot)),
            Event::Broken => self.lost.push(completion.endpoint),
            Event::Done { .. } | Event::Written { .. } => {}
        }
    }

    /// Whether an endpoint is known to be broken.
    #[must_use]
    pub fn is_lost(&self, endpoint: EndpointId) -> bool {
        self.lost.contains(&endpoint)
    }

    fn take_messages(&mut self, all: &[Completion]) {
        all.iter().for_each(|completion| self.note(completion));
        while let Some((endpoint, slot)) = self.unheard.pop_front() {
            let mut bytes = [0; MESSAGE_BYTES];
            if let Ok(length) = self.port.take_message(endpoint, slot, &mut bytes) {
                self.heard.push_back(bytes[..length].to_vec());
            }
        }
    }

    /// Ends an endpoint.
    pub fn close(&mut self, endpoint: EndpointId) {
        self.port.close(endpoint);
        let mut all = Vec::new();
        self.port.poll(&mut all);
        self.heard.clear();
        self.unheard.clear();
    }
}

/// What came on an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A message.
    Message(Vec<u8>),
    /// The endpoint is broken.
    Broken,
    /// Nothing in time.
    Nothing,
}

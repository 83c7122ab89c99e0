//! Every field of every request, wrong in turn, against a real server.
//!
//! What could break: a field that is believed, an error without a code or without the field's name, a refusal that
//! leaves something behind, a client that lives on another's account.

mod harness;

use harness::{Server, attach_request, code};
use sidewire_common::id::ClientId;
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_common::limits::SESSIONS_PER_CLIENT_MAX;
use sidewire_proto::v1::admin_client::AdminClient;
use sidewire_proto::v1::open_endpoint_request::Role;
use sidewire_proto::v1::session_client::SessionClient;
use sidewire_proto::v1::{
    AttachReply, AttachRequest, CloseSessionRequest, DetachRequest, OpenEndpointRequest, Peer, RegionsRequest, ScanRequest,
    ShmTicket, peer,
};
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Code, Status};

/// An attached client.
struct Attached {
    sessions: SessionClient<Channel>,
    id: ClientId,
    reply: AttachReply,
}

impl Attached {
    async fn to(server: &Server) -> Self {
        let (mut sessions, id) = (server.sessions().await, ClientId::random());
        let reply = sessions.attach(attach_request(id)).await.unwrap().into_inner();
        Self { sessions, id, reply }
    }

    fn id_bytes(&self) -> Vec<u8> {
        self.id.to_bytes().to_vec()
    }

    fn endpoint(&self, role: Role) -> OpenEndpointRequest {
        let (client_id, incarnation) = (self.id_bytes(), self.reply.incarnation);
        OpenEndpointRequest { client_id, incarnation, session: 0, role: role.into(), worker: 0, peer: None }
    }

    async fn refused(&mut self, request: OpenEndpointRequest) -> Status {
        self.sessions.open_endpoint(request).await.unwrap_err()
    }
}

fn assert_refusal(status: &Status, grpc: Code, name: &str, words: &[&str]) {
    assert_eq!((status.code(), code(status).as_str()), (grpc, name), "{status}");
    for word in words {
        assert!(status.message().contains(word), "`{word}` is not in: {}", status.message());
    }
}

#[tokio::test]
async fn each_wrong_field_of_attach_is_named_and_admits_nobody() {
    let server = Server::start(&[]);
    let mut sessions = server.sessions().await;
    let right = attach_request(ClientId::random());
    let cases = [
        (AttachRequest { client_id: vec![], ..right.clone() }, "client_id"),
        (AttachRequest { client_id: vec![1; 15], ..right.clone() }, "client_id"),
        (AttachRequest { client_id: vec![1; 17], ..right.clone() }, "client_id"),
        (AttachRequest { client_id: vec![0; 16], ..right.clone() }, "client_id"),
        (AttachRequest { host: "x".repeat(256), ..right.clone() }, "host"),
        (AttachRequest { host: "a\x1b[2J".into(), ..right.clone() }, "host"),
        (AttachRequest { program: "p\n".into(), ..right.clone() }, "program"),
        (AttachRequest { program: "y".repeat(256), ..right.clone() }, "program"),
    ];
    for (request, field) in cases {
        let status = sessions.attach(request).await.unwrap_err();
        assert_refusal(&status, Code::InvalidArgument, "field", &[field]);
    }
    for layout_version in [0, LAYOUT_VERSION - 1, LAYOUT_VERSION + 1, u32::MAX] {
        let status = sessions.attach(AttachRequest { layout_version, ..right.clone() }).await.unwrap_err();
        assert_refusal(&status, Code::FailedPrecondition, "layout-version", &["layout_version", &layout_version.to_string()]);
    }
    let long = AttachRequest { host: "z".repeat(1 << 20), ..right };
    assert_eq!(sessions.attach(long).await.unwrap_err().code(), Code::OutOfRange, "longer than any request may be");
    assert_eq!(server.info().await.clients.len(), 0);
}

#[tokio::test]
async fn a_client_id_is_attached_once_and_clients_are_bounded() {
    let server = Server::start(&["--clients-max", "2"]);
    let mut one = Attached::to(&server).await;
    let status = one.sessions.attach(attach_request(one.id)).await.unwrap_err();
    assert_refusal(&status, Code::AlreadyExists, "client-exists", &["client_id", &one.id.to_string()]);
    let two = Attached::to(&server).await;
    assert_ne!(one.reply.holder_id, two.reply.holder_id);
    let status = one.sessions.attach(attach_request(ClientId::random())).await.unwrap_err();
    assert_refusal(&status, Code::ResourceExhausted, "clients-max", &["2", "clients_max"]);
}

#[tokio::test]
async fn the_reply_says_what_a_client_needs() {
    let server = Server::start(&["--lease", "5s", "--workers", "2", "--staging", "128KiB", "--cells", "100"]);
    let reply = Attached::to(&server).await.reply;
    assert_eq!((reply.fabric.as_str(), reply.atomics.as_str()), ("shm", "cpu"));
    assert_eq!((reply.lease_ms, reply.worker_count, reply.staging_bytes, reply.cell_count), (5000, 2, 128 << 10, 100));
    assert_eq!(reply.request_value_bytes_max, 64 << 10);
    assert!(reply.value_bytes_max > reply.request_value_bytes_max);
    assert!(reply.locks_open_in_ms <= 5000 && reply.locks_open_in_ms > 1000, "{}", reply.locks_open_in_ms);
    assert!(sidewire_proto::convert::regions(reply.regions).is_ok());
    assert!(matches!(reply.link, Some(Peer { kind: Some(peer::Kind::Shm(_)) })));
    let info = server.info().await;
    assert_eq!((info.incarnation, info.lease_ms, info.workers.len()), (reply.incarnation, 5000, 2));
    let client = &info.clients[0];
    assert_eq!((client.host.as_str(), client.program.as_str(), client.pid), ("here", "test", std::process::id()));
    assert!(client.lease_left_ms > 1000);
}

#[tokio::test]
async fn each_wrong_field_of_open_endpoint_is_named() {
    let server = Server::start(&["--workers", "2"]);
    let mut client = Attached::to(&server).await;
    let writer = client.endpoint(Role::Writer);
    let beat = client.endpoint(Role::Beat);
    let reader = client.endpoint(Role::Reader);
    let ticket = |socket: &str, token: usize| {
        let kind = peer::Kind::Shm(ShmTicket { socket: socket.into(), token: vec![0; token] });
        Some(Peer { kind: Some(kind) })
    };
    let cases = [
        (OpenEndpointRequest { client_id: vec![1; 3], ..writer.clone() }, "client_id"),
        (OpenEndpointRequest { incarnation: 0, ..writer.clone() }, "incarnation"),
        (OpenEndpointRequest { role: 0, ..writer.clone() }, "role"),
        (OpenEndpointRequest { role: 4, ..writer.clone() }, "role"),
        (OpenEndpointRequest { role: -1, ..writer.clone() }, "role"),
        (OpenEndpointRequest { worker: 2, ..writer.clone() }, "worker"),
        (OpenEndpointRequest { worker: u32::MAX, ..writer.clone() }, "worker"),
        (OpenEndpointRequest { worker: 1, ..reader.clone() }, "worker"),
        (OpenEndpointRequest { worker: 1, ..beat.clone() }, "worker"),
        (OpenEndpointRequest { session: 1, ..beat.clone() }, "session"),
        (OpenEndpointRequest { peer: ticket("", 16), ..writer.clone() }, "peer.socket"),
        (OpenEndpointRequest { peer: ticket("x", 15), ..writer.clone() }, "peer.token"),
    ];
    for (request, field) in cases {
        let status = client.refused(request).await;
        assert_refusal(&status, Code::InvalidArgument, "field", &[field]);
    }
    let status = client.refused(OpenEndpointRequest { incarnation: 77, ..writer.clone() }).await;
    assert_refusal(&status, Code::FailedPrecondition, "incarnation", &["4d"]);
    let stranger = ClientId::random();
    let status = client.refused(OpenEndpointRequest { client_id: stranger.to_bytes().to_vec(), ..writer }).await;
    assert_refusal(&status, Code::NotFound, "unknown-client", &[&stranger.to_string()]);
    assert_eq!(server.info().await.clients[0].sessions, 0, "what was refused is not counted");
}

#[tokio::test]
async fn sessions_and_staging_rings_are_bounded() {
    let server = Server::start(&["--workers", "2", "--staging", "64KiB", "--staging-total", "192KiB", "--lease", "60s"]);
    let mut client = Attached::to(&server).await;
    for session in 0..SESSIONS_PER_CLIENT_MAX {
        let request = OpenEndpointRequest { session, ..client.endpoint(Role::Reader) };
        client.sessions.open_endpoint(request).await.unwrap();
    }
    let surplus = OpenEndpointRequest { session: SESSIONS_PER_CLIENT_MAX, ..client.endpoint(Role::Reader) };
    let status = client.refused(surplus.clone()).await;
    assert_refusal(&status, Code::ResourceExhausted, "sessions-max", &["session", "256"]);
    let close = CloseSessionRequest { client_id: client.id_bytes(), incarnation: client.reply.incarnation, session: 9 };
    client.sessions.close_session(close).await.unwrap();
    client.sessions.open_endpoint(surplus).await.unwrap();

    let writer = client.endpoint(Role::Writer);
    for (session, worker) in [(0, 0), (0, 1), (1, 1), (1, 1)] {
        let request = OpenEndpointRequest { session, worker, ..writer.clone() };
        let reply = client.sessions.open_endpoint(request).await.unwrap().into_inner();
        assert_eq!(reply.staging.unwrap().bytes, 64 << 10);
    }
    let status = client.refused(OpenEndpointRequest { session: 2, ..writer }).await;
    assert_refusal(&status, Code::ResourceExhausted, "staging-max", &["262144", "196608", "staging_total"]);
    assert_eq!(server.info().await.workers.iter().map(|w| w.connections).sum::<u32>(), 3);
}

#[tokio::test]
async fn after_detach_nothing_is_left() {
    let server = Server::start(&["--lease", "60s"]);
    let mut client = Attached::to(&server).await;
    client.sessions.open_endpoint(client.endpoint(Role::Beat)).await.unwrap();
    client.sessions.open_endpoint(client.endpoint(Role::Writer)).await.unwrap();
    let (client_id, incarnation) = (client.id_bytes(), client.reply.incarnation);
    let wrong = DetachRequest { client_id: client_id.clone(), incarnation: 1 };
    assert_refusal(&client.sessions.detach(wrong).await.unwrap_err(), Code::FailedPrecondition, "incarnation", &[]);
    client.sessions.detach(DetachRequest { client_id: client_id.clone(), incarnation }).await.unwrap();
    let info = server.info().await;
    assert_eq!((info.clients.len(), info.clients_swept, info.workers[0].connections), (0, 0, 0));
    let status = client.sessions.detach(DetachRequest { client_id: client_id.clone(), incarnation }).await.unwrap_err();
    assert_refusal(&status, Code::NotFound, "unknown-client", &[]);
    let status = client.sessions.regions(RegionsRequest { client_id, incarnation }).await.unwrap_err();
    assert_refusal(&status, Code::NotFound, "unknown-client", &[]);
    client.sessions.attach(attach_request(client.id)).await.unwrap();
}

#[tokio::test]
async fn a_client_that_never_beats_is_swept_after_its_lease() {
    let server = Server::start(&["--lease", "400ms"]);
    let client = Attached::to(&server).await;
    let begun = Instant::now();
    while !server.info().await.clients.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(5), "still attached");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(begun.elapsed() > Duration::from_millis(300), "swept before its time: {:?}", begun.elapsed());
    assert_eq!(server.info().await.clients_swept, 1);
    drop(client);
}

#[tokio::test]
async fn scans_are_checked_and_an_empty_store_has_no_keys() {
    let server = Server::start(&[]);
    let mut admin = AdminClient::new(server.channel().await);
    let long = ScanRequest { prefix: vec![b'x'; 4097], ..ScanRequest::default() };
    assert_refusal(&admin.scan(long).await.unwrap_err(), Code::InvalidArgument, "field", &["prefix", "4097"]);
    let greedy = ScanRequest { batch: 10_001, ..ScanRequest::default() };
    assert_refusal(&admin.scan(greedy).await.unwrap_err(), Code::InvalidArgument, "field", &["batch", "10001"]);
    let mut stream = admin.scan(ScanRequest::default()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_none());
}

//! Calls of the control plane with each field wrong, and what is no call at all.

use super::scene::Scene;
use sidewire_common::fabric::{FabricKind, PeerInfo, Role, ShmTicket, VerbsPeer};
use sidewire_common::layout::LAYOUT_VERSION;
use sidewire_proto::v1::admin_client::AdminClient;
use sidewire_proto::v1::open_endpoint_request::Role as WireRole;
use sidewire_proto::v1::session_client::SessionClient;
use sidewire_proto::{ERROR_CODE, convert, v1};
use sidewire_tests::intruder::{Attached, Heard, Intruder};
use sidewire_tests::setting;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// What programs read of a refusal.
fn name(status: &Status) -> String {
    status.metadata().get(ERROR_CODE).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

fn expect<T: std::fmt::Debug>(what: &str, result: Result<T, Status>, code: Code, kind: &str) {
    let status = result.expect_err(what);
    assert_eq!((status.code(), name(&status).as_str()), (code, kind), "{what}: {status:?}");
    assert!(status.message().len() < 1000, "{what}: {} bytes of message", status.message().len());
}

#[test]
fn attaching_with_anything_wrong() {
    let scene = Scene::new();
    let mut attached = Attached::to(scene.address());
    let id = sidewire_common::id::ClientId::random().to_bytes().to_vec();
    let right =
        v1::AttachRequest { client_id: id, layout_version: LAYOUT_VERSION, host: "h".into(), pid: 1, program: "p".into() };
    let before = scene.refused("control.field");
    let ids = [vec![], vec![1; 15], vec![1; 17], vec![0; 16], vec![9; 15_000]];
    let names = ["x".repeat(256), "a\u{1b}[2J".into(), "a\nb".into(), "\0".into(), "ü".repeat(128)];
    let wrong: Vec<v1::AttachRequest> = ids
        .map(|client_id| v1::AttachRequest { client_id, ..right.clone() })
        .into_iter()
        .chain(names.clone().map(|host| v1::AttachRequest { host, ..right.clone() }))
        .chain(names.map(|program| v1::AttachRequest { program, ..right.clone() }))
        .collect();
    let count = wrong.len() as u64;
    for request in wrong {
        let what = format!("{request:.100?}");
        expect(&what, attached.ask(async |control| control.attach(request).await), Code::InvalidArgument, "field");
    }
    assert_eq!(scene.refused("control.field"), before + count);
    for layout_version in [0, LAYOUT_VERSION - 1, LAYOUT_VERSION + 1, u32::MAX] {
        let request = v1::AttachRequest { layout_version, ..right.clone() };
        let result = attached.ask(async |control| control.attach(request).await);
        expect("another layout", result, Code::FailedPrecondition, "layout-version");
    }
    let own = v1::AttachRequest { client_id: attached.id.to_bytes().to_vec(), ..right.clone() };
    let result = attached.ask(async |control| control.attach(own).await);
    expect("attached already", result, Code::AlreadyExists, "client-exists");
    let huge = v1::AttachRequest { host: "x".repeat(1 << 20), ..right };
    let refused = attached.ask(async |control| control.attach(huge).await).unwrap_err();
    assert!(matches!(refused.code(), Code::OutOfRange | Code::ResourceExhausted), "{refused:?}");
    attached.leave().unwrap();
    drop(attached);
    scene.ends_as_it_began();
}

#[test]
fn opening_with_anything_wrong() {
    let scene = Scene::new();
    let mut attached = Attached::to(scene.address());
    let right = attached.endpoint_request(1, WireRole::Reader, None);
    let open = |attached: &mut Attached, request: v1::OpenEndpointRequest| {
        attached.ask(async |control| control.open_endpoint(request).await)
    };
    let changed = |change: &dyn Fn(&mut v1::OpenEndpointRequest)| {
        let mut request = right.clone();
        change(&mut request);
        request
    };
    let fields: [(&str, v1::OpenEndpointRequest); 11] = [
        ("role 0", changed(&|r| r.role = 0)),
        ("role 4", changed(&|r| r.role = 4)),
        ("role -1", changed(&|r| r.role = -1)),
        ("a reader of a worker", changed(&|r| r.worker = 1)),
        ("a worker too many", changed(&|r| (r.role, r.worker) = (2, 1))),
        ("worker 64", changed(&|r| (r.role, r.worker) = (2, 64))),
        ("the last worker", changed(&|r| (r.role, r.worker) = (2, u32::MAX))),
        ("a beat of a session", changed(&|r| r.role = 3)),
        ("no incarnation", changed(&|r| r.incarnation = 0)),
        ("no id", changed(&|r| r.client_id = vec![])),
        ("a long id", changed(&|r| r.client_id.push(0))),
    ];
    for (what, request) in fields {
        expect(what, open(&mut attached, request), Code::InvalidArgument, "field");
    }
    for incarnation in [1, u64::MAX, right.incarnation ^ 1] {
        let request = changed(&|r| r.incarnation = incarnation);
        expect("another life", open(&mut attached, request), Code::FailedPrecondition, "incarnation");
    }
    for id in [vec![1; 16], vec![255; 16]] {
        let request = changed(&|r| r.client_id = id.clone());
        expect("somebody else", open(&mut attached, request), Code::NotFound, "unknown-client");
    }
    for (what, peer, kind) in peers() {
        let request = changed(&|r| r.peer = peer.clone());
        expect(&what, open(&mut attached, request), Code::InvalidArgument, kind);
    }
    let id = attached.id.to_bytes().to_vec();
    for (client_id, incarnation, code) in [
        (vec![1; 16], right.incarnation, Code::NotFound),
        (id.clone(), right.incarnation ^ 1, Code::FailedPrecondition),
        (id.clone(), 0, Code::InvalidArgument),
        (vec![0; 16], right.incarnation, Code::InvalidArgument),
    ] {
        let (a, b, c) = (client_id.clone(), client_id.clone(), client_id);
        let regions = v1::RegionsRequest { client_id: a, incarnation };
        assert_eq!(attached.ask(async |control| control.regions(regions).await).unwrap_err().code(), code);
        let close = v1::CloseSessionRequest { client_id: b, incarnation, session: 1 };
        assert_eq!(attached.ask(async |control| control.close_session(close).await).unwrap_err().code(), code);
        let detach = v1::DetachRequest { client_id: c, incarnation };
        assert_eq!(attached.ask(async |control| control.detach(detach).await).unwrap_err().code(), code);
    }
    // Sessions that are not there may be closed.
    for session in [0, 7, u32::MAX] {
        let close = v1::CloseSessionRequest { client_id: id.clone(), incarnation: right.incarnation, session };
        attached.ask(async |control| control.close_session(close).await).unwrap();
    }
    let scan = |request| {
        let address = format!("http://{}", scene.address());
        attached.ask(async |_| AdminClient::connect(address).await.unwrap().scan(request).await).map(|_| ())
    };
    let mut scan = scan;
    let asked = v1::ScanRequest { prefix: vec![7; 4097], ..v1::ScanRequest::default() };
    expect("a prefix too long", scan(asked), Code::InvalidArgument, "field");
    let asked = v1::ScanRequest { batch: u32::MAX, ..v1::ScanRequest::default() };
    expect("a batch too large", scan(asked), Code::InvalidArgument, "field");
    attached.leave().unwrap();
    drop(attached);
    scene.ends_as_it_began();
}

/// Peers that the fabric cannot connect to, with the code of their refusal.
fn peers() -> Vec<(String, Option<v1::Peer>, &'static str)> {
    let shm = |socket: &str| PeerInfo::Shm(ShmTicket { socket: socket.into(), token: [7; 16] });
    let verbs = VerbsPeer { qpn: 17, psn: 9, lid: 0, gid: [0xfe; 16], mtu_bytes: 1024, responder_depth: 16, initiator_depth: 16 };
    let on = |peer: VerbsPeer| PeerInfo::Verbs(peer);
    let both = [("an empty socket", shm("")), ("a long socket", shm(&"s".repeat(9_000))), ("a socket to see", shm("a b"))];
    let of_shm = [("of verbs", on(verbs)), ("a ticket of its own", shm("sidewire-1"))];
    let of_verbs = [
        ("of shm", shm("sidewire-1")),
        ("a queue pair too high", on(VerbsPeer { qpn: 1 << 24, ..verbs })),
        ("a packet number too high", on(VerbsPeer { psn: 1 << 24, ..verbs })),
        ("MTU 0", on(VerbsPeer { mtu_bytes: 0, ..verbs })),
        ("MTU 1000", on(VerbsPeer { mtu_bytes: 1000, ..verbs })),
        ("MTU 65536", on(VerbsPeer { mtu_bytes: 65_536, ..verbs })),
        ("no GID", on(VerbsPeer { gid: [0; 16], ..verbs })),
    ];
    let fabric: Vec<_> = if setting::fabric() == FabricKind::Shm { of_shm.into() } else { of_verbs.into() };
    let told = |(what, peer): (&str, PeerInfo), kind| (what.to_owned(), convert::peer_to_wire(&peer), kind);
    let fields = both.into_iter().map(|case| told(case, "field"));
    fields.chain(fabric.into_iter().map(|case| told(case, "peer"))).collect()
}

/// An endpoint opened again replaces the one that was there; what opens a client's sessions is told to nobody.
#[test]
fn others_sessions_stay_shut() {
    let scene = Scene::new();
    let mut victim = Intruder::at(scene.address());
    let (writer, _) = victim.open(Role::Writer).unwrap();
    let mut attached = Attached::to(scene.address());
    for client in scene.server.info().clients {
        assert!(client.client_id.len() <= 4, "the whole id is told");
        let padded = [&[0; 12][..], &client.client_id].concat();
        for client_id in [client.client_id, padded] {
            let detach = v1::DetachRequest { client_id: client_id.clone(), incarnation: attached.reply.incarnation };
            attached.ask(async |control| control.detach(detach).await).unwrap_err();
            let mut open = attached.endpoint_request(1, WireRole::Writer, None);
            open.client_id = client_id;
            attached.ask(async |control| control.open_endpoint(open).await).unwrap_err();
        }
    }
    assert_eq!(victim.hear(writer, Duration::from_millis(50)), Heard::Nothing, "the victim lost its connection");
    assert!(!victim.is_lost(writer));
    attached.leave().unwrap();
    drop(attached);
    victim.attached.leave().unwrap();
    drop(victim);
    scene.ends_as_it_began();
}

/// Bytes that are not gRPC, and connections that say nothing: the kernel's port is open to all of them.
#[test]
fn what_is_no_call_at_all() {
    let scene = Scene::new();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frame = |length: u32, kind: u8, stream: u32, body: &[u8]| {
        [&length.to_be_bytes()[1..], &[kind, 0], &stream.to_be_bytes(), body].concat()
    };
    let wrong: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0; 1 << 20],
        vec![0xff; 1 << 16],
        preface[..10].to_vec(),
        [&preface[..], &frame((1 << 24) - 1, 0, 1, b"")].concat(),
        [&preface[..], &frame(4, 4, 0, b"what")].concat(),
        [&preface[..], &frame(0, 4, 0, b""), &frame(9, 1, 1, &[0xff; 9])].concat(),
        [&preface[..], &frame(0, 4, 0, b""), &frame(5, 0, 7, b"early")].concat(),
        [&preface[..], &frame(0, 4, 0, b""), &frame(0, 200, 0, b""), &frame(4, 8, 0, &[0; 4])].concat(),
    ];
    let mut open = Vec::new();
    for bytes in &wrong {
        let mut stream = TcpStream::connect(scene.address()).unwrap();
        // A server that has hung up already takes no more of it.
        let _ = stream.write_all(bytes);
        open.push(stream);
    }
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(scene.address()).unwrap()).collect();
    scene.neighbour_goes_on();
    // A method that is not there, through a client that speaks properly.
    let mut attached = Attached::to(scene.address());
    let address = format!("http://{}", scene.address());
    let unknown = attached.ask(async |_| {
        let channel = tonic::transport::Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let other = tonic::client::Grpc::with_origin(channel, tonic::codegen::http::Uri::from_static("/"));
        call_nothing(other).await
    });
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    attached.leave().unwrap();
    drop(attached);
    // Whoever says nothing is shown out by himself.
    let since = Instant::now();
    for mut stream in silent {
        stream.set_read_timeout(Some(setting::patience(Duration::from_secs(20)))).unwrap();
        let heard = stream.read_to_end(&mut Vec::new());
        assert!(!matches!(&heard, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock), "silence keeps a place for ever");
    }
    println!("silent connections were closed after {:?}", since.elapsed());
    drop(open);
    scene.ends_as_it_began();
}

async fn call_nothing(mut grpc: tonic::client::Grpc<tonic::transport::Channel>) -> Result<(), Status> {
    grpc.ready().await.map_err(|e| Status::unknown(e.to_string()))?;
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/sidewire.v1.Session/Nothing");
    let codec: tonic_prost::ProstCodec<v1::DetachRequest, v1::DetachReply> = tonic_prost::ProstCodec::default();
    grpc.unary(tonic::Request::new(v1::DetachRequest::default()), path, codec).await.map(|_| ())
}

/// A burst of attachments up to the limit and beyond.
#[test]
fn attachments_without_end() {
    let scene = Scene::new();
    let mut attached = Attached::to(scene.address());
    let address = format!("http://{}", scene.address());
    let (mut ids, mut refusal) = (Vec::new(), None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut control = runtime.block_on(SessionClient::connect(address)).unwrap();
    while ids.len() < 2_000 && refusal.is_none() {
        let client_id = sidewire_common::id::ClientId::random().to_bytes().to_vec();
        let request = v1::AttachRequest {
            client_id: client_id.clone(),
            layout_version: LAYOUT_VERSION,
            host: "h".into(),
            pid: 1,
            program: "p".into(),
        };
        match runtime.block_on(control.attach(request)) {
            Ok(_) => ids.push(client_id),
            Err(status) => refusal = Some(status),
        }
    }
    println!("{} attached", ids.len());
    expect::<()>("one too many", Err(refusal.expect("a limit")), Code::ResourceExhausted, "clients-max");
    scene.neighbour_goes_on();
    let incarnation = attached.reply.incarnation;
    // A connection that nobody drives is closed after a while: a new one.
    control = runtime.block_on(SessionClient::connect(format!("http://{}", scene.address()))).unwrap();
    for client_id in ids {
        runtime.block_on(control.detach(v1::DetachRequest { client_id, incarnation })).unwrap();
    }
    attached.leave().unwrap();
    drop((control, runtime, attached));
    scene.ends_as_it_began();
}

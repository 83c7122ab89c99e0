//! Heartbeats over shared memory against a real server, which is stopped, resumed and ended meanwhile.
//!
//! What could break: a lease that is not renewed, a client judged by the server's own pause, a client that beats under
//! another's name, a server that goes without saying so.

mod harness;

use harness::{Server, attach_request};
use rustix::process::Signal;
use sidewire_common::fabric::shm::Guest;
use sidewire_common::fabric::{
    Completion, EndpointId, EndpointSpec, Event, Fabric, Port, PortSpec, Role, Verb, WorkId, WorkRequest,
};
use sidewire_common::id::{ClientId, Incarnation};
use sidewire_common::layout::beat::{Answer, Beat, GetStats, Verdict};
use sidewire_common::limits::{BEAT_DEPTH, MESSAGE_BYTES};
use sidewire_proto::convert;
use sidewire_proto::v1::open_endpoint_request::Role as WireRole;
use sidewire_proto::v1::{AttachReply, OpenEndpointRequest};
use std::time::{Duration, Instant};

/// A client that does nothing but beat.
struct Heart {
    id: ClientId,
    reply: AttachReply,
    guest: Guest,
    port: Box<dyn Port>,
    endpoint: EndpointId,
    number: u64,
}

impl Heart {
    async fn new(server: &Server) -> Self {
        let (mut sessions, id) = (server.sessions().await, ClientId::random());
        let reply = sessions.attach(attach_request(id)).await.unwrap().into_inner();
        let guest = Guest::new();
        guest.link(&convert::peer(reply.link.clone()).unwrap()).unwrap();
        let mut port = guest.port(PortSpec { name: "heart".into(), completions: 64 }).unwrap();
        let opened = port.open(&EndpointSpec { role: Role::Beat, send_depth: BEAT_DEPTH, recv_depth: BEAT_DEPTH }).unwrap();
        let request = OpenEndpointRequest {
            client_id: id.to_bytes().to_vec(),
            incarnation: reply.incarnation,
            session: 0,
            role: WireRole::Beat.into(),
            worker: 0,
            peer: convert::peer_to_wire(&opened.info),
        };
        let peer = sessions.open_endpoint(request).await.unwrap().into_inner().peer;
        port.connect(opened.endpoint, &convert::peer(peer).unwrap()).unwrap();
        Self { id, reply, guest, port, endpoint: opened.endpoint, number: 0 }
    }

    fn send(&mut self, beat: &Beat) {
        let bytes = beat.encode();
        let mut chain = vec![WorkRequest { id: WorkId(beat.number), verb: Verb::Send { bytes: &bytes } }];
        self.port.post(self.endpoint, &mut chain).unwrap();
    }

    fn next_beat(&mut self) -> Beat {
        self.number += 1;
        let (incarnation, layout_epoch) = (Incarnation(self.reply.incarnation), self.reply.layout_epoch);
        let stats = GetStats { gets: 7, ..GetStats::default() };
        Beat { client: self.id, incarnation, number: self.number, layout_epoch, map_epoch: 0, stats }
    }

    /// The next answer; `None` when the endpoint breaks or nothing comes for so long.
    fn answer(&mut self, limit: Duration) -> Option<Answer> {
        let until = Instant::now() + limit;
        let mut completions: Vec<Completion> = Vec::new();
        while Instant::now() < until {
            completions.clear();
            self.port.poll(&mut completions);
            for completion in &completions {
                match completion.event {
                    Event::Message { slot } => {
                        let mut bytes = [0; MESSAGE_BYTES];
                        let length = self.port.take_message(self.endpoint, slot, &mut bytes).unwrap();
                        return Some(Answer::decode(&bytes[..length]).unwrap());
                    }
                    Event::Broken => return None,
                    _ => {}
                }
            }
            self.port.sleep(Duration::from_millis(5)).unwrap();
        }
        None
    }

    fn beat(&mut self) -> Answer {
        let beat = self.next_beat();
        self.send(&beat);
        let answer = self.answer(Duration::from_secs(5)).expect("an answer");
        assert_eq!(answer.number, beat.number);
        answer
    }
}

const LEASE: Duration = Duration::from_millis(900);
const OPTIONS: [&str; 2] = ["--lease", "900ms"];

#[tokio::test]
async fn who_beats_lives_and_who_falls_silent_is_told_and_swept() {
    let server = Server::start(&OPTIONS);
    let mut heart = Heart::new(&server).await;
    let begun = Instant::now();
    while begun.elapsed() < LEASE * 3 {
        let answer = heart.beat();
        assert_eq!((answer.verdict, answer.lease_ms), (Verdict::Alive, 900));
        assert_eq!(answer.incarnation.0, heart.reply.incarnation);
        assert!(answer.clock_ms >= heart.reply.clock_ms && answer.clock_error_ms >= 1);
        tokio::time::sleep(LEASE / 3).await;
    }
    let info = server.info().await;
    assert_eq!((info.clients.len(), info.clients[0].gets, info.clients_swept), (1, 7, 0));
    let silent = Instant::now();
    let told = heart.answer(LEASE * 3).expect("a word of the sweep");
    assert_eq!((told.verdict, told.number), (Verdict::Unknown, 0));
    assert!(silent.elapsed() > LEASE / 2, "{:?}", silent.elapsed());
    while server.info().await.clients_swept == 0 {
        assert!(silent.elapsed() < LEASE * 5, "it was told and not swept");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_was_stopped_for_many_leases_judges_nobody_by_it() {
    let server = Server::start(&OPTIONS);
    let mut heart = Heart::new(&server).await;
    heart.beat();
    server.signal(Signal::STOP);
    // The client is silent all the time: what it sent would have told for it.
    tokio::time::sleep(LEASE * 3).await;
    server.signal(Signal::CONT);
    tokio::time::sleep(LEASE / 3).await;
    assert_eq!(heart.beat().verdict, Verdict::Alive);
    assert_eq!(server.info().await.clients_swept, 0);
}

#[tokio::test]
async fn another_life_and_another_name_are_no_beats() {
    let server = Server::start(&OPTIONS);
    let (mut heart, mut other) = (Heart::new(&server).await, Heart::new(&server).await);
    let strange = Beat { incarnation: Incarnation(5), ..heart.next_beat() };
    heart.send(&strange);
    assert_eq!(heart.answer(Duration::from_secs(5)).unwrap().verdict, Verdict::Unknown);
    let forged = Beat { client: other.id, ..heart.next_beat() };
    heart.send(&forged);
    assert_eq!(heart.answer(LEASE / 2), None, "it costs the endpoint");
    assert_eq!(other.beat().verdict, Verdict::Alive, "and the other client nothing");
}

#[tokio::test]
async fn an_epoch_that_has_not_begun_and_a_number_that_repeats_cost_the_endpoint() {
    let server = Server::start(&OPTIONS);
    let mut heart = Heart::new(&server).await;
    let early = Beat { layout_epoch: u64::MAX, ..heart.next_beat() };
    heart.send(&early);
    assert_eq!(heart.answer(LEASE / 2), None);
    let mut heart = Heart::new(&server).await;
    heart.beat();
    heart.number -= 1;
    let again = heart.next_beat();
    heart.send(&again);
    assert_eq!(heart.answer(LEASE / 2), None);
}

#[tokio::test]
async fn a_server_that_stops_says_so() {
    let mut server = Server::start(&OPTIONS);
    let mut heart = Heart::new(&server).await;
    assert_eq!(heart.beat().verdict, Verdict::Alive);
    server.signal(Signal::TERM);
    let told = heart.answer(Duration::from_secs(5)).expect("a last word");
    assert_eq!((told.verdict, told.number), (Verdict::Stopping, 0));
    assert_eq!(server.wait(Duration::from_secs(10)).0.code(), Some(0));
    let until = Instant::now() + Duration::from_secs(5);
    while heart.guest.link_alive() {
        assert!(Instant::now() < until, "the link outlives the server");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_client_whose_process_ends_is_swept_at_once() {
    let server = Server::start(&["--lease", "60s"]);
    let heart = Heart::new(&server).await;
    let begun = Instant::now();
    drop(heart);
    while !server.info().await.clients.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(5), "still attached");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

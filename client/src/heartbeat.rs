//! The heartbeat: a thread of its own that renews the lease, follows layout epochs, and attaches anew.
//!
//! ```text
//!   live ── beat every third of a lease ── answer: lease, clock, epoch
//!    │  └── later epoch told: regions by gRPC ─► adopted ─► epoch entered ─► acknowledged when nothing older is in flight
//!    │
//!    └─ lease over, unknown to the server, or its process gone ─► ended ─► attach under a new identity, again and again
//! ```

use crate::attach::{self, plain};
use crate::attached::Attached;
use crate::control::{CALL_LIMIT, ControlError};
use crate::error::Error;
use crate::regions::RegionTable;
use crate::retry::Backoff;
use crate::shared::Shared;
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{
    Completion, EndpointId, EndpointSpec, Event, FabricError, Port, PortSpec, Role, Verb, WorkId, WorkRequest,
};
use sidewire_common::host::{self, Thread};
use sidewire_common::layout::beat::{Answer, Beat, Verdict};
use sidewire_common::limits::{BEAT_DEPTH, LEASE_MS_MAX, MESSAGE_BYTES};
use sidewire_proto::{convert, v1};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Beats in a lease.
const BEATS_PER_LEASE: u32 = 3;
/// Beats whose answers are awaited; older ones count as lost.
const UNANSWERED_MAX: usize = BEAT_DEPTH as usize;
/// Pause while an epoch waits for older operations to end.
const EPOCH_PAUSE: Duration = Duration::from_micros(500);
/// Pauses between attempts to open the beat's endpoint or to attach anew.
const REOPEN_PAUSE_FIRST: Duration = Duration::from_millis(5);
const REOPEN_PAUSE_MAX: Duration = Duration::from_millis(200);
const ATTACH_PAUSE_FIRST: Duration = Duration::from_millis(20);
const ATTACH_PAUSE_MAX: Duration = Duration::from_millis(300);
/// Shortest pause between two attempts, however much of a hurry there is.
const ATTACH_PAUSE_MIN: Duration = Duration::from_millis(5);
/// Why an attachment ends that the server has swept, or that an earlier life of it has granted.
const UNKNOWN: &str = "the server does not know this client any more";
/// Attempts to attach anew between two lines in the log.
const ATTEMPTS_PER_LOG_LINE: u32 = 20;

/// The running thread.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    thread: Thread,
    /// Hung up when the thread ends.
    runs: Receiver<()>,
}

impl Heartbeat {
    /// Waits for its end, which somebody else has asked for, at most for `limit`. It may be waiting for a server that
    /// does not answer; then it ends by itself a little later.
    pub fn end(self, limit: Duration) {
        if host::receive_within(&self.runs, limit) == Err(RecvTimeoutError::Disconnected) {
            // That it panicked matters to nobody here.
            self.thread.join();
        }
    }
}

/// Starts the thread and waits until its endpoint is connected; if nothing is attached yet, it attaches in the background.
///
/// # Errors
/// When the endpoint cannot be had within `limit`.
pub(crate) fn start(shared: Arc<Shared>, limit: Duration) -> Result<Heartbeat, Error> {
    let (told, first) = bounded(1);
    let (running, runs) = bounded(1);
    let server = shared.server().to_owned();
    let is_attached = shared.is_attached();
    let thread = host::spawn("sidewire-beat", move || {
        run(&shared, &told, limit);
        drop(running);
    });
    let thread = thread.map_err(|e| Error::Control { server, reason: format!("no thread for the heartbeat: {e}") })?;
    if !is_attached {
        return Ok(Heartbeat { thread, runs });
    }
    match host::receive(&first) {
        Ok(Ok(())) => Ok(Heartbeat { thread, runs }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::LeaseLapsed),
    }
}

fn run(shared: &Shared, told: &Sender<Result<(), Error>>, limit: Duration) {
    let mut first = Some(told);
    while !shared.is_stopping() {
        let Some(attached) = shared.attached() else {
            first = None;
            attach_anew(shared);
            continue;
        };
        let reason = match Beater::new(shared, attached) {
            Ok(mut beater) => {
                let opened = beater.open(shared, if first.is_some() { limit } else { shared.deadline });
                if let Some(told) = first.take() {
                    let failed = opened.is_err();
                    let _ = told.send(opened);
                    if failed {
                        return;
                    }
                }
                beater.live(shared)
            }
            Err(error) => {
                let reason = error.reason();
                if let Some(told) = first.take() {
                    let _ = told.send(Err(error));
                    return;
                }
                reason
            }
        };
        if shared.is_stopping() {
            return;
        }
        tracing::warn!(server = shared.server(), reason, "the attachment has ended; attaching anew");
        shared.ended(&reason);
        attach_anew(shared);
    }
}

fn attach_anew(shared: &Shared) {
    let mut backoff = Backoff::new(ATTACH_PAUSE_FIRST, ATTACH_PAUSE_MAX);
    for attempt in 0u32.. {
        if shared.is_stopping() {
            return;
        }
        match attach::attach(&shared.control, &shared.wishes, shared.membership.as_ref(), CALL_LIMIT) {
            Ok(attached) => {
                tracing::info!(server = shared.server(), incarnation = %attached.terms.incarnation, "attached anew");
                shared.attached_anew(Arc::new(attached));
                return;
            }
            Err(error) => {
                if attempt % ATTEMPTS_PER_LOG_LINE == 0 {
                    tracing::warn!(server = shared.server(), %error, attempt, "cannot attach yet");
                }
                shared.still_gone(&error);
            }
        }
        host::sleep(ATTACH_PAUSE_MIN);
        shared.pause_heartbeat(backoff.pause());
    }
}

/// The beat of one attachment.
struct Beater {
    attached: Arc<Attached>,
    port: Box<dyn Port>,
    endpoint: Option<EndpointId>,
    reopen_at: BootInstant,
    backoff: Backoff,
    /// Whether a beat was answered over the endpoint: from then on it is opened again at once should it break.
    has_answered: bool,
    number: u64,
    sent: VecDeque<(u64, BootInstant)>,
    beat_at: BootInstant,
    /// An epoch that the server waits for.
    acknowledge: Option<u64>,
    acknowledged: u64,
    /// Regions that were asked for.
    regions: Option<Receiver<Result<v1::RegionsReply, ControlError>>>,
    completions: Vec<Completion>,
}

impl Beater {
    fn new(shared: &Shared, attached: Arc<Attached>) -> Result<Self, Error> {
        let spec = PortSpec { name: "beat".into(), completions: 4 * BEAT_DEPTH };
        let port = attached.fabric.port(spec)?;
        shared.remember_heartbeat(port.waker());
        let now = BootInstant::now();
        Ok(Self {
            acknowledged: attached.gate.current(),
            attached,
            port,
            endpoint: None,
            reopen_at: now,
            backoff: Backoff::new(REOPEN_PAUSE_FIRST, REOPEN_PAUSE_MAX),
            has_answered: true,
            number: 0,
            sent: VecDeque::new(),
            beat_at: now,
            acknowledge: None,
            regions: None,
            completions: Vec::new(),
        })
    }

    fn period(&self) -> Duration {
        self.attached.terms.lease / BEATS_PER_LEASE
    }

    /// Opens and connects the endpoint. No beat can be sent meanwhile, so it may take as long as the lease lasts.
    fn open(&mut self, shared: &Shared, limit: Duration) -> Result<(), Error> {
        let started = BootInstant::now();
        let spec = EndpointSpec { role: Role::Beat, send_depth: BEAT_DEPTH, recv_depth: BEAT_DEPTH };
        let opened = self.port.open(&spec)?;
        let terms = &self.attached.terms;
        let request = v1::OpenEndpointRequest {
            client_id: terms.client.to_bytes().to_vec(),
            incarnation: terms.incarnation.0,
            session: 0,
            role: v1::open_endpoint_request::Role::Beat.into(),
            worker: 0,
            peer: convert::peer_to_wire(&opened.info),
        };
        let connected = shared.control.open_endpoint(limit, request).map_err(|e| e.into_error(shared.server()));
        let connected = connected.and_then(|reply| {
            let peer = convert::peer(reply.peer).map_err(|e| Error::Layout { reason: e.to_string() })?;
            self.port.set_patience(limit.saturating_sub(BootInstant::now().since(started)));
            Ok(self.port.connect(opened.endpoint, &peer)?)
        });
        match connected {
            Ok(()) => {
                self.endpoint = Some(opened.endpoint);
                self.beat_at = BootInstant::now();
                Ok(())
            }
            Err(error) => {
                self.port.close(opened.endpoint);
                Err(error)
            }
        }
    }

    /// Beats until the attachment has ended; says why it has.
    fn live(&mut self, shared: &Shared) -> String {
        loop {
            if shared.is_stopping() {
                return "the client ends".into();
            }
            if let Err(reason) = self.turn(shared) {
                return reason;
            }
        }
    }

    fn turn(&mut self, shared: &Shared) -> Result<(), String> {
        self.receive(shared)?;
        let now = BootInstant::now();
        if !self.attached.lease.valid_at(now) {
            return Err("no heartbeat was answered for a lease".into());
        }
        if !self.attached.fabric.link_alive() {
            return Err("the server's process has hung up".into());
        }
        if shared.has_lapsed() {
            return Err(UNKNOWN.into());
        }
        if shared.take_suspicion() {
            self.beat_at = self.beat_at.min(now);
        }
        if self.endpoint.is_none() && now >= self.reopen_at {
            self.reopen(shared, now)?;
        }
        self.enter_epoch();
        self.acknowledge(now);
        if self.endpoint.is_some() && now >= self.beat_at {
            self.beat(shared);
        }
        self.sleep(now).map_err(|e| e.to_string())
    }

    fn reopen(&mut self, shared: &Shared, now: BootInstant) -> Result<(), String> {
        match self.open(shared, self.attached.lease.left(now)) {
            Ok(()) => Ok(()),
            Err(Error::LeaseLapsed) => Err(UNKNOWN.into()),
            Err(error) => {
                tracing::debug!(%error, "the heartbeat's endpoint could not be opened");
                self.reopen_at = now.plus(self.backoff.pause());
                Ok(())
            }
        }
    }

    fn sleep(&mut self, now: BootInstant) -> Result<(), FabricError> {
        let next = if self.endpoint.is_some() { self.beat_at } else { self.reopen_at };
        let mut pause = next.since(now).min(self.attached.lease.left(now));
        if self.acknowledge.is_some() {
            pause = pause.min(EPOCH_PAUSE);
        }
        if !pause.is_zero() {
            self.port.sleep(pause)?;
        }
        Ok(())
    }

    /// An epoch that was entered is acknowledged by the next beat once nothing older is in flight.
    fn acknowledge(&mut self, now: BootInstant) {
        if self.acknowledge.is_some_and(|wanted| self.attached.gate.reached() >= wanted) {
            self.acknowledge = None;
            self.beat_at = now;
        }
    }

    fn beat(&mut self, shared: &Shared) {
        let Some(endpoint) = self.endpoint else { return };
        self.number += 1;
        let beat = Beat {
            client: self.attached.terms.client,
            incarnation: self.attached.terms.incarnation,
            number: self.number,
            layout_epoch: self.attached.gate.reached(),
            // Operations that begin from here on go by this map.
            map_epoch: shared.membership.as_ref().map_or(0, |membership| membership.map.epoch()),
            stats: shared.stats.sum().for_beat(),
        };
        self.acknowledged = beat.layout_epoch;
        let sent = BootInstant::now();
        let bytes = beat.encode();
        let mut chain = vec![WorkRequest { id: WorkId(self.number), verb: Verb::Send { bytes: &bytes } }];
        self.beat_at = sent.plus(self.period());
        match self.port.post(endpoint, &mut chain) {
            Ok(()) => {
                self.sent.push_back((self.number, sent));
                if self.sent.len() > UNANSWERED_MAX {
                    self.sent.pop_front();
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a beat could not be posted");
                self.break_endpoint();
            }
        }
    }

    fn break_endpoint(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            self.port.close(endpoint);
            let pause = if std::mem::take(&mut self.has_answered) { Duration::ZERO } else { self.backoff.pause() };
            self.reopen_at = BootInstant::now().plus(pause);
        }
    }

    fn receive(&mut self, shared: &Shared) -> Result<(), String> {
        let mut completions = std::mem::take(&mut self.completions);
        completions.clear();
        self.port.poll(&mut completions);
        for completion in completions.drain(..) {
            if Some(completion.endpoint) != self.endpoint {
                continue;
            }
            match completion.event {
                Event::Done { status, .. } if status.is_ok() => {}
                Event::Done { .. } | Event::Broken => self.break_endpoint(),
                Event::Message { slot } => self.on_message(shared, completion.endpoint, slot)?,
                Event::Written { .. } => {}
            }
        }
        self.completions = completions;
        Ok(())
    }

    fn on_message(&mut self, shared: &Shared, endpoint: EndpointId, slot: u32) -> Result<(), String> {
        let received = BootInstant::now();
        let mut bytes = [0; MESSAGE_BYTES];
        let answer = match self.port.take_message(endpoint, slot, &mut bytes) {
            Ok(length) => Answer::decode(&bytes[..length]).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(error, "the server sent what is no heartbeat");
                self.break_endpoint();
                return Ok(());
            }
        };
        if answer.incarnation != self.attached.terms.incarnation {
            return Err("the server is in another life".into());
        }
        if shared.member().is_some_and(|member| member.0 != answer.member) {
            return Err("the server's own lease has run out, and it is another member by now".into());
        }
        match answer.verdict {
            Verdict::Unknown => return Err("the server has swept this client".into()),
            Verdict::Stopping => tracing::debug!("the server is stopping"),
            Verdict::Alive => {
                self.renew(shared, &answer, received);
                shared.beat_answered();
            }
        }
        if let Some(membership) = &shared.membership
            && answer.map_epoch > membership.map.epoch()
            && let Some(members) = membership.members.upgrade()
        {
            members.refresh(answer.map_epoch, Some(membership.id));
        }
        if answer.layout_epoch > self.attached.gate.current() {
            self.ask_regions(shared);
        } else if answer.layout_epoch > self.acknowledged {
            self.acknowledge = Some(answer.layout_epoch);
        }
        Ok(())
    }

    fn renew(&mut self, shared: &Shared, answer: &Answer, received: BootInstant) {
        if !self.has_answered {
            (self.has_answered, self.backoff) = (true, Backoff::new(REOPEN_PAUSE_FIRST, REOPEN_PAUSE_MAX));
        }
        let Some(at) = self.sent.iter().position(|(number, _)| *number == answer.number) else { return };
        let (_, sent) = self.sent[at];
        self.sent.drain(..=at);
        let knows_map = shared.membership.as_ref().is_none_or(|of| of.map.epoch() >= answer.map_epoch);
        if !knows_map && !self.attached.lease.valid_at(received) {
            // The server's own lease may have run out meanwhile, and others have taken its shards without waiting for us.
            return;
        }
        let lease = Duration::from_millis(answer.lease_ms.min(LEASE_MS_MAX));
        self.attached.lease.renewed(sent, lease.min(self.attached.terms.lease));
        self.attached.clock.told(answer.clock_ms, answer.clock_error_ms, sent, received, self.attached.terms.lease);
    }

    /// A later epoch was told: its regions are asked for, while beats go on.
    fn ask_regions(&mut self, shared: &Shared) {
        if self.regions.is_some() {
            return;
        }
        let terms = &self.attached.terms;
        let request = v1::RegionsRequest { client_id: terms.client.to_bytes().to_vec(), incarnation: terms.incarnation.0 };
        let (told, answer) = bounded(1);
        let waker = self.port.waker();
        shared.control.regions(request, move |reply| {
            // The thread may have moved on to another attachment, and wants it no more.
            let _ = told.send(reply);
            waker.wake();
        });
        self.regions = Some(answer);
    }

    /// Adopts the regions that were asked for, once they are told, and enters their epoch.
    fn enter_epoch(&mut self) {
        let Some(told) = self.regions.as_ref().and_then(|r| r.try_recv().ok()) else { return };
        self.regions = None;
        let adopted = told.map_err(|e| e.reason).and_then(|reply| {
            let used = convert::regions(reply.regions).map_err(|e| e.to_string())?;
            let table = RegionTable::new(&used, self.attached.terms.cell_count).map_err(|e| e.to_string())?;
            self.attached.fabric.adopt(&plain(&used)).map_err(|e| e.to_string())?;
            Ok((reply.layout_epoch, table))
        });
        match adopted {
            Ok((epoch, table)) if epoch > self.attached.gate.current() => {
                self.attached.enter_epoch(epoch, table);
                self.acknowledge = Some(epoch);
            }
            Ok(_) => {}
            // The next answer tells the epoch again.
            Err(reason) => tracing::warn!(reason, "the regions of a later layout epoch could not be adopted"),
        }
    }
}

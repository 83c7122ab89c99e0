//! The far end: a thread that connects endpoints and answers messages; one-sided verbs do not need it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sidewire_common::fabric::{
    Completion, EndpointId, EndpointSpec, Event, Fabric, FabricError, PeerInfo, Port, PortSpec, RemoteRegion, Verb, Waker,
    WorkId, WorkRequest,
};
use sidewire_common::limits::MESSAGE_BYTES;

use crate::cli::WaitMode;

/// Completions that may be outstanding at one end.
pub const COMPLETIONS: u32 = 16_384;
/// Longest sleep between two looks at whether there is an end.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Messages of a stream that one answer stands for.
pub const STREAM_ACK: usize = 16;

/// What the far end is asked for.
enum Ask {
    /// An endpoint for this one.
    Pair(EndpointSpec, PeerInfo),
    /// Its answer to each message from now on: all are sent back, or every so many are acknowledged.
    Answer { every: usize },
}

/// An endpoint at the far end.
pub struct Far {
    /// What this end must be told.
    pub info: PeerInfo,
    /// The ring that this end may write into.
    pub staging: Option<RemoteRegion>,
}

/// The thread.
pub struct Responder {
    asks: Sender<Ask>,
    answers: Receiver<Result<Option<Far>, FabricError>>,
    waker: Waker,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn ended() -> FabricError {
    FabricError::Call { call: "the far end".into(), source: std::io::ErrorKind::BrokenPipe.into(), hint: String::new() }
}

impl Responder {
    /// Starts it.
    pub fn start(fabric: Arc<dyn Fabric>, wait: WaitMode) -> Result<Self, FabricError> {
        let (asks, asked) = channel();
        let (answer, answers) = channel();
        let (tell_waker, waker) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || match fabric.port(PortSpec { name: "far end".into(), completions: COMPLETIONS }) {
            Ok(port) => {
                if tell_waker.send(Ok(port.waker())).is_ok() {
                    Loop { port, asked, answer, stopped, wait, every: 1, seen: 0 }.run();
                }
            }
            Err(error) => drop(tell_waker.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name("far-end".into()).spawn(body);
        let thread = thread.map_err(|source| FabricError::Call { call: "a thread".into(), source, hint: String::new() })?;
        let waker = waker.recv().map_err(|_| ended())??;
        Ok(Self { asks, answers, waker, stop, thread: Some(thread) })
    }

    fn ask(&self, ask: Ask) -> Result<Option<Far>, FabricError> {
        self.asks.send(ask).map_err(|_| ended())?;
        self.waker.wake();
        self.answers.recv().map_err(|_| ended())?
    }

    /// Opens an endpoint there for the one that `near` tells of.
    pub fn pair(&self, spec: EndpointSpec, near: PeerInfo) -> Result<Far, FabricError> {
        self.ask(Ask::Pair(spec, near))?.ok_or_else(ended)
    }

    /// Says how messages are answered: each is sent back, or `every` so many are acknowledged by one.
    pub fn answer(&self, every: usize) -> Result<(), FabricError> {
        self.ask(Ask::Answer { every }).map(drop)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        // Its panic was told on stderr when it happened.
        self.thread.take().map(JoinHandle::join);
    }
}

struct Loop {
    port: Box<dyn Port>,
    asked: Receiver<Ask>,
    answer: Sender<Result<Option<Far>, FabricError>>,
    stopped: Arc<AtomicBool>,
    wait: WaitMode,
    every: usize,
    seen: usize,
}

impl Loop {
    fn run(mut self) {
        let mut arrived = Vec::new();
        while !self.stopped.load(Ordering::Relaxed) {
            if let Ok(ask) = self.asked.try_recv() {
                let done = self.carry_out(ask);
                if self.answer.send(done).is_err() {
                    return;
                }
            }
            arrived.clear();
            if self.port.poll(&mut arrived) == 0 {
                self.rest();
            }
            for Completion { endpoint, event } in arrived.drain(..) {
                if let Event::Message { slot } = event {
                    self.message(endpoint, slot);
                }
            }
        }
    }

    fn rest(&mut self) {
        match self.wait {
            // One look at the queue of asks is what a busy loop can afford.
            WaitMode::Poll => std::hint::spin_loop(),
            WaitMode::Event => drop(self.port.sleep(SLEEP_MAX)),
        }
    }

    fn carry_out(&mut self, ask: Ask) -> Result<Option<Far>, FabricError> {
        match ask {
            Ask::Answer { every } => {
                (self.every, self.seen) = (every, 0);
                Ok(None)
            }
            Ask::Pair(spec, near) => {
                let opened = self.port.open(&spec)?;
                // Where connecting is a handshake, this end only gets ready for it.
                self.port.connect(opened.endpoint, &near)?;
                Ok(Some(Far { info: opened.info, staging: opened.staging.map(|staging| staging.remote) }))
            }
        }
    }

    fn message(&mut self, endpoint: EndpointId, slot: u32) {
        let mut bytes = [0; MESSAGE_BYTES];
        let Ok(length) = self.port.take_message(endpoint, slot, &mut bytes) else { return };
        self.seen += 1;
        if self.seen.is_multiple_of(self.every) {
            let bytes = if self.every == 1 { &bytes[..length] } else { &bytes[..1] };
            // The near end notices by its deadline when an answer could not be posted.
            let _ = self.port.post(endpoint, &mut vec![WorkRequest { id: WorkId(0), verb: Verb::Send { bytes } }]);
        }
    }
}

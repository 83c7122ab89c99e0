//! All memory of an endpoint that its client may write, under a server's port.
//!
//! Input: steps of 1 + 2 + 8 bytes: what is done, where, with what. A client stores words anywhere in its memory,
//! rings, and hangs up; the server polls, sends and takes messages.

use super::cut::Cut;
use crate::raw_shm::Raw;
use sidewire_common::fabric::{
    Completion, EndpointId, EndpointSpec, Event, Fabric, PeerInfo, Port, PortSpec, PostError, Role, Verb, WorkId, WorkRequest,
    shm,
};
use sidewire_common::limits::MESSAGE_BYTES;

const STAGING_BYTES: usize = 4096;
const DEPTH: u32 = 8;
/// Words in front of the staging ring: positions, sleeper, rings.
const HEAD_WORDS: usize = 16 + DEPTH as usize * 41;
/// Completions that one poll may give for one endpoint.
const POLL_MAX: usize = 64;

struct Host {
    port: Box<dyn Port>,
    _fabric: shm::Host,
}

impl Host {
    fn start() -> Self {
        let fabric = shm::Host::start().expect("a host");
        let port = fabric.port(PortSpec { name: "fuzz".into(), completions: 4096 }).expect("a port");
        Self { port, _fabric: fabric }
    }
}

thread_local! {
    static HOST: std::cell::RefCell<Host> = std::cell::RefCell::new(Host::start());
}

/// Feeds it; true when the endpoint lived through it.
///
/// # Panics
/// When the server's port tells of more than the rings can hold, or goes on with an endpoint that it has given up.
pub fn run(bytes: &[u8]) -> bool {
    HOST.with_borrow_mut(|host| {
        let role = if bytes.first().is_some_and(|byte| byte & 1 == 0) {
            Role::WriteTarget { staging_bytes: STAGING_BYTES }
        } else {
            Role::Beat
        };
        let port = &mut *host.port;
        let opened = port.open(&EndpointSpec { role, send_depth: DEPTH, recv_depth: DEPTH }).expect("an endpoint");
        port.connect(opened.endpoint, &PeerInfo::Unneeded).expect("connected");
        let raw = Raw::connect(&opened.info);
        let mut end = End { port, endpoint: opened.endpoint, raw: Some(raw), broken: false, slots: Vec::new(), sent: 0 };
        let mut cut = Cut::new(bytes.get(1..).unwrap_or_default());
        while !cut.rest().is_empty() {
            let (what, at, value) = (cut.byte(), usize::from(u16::from_le_bytes(cut.array())), cut.word());
            end.step(what, at, value);
        }
        end.poll();
        end.finish()
    })
}

struct End<'a> {
    port: &'a mut dyn Port,
    endpoint: EndpointId,
    raw: Option<Raw>,
    broken: bool,
    slots: Vec<u32>,
    sent: u64,
}

impl End<'_> {
    fn step(&mut self, what: u8, at: usize, value: u64) {
        match what % 8 {
            0..=3 => {
                if let Some(raw) = &self.raw {
                    let words = if what & 0x80 == 0 { HEAD_WORDS } else { raw.view.len() / 8 };
                    raw.view.store_release(at % words.min(raw.view.len() / 8) * 8, value).expect("its own memory");
                }
            }
            4 => self.poll(),
            5 => self.send(value as usize % (MESSAGE_BYTES + 2)),
            6 => self.take(),
            _ if value.is_multiple_of(16) => drop(self.raw.take()),
            _ => {
                if let Some(raw) = &self.raw {
                    crate::raw_shm::say(&raw.socket, &value.to_le_bytes());
                }
            }
        }
    }

    fn poll(&mut self) {
        let mut out: Vec<Completion> = Vec::new();
        let count = self.port.poll(&mut out);
        assert!(count == out.len() && count <= POLL_MAX, "{count} completions at once");
        for completion in out {
            assert_eq!(completion.endpoint, self.endpoint, "of somebody else");
            match completion.event {
                Event::Written { bytes, .. } => {
                    assert!(!self.broken && bytes as usize <= STAGING_BYTES, "{bytes} bytes in a ring of {STAGING_BYTES}");
                }
                Event::Message { slot } => {
                    assert!(!self.broken && slot < DEPTH && !self.slots.contains(&slot), "slot {slot} is out");
                    self.slots.push(slot);
                }
                Event::Done { id, .. } => assert!(id.0 >= 1 && id.0 <= self.sent),
                Event::Broken => {
                    assert!(!self.broken, "it broke twice");
                    self.broken = true;
                }
            }
        }
    }

    fn take(&mut self) {
        let slot = self.slots.pop();
        let mut into = [0; MESSAGE_BYTES];
        let taken = self.port.take_message(self.endpoint, slot.unwrap_or(0), &mut into);
        match (slot, taken) {
            (Some(_), Ok(length)) => assert!(length <= MESSAGE_BYTES),
            (Some(slot), Err(error)) => panic!("slot {slot} was announced: {error}"),
            (None, taken) => assert!(taken.is_err(), "a message that was never announced"),
        }
    }

    fn send(&mut self, length: usize) {
        self.sent += 1;
        let bytes = [7; MESSAGE_BYTES + 1];
        let mut chain = vec![WorkRequest { id: WorkId(self.sent), verb: Verb::Send { bytes: &bytes[..length] } }];
        match self.port.post(self.endpoint, &mut chain) {
            Ok(()) => assert!(length <= MESSAGE_BYTES && !self.broken, "posted to a broken end"),
            Err(PostError::Malformed(_)) => assert!(length > MESSAGE_BYTES),
            Err(PostError::Full { asked, room }) => assert!(asked == 1 && room <= DEPTH as usize),
            Err(PostError::Broken) => {}
            Err(PostError::Unknown) => panic!("the endpoint is known"),
        }
    }

    fn finish(self) -> bool {
        assert!(self.port.room(self.endpoint) <= DEPTH as usize);
        self.port.close(self.endpoint);
        let mut rest = Vec::new();
        while self.port.poll(&mut rest) > 0 {}
        assert!(rest.iter().all(|completion| matches!(completion.event, Event::Done { .. })), "{rest:?} after the close");
        assert_eq!(self.port.room(self.endpoint), 0);
        !self.broken
    }
}

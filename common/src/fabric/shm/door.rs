//! The host's door: one thread that hands out descriptors to those who were admitted.
//!
//! Anybody on this host (in this network namespace) can knock; see `callers` for what a stranger may do. A
//! lack of descriptors makes the door pause, not die and not spin.

use super::callers::Callers;
use super::handing::{answer, send_packet};
use super::ledger::{Expected, Ledger};
use super::table::Table;
use super::wire::{FromDoor, PACKET_BYTES, ToDoor, Welcome};
use super::{FabricError, call_failed};
use crate::fabric::Waker;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recv, socket_with, sockopt,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections taken in one turn.
const ACCEPT_BATCH: usize = 16;
/// Connections that the kernel keeps until they are taken.
const BACKLOG: i32 = 256;
/// Pause when there is no descriptor to spare.
const PAUSE: Duration = Duration::from_millis(50);
/// An answer or two: a client that asks and does not read fills its own buffer, not the limit of
/// descriptors in flight.
const SEND_BUFFER_BYTES: usize = 4096;

const STOP: u64 = 0;
const LISTENER: u64 = 1;
const FIRST_CALLER: u64 = 2;

/// The running door.
pub(super) struct Door {
    name: String,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    pub(super) fn open(ledger: Arc<Ledger>, table: Arc<Table>) -> Result<Self, FabricError> {
        let name = format!("sidewire-{}-{:016x}", std::process::id(), rand::random::<u64>());
        let listener = listen_at(&name).map_err(|e| call_failed("listening on a Unix socket", e))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| call_failed("epoll_create", e))?;
        let waker = Waker::new().map_err(|e| call_failed("eventfd", e))?;
        let stop = Arc::new(AtomicBool::new(false));
        for (fd, name) in [(waker.as_fd(), STOP), (listener.as_fd(), LISTENER)] {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(name), epoll::EventFlags::IN)
                .map_err(|e| call_failed("epoll_ctl", e))?;
        }
        let mut porter = Porter {
            listener,
            epoll,
            ledger,
            table,
            stop: Arc::clone(&stop),
            callers: Callers::default(),
            next: FIRST_CALLER,
            resume: None,
        };
        let thread = std::thread::Builder::new().name("sidewire-door".into()).spawn(move || porter.run());
        let thread = Some(thread.map_err(|e| call_failed("starting a thread", e))?);
        Ok(Self { name, stop, waker, thread })
    }

    /// Its place, in the abstract namespace.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen_at(name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The thread's own state.
struct Porter {
    listener: OwnedFd,
    epoll: OwnedFd,
    ledger: Arc<Ledger>,
    table: Arc<Table>,
    stop: Arc<AtomicBool>,
    callers: Callers,
    next: u64,
    /// When to listen again, after a lack of descriptors.
    resume: Option<Instant>,
}

impl Porter {
    fn run(&mut self) {
        let mut events = Vec::with_capacity(64);
        while !self.stop.load(Ordering::Acquire) {
            events.clear();
            let timeout = self.callers.next_deadline().into_iter().chain(self.resume).min().map(|deadline| {
                // Rounded up, so that the deadline has passed when the wait ends.
                let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
            });
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(refused) => {
                    tracing::error!(error = %refused, "the door cannot wait");
                    std::thread::sleep(PAUSE);
                }
            }
            for event in &events {
                match event.data.u64() {
                    STOP => {}
                    LISTENER => self.accept(),
                    caller => self.hear(caller),
                }
            }
            self.keep_time();
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        self.callers.keep_time(now);
        if self.resume.is_some_and(|resume| resume <= now) {
            self.resume = None;
            self.listen_for(epoll::EventFlags::IN);
        }
    }

    fn listen_for(&self, flags: epoll::EventFlags) {
        if let Err(refused) = epoll::modify(&self.epoll, &self.listener, epoll::EventData::new_u64(LISTENER), flags) {
            tracing::error!(error = %refused, "the door cannot change what it waits for");
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPT_BATCH {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => self.greet(socket),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                Err(refused) => {
                    tracing::warn!(error = %refused, "the door cannot take a connection; it pauses");
                    self.resume = Some(Instant::now() + PAUSE);
                    self.listen_for(epoll::EventFlags::empty());
                    return;
                }
            }
        }
    }

    fn greet(&mut self, socket: OwnedFd) {
        let Ok(uid) = sockopt::socket_peercred(&socket).map(|peer| peer.uid.as_raw()) else { return };
        let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        if epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(self.next), flags).is_ok() {
            self.callers.enter(self.next, socket, uid, Instant::now());
            self.next += 1;
        }
    }

    /// One packet of one caller. Whoever says anything but what is expected of him goes.
    fn hear(&mut self, name: u64) {
        let Some((socket, linked)) = self.callers.find(name) else { return };
        let socket = Arc::clone(socket);
        // One byte more than a packet, so that a longer one is seen.
        let mut bytes = [0u8; PACKET_BYTES + 1];
        let heard = match recv(&*socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => None,
            Ok((_, length)) => ToDoor::decode(&bytes[..length]),
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => None,
        };
        let stays = match heard {
            Some(ToDoor::Ask(rkey)) => linked && answer(&self.table, &socket, rkey),
            Some(hello) => !linked && self.welcome(name, &socket, &hello),
            None => false,
        };
        if !stays && let Some(client) = self.callers.leave(name) {
            self.ledger.hung_up(client, name);
        }
    }

    /// Whether the stranger stays.
    fn welcome(&mut self, name: u64, socket: &Arc<OwnedFd>, hello: &ToDoor) -> bool {
        match self.ledger.redeem(hello, name, socket) {
            Some(Expected::Link(client)) => {
                self.callers.link(name, client);
                send_packet(socket, FromDoor::Welcome(Welcome::default()), &[])
            }
            Some(Expected::Endpoint(handover)) => {
                let fds: Vec<BorrowedFd<'_>> = handover.fds.iter().map(AsFd::as_fd).collect();
                send_packet(socket, FromDoor::Welcome(handover.welcome), &fds);
                false
            }
            None => false,
        }
    }
}

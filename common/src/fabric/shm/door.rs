//! The host's door: one thread that hands out descriptors to those who were admitted.
//!
//! Anybody on this host (in this network namespace) can knock. A stranger has [`HELLO_TIME`] to say who he
//! is; there are at most [`STRANGERS_MAX`] of them, and when one more comes, the longest waiting of the user
//! with the most of them is shown out. A lack of descriptors makes the door pause, not die and not spin.

use super::ledger::{Expected, Ledger};
use super::table::Table;
use super::wire::{FromDoor, Grant, PACKET_BYTES, ToDoor, Welcome};
use super::{FabricError, call_failed};
use crate::fabric::Waker;
use crate::id::ClientId;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, listen, recv, sendmsg, socket_with, sockopt,
};
use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that a stranger has.
const HELLO_TIME: Duration = Duration::from_secs(1);
/// Strangers at once.
const STRANGERS_MAX: usize = 128;
/// Connections taken in one turn.
const ACCEPT_BATCH: usize = 16;
/// Connections that the kernel keeps until they are taken.
const BACKLOG: i32 = 256;
/// Pause when there is no descriptor to spare.
const PAUSE: Duration = Duration::from_millis(50);
/// Descriptors in one packet.
pub(super) const FDS_MAX: usize = 4;
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
            callers: HashMap::new(),
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

/// A read-only descriptor of its own (own offset and flags) for memory that may only be read.
pub(super) fn reopen_read_only(fd: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

enum Standing {
    Stranger { until: Instant },
    Linked(ClientId),
}

struct Caller {
    socket: Arc<OwnedFd>,
    uid: u32,
    standing: Standing,
}

/// The thread's own state.
struct Porter {
    listener: OwnedFd,
    epoll: OwnedFd,
    ledger: Arc<Ledger>,
    table: Arc<Table>,
    stop: Arc<AtomicBool>,
    callers: HashMap<u64, Caller>,
    next: u64,
    /// When to listen again, after a lack of descriptors.
    resume: Option<Instant>,
}

impl Porter {
    fn run(&mut self) {
        let mut events = Vec::with_capacity(64);
        while !self.stop.load(Ordering::Acquire) {
            events.clear();
            let timeout = self.next_deadline().map(|deadline| {
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

    fn next_deadline(&self) -> Option<Instant> {
        let strangers = self.callers.values().filter_map(|caller| match caller.standing {
            Standing::Stranger { until } => Some(until),
            Standing::Linked(_) => None,
        });
        strangers.chain(self.resume).min()
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        self.callers.retain(|_, caller| !matches!(caller.standing, Standing::Stranger { until } if until <= now));
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
        self.make_room();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        if epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(self.next), flags).is_ok() {
            let standing = Standing::Stranger { until: Instant::now() + HELLO_TIME };
            self.callers.insert(self.next, Caller { socket: Arc::new(socket), uid, standing });
            self.next += 1;
        }
    }

    /// Shows one stranger out if there are too many.
    fn make_room(&mut self) {
        let mut of_user: HashMap<u32, Vec<u64>> = HashMap::new();
        for (&name, caller) in &self.callers {
            if matches!(caller.standing, Standing::Stranger { .. }) {
                of_user.entry(caller.uid).or_default().push(name);
            }
        }
        if of_user.values().map(Vec::len).sum::<usize>() < STRANGERS_MAX {
            return;
        }
        // Names rise, so the smallest has waited longest.
        if let Some(oldest) = of_user.into_values().max_by_key(Vec::len).and_then(|names| names.into_iter().min()) {
            self.callers.remove(&oldest);
        }
    }

    /// One packet of one caller.
    fn hear(&mut self, name: u64) {
        let Some(caller) = self.callers.get_mut(&name) else { return };
        // One byte more than a packet, so that a longer one is seen.
        let mut bytes = [0u8; PACKET_BYTES + 1];
        let heard = match recv(&*caller.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => None,
            Ok((_, length)) => ToDoor::decode(&bytes[..length]),
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => None,
        };
        let stays = match (heard, &caller.standing) {
            (Some(ToDoor::Ask(rkey)), Standing::Linked(_)) => answer(&self.table, &caller.socket, rkey),
            (Some(hello), Standing::Stranger { .. }) => match self.ledger.redeem(&hello, name, &caller.socket) {
                Some(Expected::Link(client)) => {
                    caller.standing = Standing::Linked(client);
                    send_packet(&caller.socket, FromDoor::Welcome(Welcome::default()), &[])
                }
                Some(Expected::Endpoint(handover)) => {
                    let fds: Vec<BorrowedFd<'_>> = handover.fds.iter().map(AsFd::as_fd).collect();
                    send_packet(&caller.socket, FromDoor::Welcome(handover.welcome), &fds);
                    false
                }
                None => false,
            },
            _ => false,
        };
        if !stays {
            self.show_out(name);
        }
    }

    fn show_out(&mut self, name: u64) {
        if let Some(Caller { standing: Standing::Linked(client), .. }) = self.callers.remove(&name) {
            self.ledger.hung_up(client, name);
        }
    }
}

/// Hands a region's descriptor out: a read-only one, unless its atomics are the client's too.
fn answer(table: &Table, socket: &OwnedFd, rkey: u32) -> bool {
    let Some(region) = table.find(rkey) else { return send_packet(socket, FromDoor::Answer(Grant::Unknown), &[]) };
    let Some(file) = region.view.mapping().file() else { return send_packet(socket, FromDoor::Answer(Grant::Unknown), &[]) };
    if region.atomic {
        return send_packet(socket, FromDoor::Answer(Grant::Granted), &[file]);
    }
    match reopen_read_only(file) {
        Ok(reopened) => send_packet(socket, FromDoor::Answer(Grant::Granted), &[reopened.as_fd()]),
        Err(refused) => {
            tracing::warn!(error = %refused, "a region cannot be reopened for a client");
            send_packet(socket, FromDoor::Answer(Grant::Busy), &[])
        }
    }
}

/// False when it could not be sent: the caller does not read what it asked for.
fn send_packet(socket: &OwnedFd, said: FromDoor, fds: &[BorrowedFd<'_>]) -> bool {
    let packet = said.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return false;
    }
    sendmsg(socket, &[IoSlice::new(&packet)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}

//! What a client of the shm fabric can do that keeps no rule. Everything it can write is tried against a
//! server port that also serves a neighbour: the hostile one must lose its endpoint, the neighbour nothing.

mod contract;

use contract::*;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::net::{SendFlags, send};
use sidewire_common::fabric::{Access, EndpointId, Event, PeerInfo, Port, PostError, Role, Status, Verb, Wake, WorkId};
use sidewire_common::memory::{Buffer, Mapping};
use sidewire_tests::raw_shm::{self as raw, Raw};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Where things are in A; as in `fabric/shm/shape.rs`, which pins it.
const TAKEN: usize = 64;
const RINGS: usize = 128;
const SLOT_BYTES: usize = 320;

/// A server port with a well-behaved neighbour, and room for hostile ones.
struct Street {
    rig: Rig,
    server: Box<dyn Port>,
    client: Box<dyn Port>,
    neighbour: Pair,
    buffer: Buffer,
}

impl Street {
    fn new() -> Self {
        let rig = Rig::new();
        let (mut server, mut client) = (rig.server_port(), rig.client_port());
        let neighbour = writers(&mut *server, &mut *client, DEPTH);
        let buffer = rig.buffers(64, 1).take().unwrap();
        Self { rig, server, client, neighbour, buffer }
    }

    fn hostile(&mut self, role: Role) -> (EndpointId, Raw) {
        let opened = self.server.open(&spec(role, 8)).unwrap();
        self.server.connect(opened.endpoint, &PeerInfo::Unneeded).unwrap();
        (opened.endpoint, Raw::connect(&opened.info))
    }

    /// The neighbour still gets through, both ways.
    fn neighbour_is_well(&mut self) {
        let from = self.buffer.lend(0..8, WorkId(77));
        let to = self.neighbour.staging(0, 8);
        assert_eq!(run(&mut *self.client, self.neighbour.client, Verb::WriteImm { from, to, imm: 5 }).0, Status::Ok);
        self.buffer.give_back(WorkId(77));
        let neighbour = self.neighbour.server;
        let arrived = poll_until(&mut *self.server, |all| all.iter().any(|completion| completion.endpoint == neighbour));
        assert!(arrived.iter().any(|completion| completion.event == Event::Written { imm: 5, bytes: 8 }));
        assert_eq!(run(&mut *self.server, neighbour, Verb::Send { bytes: b"ack" }).0, Status::Ok);
        assert_eq!(take_message(&mut *self.client, self.neighbour.client), b"ack");
    }

    /// The hostile one is cut off, told once, and cannot come back.
    fn is_cut_off(&mut self, hostile: EndpointId) {
        let broken = |c: &sidewire_common::fabric::Completion| c.endpoint == hostile && c.event == Event::Broken;
        let all = poll_until(&mut *self.server, |all| all.iter().any(broken));
        assert_eq!(all.iter().filter(|completion| broken(completion)).count(), 1);
        assert_eq!(post_one(&mut *self.server, hostile, 1, Verb::Send { bytes: b"x" }), Err(PostError::Broken));
        self.neighbour_is_well();
        self.server.close(hostile);
    }
}

const WRITE_TARGET: Role = Role::WriteTarget { staging_bytes: STAGING_BYTES };

#[test]
fn an_entry_longer_than_the_staging_ring() {
    let mut street = Street::new();
    let (end, raw) = street.hostile(WRITE_TARGET);
    raw.view.store_release(RINGS, (9 << 32) | ((STAGING_BYTES as u64 + 1) << 1) | 1).unwrap();
    street.is_cut_off(end);
}

#[test]
fn entries_without_end() {
    let mut street = Street::new();
    let (end, raw) = street.hostile(WRITE_TARGET);
    // All of both laps: the server sees as many as it looks for, and a poll stays bounded.
    for lap in 0..50u64 {
        for slot in 0..8 {
            raw.view.store_release(RINGS + 8 * slot, (7 << 32) | ((lap & 1) ^ 1)).unwrap();
        }
        let mut out = Vec::new();
        assert!(street.server.poll(&mut out) <= 64);
        assert!(out.iter().all(|completion| completion.event == Event::Written { imm: 7, bytes: 0 }));
    }
    street.neighbour_is_well();
    // As it hangs up it gets out what fits the ring, and cannot go on for ever: a port that never gets to
    // sleep looks at its sockets now and then.
    let view = raw.view.clone();
    drop(raw);
    let mut out = Vec::new();
    for lap in 50..1_000_000u64 {
        (0..8).for_each(|slot| view.store_release(RINGS + 8 * slot, (7 << 32) | ((lap & 1) ^ 1)).unwrap());
        assert_eq!(street.server.sleep(PATIENCE).unwrap(), Wake::Ready);
        out.clear();
        street.server.poll(&mut out);
        if out.iter().any(|completion| completion.endpoint == end && completion.event == Event::Broken) {
            break;
        }
    }
    assert_eq!(out.last().map(|completion| (completion.endpoint, completion.event)), Some((end, Event::Broken)));
    street.neighbour_is_well();
}

#[test]
fn positions_that_overtake_and_positions_that_move_back() {
    for (first, second) in [(1, None), (u64::MAX, None), (2, Some(1)), (2, Some(0))] {
        let mut street = Street::new();
        let (end, raw) = street.hostile(WRITE_TARGET);
        let produced = if second.is_some() { 2 } else { 0 };
        for _ in 0..produced {
            assert_eq!(run(&mut *street.server, end, Verb::Send { bytes: b"ack" }).0, Status::Ok);
        }
        raw.view.store_release(TAKEN, first).unwrap();
        if let Some(second) = second {
            for _ in 0..8 {
                run(&mut *street.server, end, Verb::Send { bytes: b"ack" });
            }
            raw.view.store_release(TAKEN, second).unwrap();
        }
        // A look at the room is enough to find it out; so is a post.
        assert_eq!(street.server.room(end), 0);
        street.is_cut_off(end);
    }
}

#[test]
fn a_post_finds_a_hostile_position_too() {
    let mut street = Street::new();
    let (end, raw) = street.hostile(Role::Beat);
    for _ in 0..8 {
        run(&mut *street.server, end, Verb::Send { bytes: b"grant" });
    }
    raw.view.store_release(TAKEN, 9).unwrap();
    assert_eq!(post_one(&mut *street.server, end, 1, Verb::Send { bytes: b"x" }), Err(PostError::Broken));
    street.is_cut_off(end);
}

#[test]
fn a_message_longer_than_its_slot() {
    let mut street = Street::new();
    let (end, raw) = street.hostile(Role::Beat);
    raw.view.store_release(RINGS, (1 << 32) | 257).unwrap();
    street.is_cut_off(end);
}

/// The length that was announced counts, whatever the header says later; and an overrun is not announced.
#[test]
fn a_message_that_changes_after_it_was_announced() {
    let mut street = Street::new();
    let (end, raw) = street.hostile(Role::Beat);
    raw.view.store_release(RINGS, (1 << 32) | 4).unwrap();
    let slot = match poll_count(&mut *street.server, 1)[0].event {
        Event::Message { slot } => slot,
        other => panic!("{other:?}"),
    };
    raw.view.store_release(RINGS, (2 << 32) | 0xffff).unwrap();
    (1..8).for_each(|slot| raw.view.store_release(RINGS + slot * SLOT_BYTES, 1 << 32).unwrap());
    assert_eq!(street.server.poll(&mut Vec::new()), 7);
    assert_eq!(street.server.poll(&mut Vec::new()), 0);
    assert_eq!(street.server.take_message(end, slot, &mut [0; 256]).unwrap(), 4);
    street.is_cut_off(end);
}

#[test]
fn rings_without_a_reason() {
    let mut street = Street::new();
    let (end, raw) = street.hostile(WRITE_TARGET);
    let _ = send(&raw.socket, &[1; 4096], SendFlags::NOSIGNAL);
    let since = Instant::now();
    while street.server.sleep(Duration::from_millis(50)).unwrap() != Wake::Ready {
        assert!(since.elapsed() < PATIENCE);
    }
    street.is_cut_off(end);
}

/// Whatever descriptors the client holds, what the server wrote stays as it is.
#[test]
fn nothing_that_is_read_only_can_be_written() {
    let mut street = Street::new();
    let region = street.rig.region(4096, Access::RemoteRead);
    region.fill(|_| 0x5a);
    let (_, raw) = street.hostile(Role::Beat);
    let link = raw::ticket(&street.rig.server.admit(street.rig.id).unwrap()).clone();
    let door = raw::knock(&link.socket);
    assert!(raw::say(&door, &raw::packet(raw::LINK, &link.token)));
    assert!(raw::listen(&door).1.is_empty());
    assert!(raw::say(&door, &raw::packet(raw::ASK, &region.at(0, 0).rkey.to_le_bytes())));
    let (_, fds) = raw::listen(&door);
    for fd in [fds[0].as_fd(), raw.server_fd.as_fd(), raw.sleeper_fd.as_fd()] {
        let bytes = rustix::fs::fstat(fd).unwrap().st_size as usize;
        cannot_be_written(fd, bytes);
        // Reopened for writing, which the same user may: no difference.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if let Ok(again) = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            cannot_be_written(again.as_fd(), bytes);
        }
    }
    assert_eq!(region.view.load(0), Ok(0x5a5a_5a5a_5a5a_5a5a));
    // A: the client's own, but its size is not.
    assert!(rustix::fs::ftruncate(&raw.client_fd, 0).is_err());
    assert!(rustix::fs::fcntl_add_seals(&raw.client_fd, rustix::fs::SealFlags::WRITE).is_err());
}

fn cannot_be_written(fd: BorrowedFd<'_>, bytes: usize) {
    assert!(Mapping::adopt("hostile", fd.try_clone_to_owned().unwrap(), bytes, true).is_err());
    assert!(Mapping::adopt("hostile", fd.try_clone_to_owned().unwrap(), bytes, false).is_ok());
    assert!(rustix::io::pwrite(fd, b"x", 0).is_err());
    assert!(rustix::fs::ftruncate(fd, 0).is_err());
    assert!(rustix::fs::fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes as u64).is_err());
}

/// Cells come writable, other regions never, and no rkey opens what is not registered.
#[test]
fn the_door_gives_what_was_granted() {
    let street = Street::new();
    let cells = street.rig.region(4096, Access::RemoteReadAtomic);
    let link = raw::ticket(&street.rig.server.admit(street.rig.id).unwrap()).clone();
    let door = raw::knock(&link.socket);
    assert!(raw::say(&door, &raw::packet(raw::LINK, &link.token)));
    raw::listen(&door);
    assert!(raw::say(&door, &raw::packet(raw::ASK, &cells.at(0, 0).rkey.to_le_bytes())));
    let (_, mut fds) = raw::listen(&door);
    assert!(Mapping::adopt("cells", fds.pop().unwrap(), 4096, true).is_ok());
    for rkey in [0, u32::MAX, cells.at(0, 0).rkey ^ 1, street.neighbour.staging(0, 0).rkey] {
        assert!(raw::say(&door, &raw::packet(raw::ASK, &rkey.to_le_bytes())));
        let (answer, fds) = raw::listen(&door);
        assert_eq!((answer[8], fds.len()), (1, 0), "{rkey:#x}");
    }
    // A second link of the same client ends the first.
    let again = street.rig.server.admit(street.rig.id).unwrap();
    assert!(raw::listen(&door).0.is_empty());
    street.rig.client.link(&again).unwrap();
    assert!(street.rig.client.link_alive());
}

/// A page that the client punches out of its own memory reads as zeros; nothing else happens.
#[test]
fn holes_in_its_own_memory() {
    let mut street = Street::new();
    let (_, raw) = street.hostile(WRITE_TARGET);
    let bytes = rustix::fs::fstat(&raw.client_fd).unwrap().st_size as u64;
    rustix::fs::fallocate(&raw.client_fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes).unwrap();
    for _ in 0..10 {
        street.server.poll(&mut Vec::new());
    }
    street.neighbour_is_well();
}

/// Whatever is said at the door that is not right is answered by closing it, and a token is good once.
#[test]
fn nonsense_at_the_door() {
    let mut street = Street::new();
    let opened = street.server.open(&spec(WRITE_TARGET, 8)).unwrap();
    let ticket = raw::ticket(&opened.info).clone();
    let good = raw::packet(raw::ENDPOINT, &ticket.token);
    let mut wrong: Vec<Vec<u8>> = vec![b"x".to_vec(), vec![0; 32], vec![0xff; 4096], good[..31].to_vec()];
    wrong.push([&good[..], b"x"].concat());
    wrong.push(raw::packet(raw::ASK, &[1]));
    wrong.push(raw::packet(raw::ENDPOINT, &[0; 16]));
    wrong.extend((0..8).chain(24..32).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        bytes
    }));
    for bytes in wrong {
        let door = raw::knock(&ticket.socket);
        raw::say(&door, &bytes);
        assert_eq!(raw::listen(&door).0, b"", "{bytes:?}");
    }
    let door = raw::knock(&ticket.socket);
    assert!(raw::say(&door, &good));
    assert_eq!(raw::listen(&door).1.len(), 4);
    let door = raw::knock(&ticket.socket);
    raw::say(&door, &good);
    assert_eq!(raw::listen(&door).0, b"", "the token was good twice");
    street.neighbour_is_well();
}

/// The library says so too when a ticket is used twice, or is taken back.
#[test]
fn a_ticket_is_good_once() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let opened = server.open(&spec(Role::ReadTarget, 8)).unwrap();
    let first = client.open(&spec(Role::Reader, 8)).unwrap().endpoint;
    let second = client.open(&spec(Role::Reader, 8)).unwrap().endpoint;
    client.connect(first, &opened.info).unwrap();
    assert!(client.connect(second, &opened.info).is_err());
    assert!(client.connect(first, &opened.info).is_err());
    let other = server.open(&spec(Role::Beat, 8)).unwrap();
    // The role must be the one that was opened; that costs the ticket.
    assert!(client.connect(second, &other.info).is_err());
    let closed = server.open(&spec(Role::ReadTarget, 8)).unwrap();
    server.close(closed.endpoint);
    assert!(client.connect(second, &closed.info).is_err());
    let invitation = rig.server.admit(rig.id).unwrap();
    rig.server.dismiss(rig.id);
    assert!(rig.client.link(&invitation).is_err());
}

/// Strangers who say nothing are shown out in time, and a crowd of them does not keep a client out.
#[test]
fn strangers_who_say_nothing() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let opened = server.open(&spec(Role::Beat, 8)).unwrap();
    let name = raw::ticket(&opened.info).socket.clone();
    let crowd: Vec<_> = (0..300).map(|_| raw::knock(&name)).collect();
    server.connect(opened.endpoint, &PeerInfo::Unneeded).unwrap();
    let end = client.open(&spec(Role::Beat, 8)).unwrap().endpoint;
    client.connect(end, &opened.info).unwrap();
    let since = Instant::now();
    for stranger in &crowd {
        assert_eq!(raw::listen(stranger).0, b"");
    }
    assert!(since.elapsed() < Duration::from_secs(5));
}

//! Over shared memory: all that a client of the real server may write, written.

use super::scene::Scene;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use sidewire_common::fabric::{PeerInfo, Role, Verb};
use sidewire_proto::convert::{self, RegionUse};
use sidewire_proto::v1::open_endpoint_request::Role as WireRole;
use sidewire_tests::intruder::{Attached, Intruder};
use sidewire_tests::raw_shm::{self as raw, Raw};
use sidewire_tests::{scale, setting, stamped};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn skipped() -> bool {
    if setting::is_verbs() {
        println!("skipped: verbs share no rings");
    }
    setting::is_verbs()
}

/// Opens an endpoint and holds its memory raw.
fn seize(attached: &mut Attached, session: u32, role: WireRole) -> Raw {
    let request = attached.endpoint_request(if role == WireRole::Beat { 0 } else { session }, role, None);
    let reply = attached.ask(async |control| control.open_endpoint(request).await).unwrap().into_inner();
    Raw::connect(&convert::peer(reply.peer).unwrap())
}

fn link(attached: &Attached) -> OwnedFd {
    let PeerInfo::Shm(ticket) = convert::peer(attached.reply.link.clone()).unwrap() else { panic!("no ticket") };
    let door = raw::knock(&ticket.socket);
    assert!(raw::say(&door, &raw::packet(raw::LINK, &ticket.token)));
    raw::listen(&door);
    door
}

/// Random words at random places of everything, positions and rings more often, with rings of the bell between.
#[test]
fn scribbling_over_everything() {
    if skipped() {
        return;
    }
    let scene = Scene::new();
    let mut attached = Attached::to(scene.address());
    let door = link(&attached);
    let counted = scene.refused("fabric.misbehaviour");
    let mut lost = 0;
    for round in 0..scale(100) as u32 {
        let role = if round % 3 == 0 { WireRole::Beat } else { WireRole::Writer };
        // Few sessions, again and again: each replaces the one before.
        let raw = seize(&mut attached, round % 7, role);
        let roll = |n: u64| stamped::mixed(u64::from(round) << 32, n);
        for n in 0..200 {
            let words = raw.view.len() as u64 / 8;
            // Two of three into positions and rings.
            let word = if roll(n) % 3 == 0 { roll(n + 1000) % words } else { roll(n + 1000) % 400.min(words) };
            let value = match roll(n + 2000) % 6 {
                0 => u64::MAX,
                1 => roll(n + 3000) % 3,
                2 => (roll(n + 3000) << 32) | 129,
                3 => (1 << 32) | (roll(n + 3000) % 300),
                _ => roll(n + 3000),
            };
            raw.view.store_release(word as usize * 8, value).unwrap();
            if roll(n + 4000) % 8 == 0 {
                raw::say(&raw.socket, &roll(n).to_le_bytes());
            }
        }
        // The server closes the socket of an endpoint that it gives up.
        rustix::net::sockopt::set_socket_timeout(
            &raw.socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(Duration::from_millis(50)),
        )
        .unwrap();
        let mut bytes = [0u8; 64];
        loop {
            match rustix::net::recv(&raw.socket, &mut bytes[..], rustix::net::RecvFlags::empty()) {
                Ok((_, 0)) | Err(Errno::CONNRESET) => break lost += 1,
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
    println!(
        "{lost} of {} endpoints lost, {} counted as misbehaviour",
        scale(100),
        scene.refused("fabric.misbehaviour") - counted
    );
    assert!(lost > 0, "scribbling costs nothing");
    assert!(scene.refused("fabric.misbehaviour") > counted, "and is not counted");
    attached.leave().unwrap();
    drop(attached);
    drop(door);
    scene.ends_as_it_began();
}

/// The staging ring is filled with what looks like requests, and every word of the ring of immediates names some.
#[test]
fn immediates_that_nobody_wrote() {
    if skipped() {
        return;
    }
    const RINGS: usize = 128;
    let scene = Scene::new();
    let mut attached = Attached::to(scene.address());
    let door = link(&attached);
    let before = scene.server.info().requests_refused;
    for round in 0..scale(50) as u32 {
        let raw = seize(&mut attached, round % 5, WireRole::Writer);
        for slot in 0..64u64 {
            let (imm, length) = (stamped::mixed(u64::from(round), slot) & 0xffff_ffff, stamped::mixed(slot, 7) % (70 << 10));
            raw.view.store_release(RINGS + slot as usize * 8, imm << 32 | length << 1 | 1).unwrap();
        }
        raw::say(&raw.socket, &[1]);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            // A hang-up ends the wait.
            if rustix::net::recv(&raw.socket, &mut [0u8; 8][..], rustix::net::RecvFlags::DONTWAIT)
                .is_ok_and(|(_, count)| count == 0)
            {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Instant::now() < until, "the endpoint lives on");
    }
    let refused = scene.server.info().requests_refused - before;
    println!("{refused} requests refused");
    assert!(refused > 0);
    attached.leave().unwrap();
    drop(attached);
    drop(door);
    scene.ends_as_it_began();
}

fn send_descriptors(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    let _ = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Descriptors that nobody asked for are closed again, at the door and on an endpoint's socket.
#[test]
fn descriptors_as_a_gift() {
    if skipped() {
        return;
    }
    let scene = Scene::new();
    let mut attached = Attached::to(scene.address());
    let door = link(&attached);
    let raw = seize(&mut attached, 1, WireRole::Writer);
    let files: Vec<File> = (0..64).map(|_| File::open("/dev/null").unwrap()).collect();
    let gifts: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    scene.neighbour_goes_on();
    let before = scene.server.open_files();
    let PeerInfo::Shm(ticket) = convert::peer(attached.reply.link.clone()).unwrap() else { panic!("no ticket") };
    for _ in 0..50 {
        send_descriptors(raw.socket.as_fd(), &[1], &gifts);
        let stranger = raw::knock(&ticket.socket);
        send_descriptors(stranger.as_fd(), &raw::packet(raw::LINK, &[9; 16]), &gifts);
        assert_eq!(raw::listen(&stranger).0, b"", "a guessed token");
    }
    let until = Instant::now() + Duration::from_secs(5);
    while scene.server.open_files() > before + 8 {
        assert!(Instant::now() < until, "{} descriptors, {before} before", scene.server.open_files());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(raw);
    attached.leave().unwrap();
    drop(attached);
    drop(door);
    scene.ends_as_it_began();
}

/// One who changes a counter's cell without pause, while it is to be deleted: an answer comes all the same.
#[test]
fn a_cell_that_never_rests() {
    let scene = Scene::new();
    let client = scene.server.client();
    let session = client.session().unwrap();
    session.set_deadline(setting::patience(Duration::from_secs(10)));
    let mut intruder = Intruder::at(scene.address());
    let (reader, _) = intruder.open(Role::Reader).unwrap();
    let cells = intruder.attached.regions_for(RegionUse::Cells)[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let adds = scope.spawn(|| {
            // Endpoints belong to a thread: this one has its own.
            let mut other = Intruder::at(scene.address());
            let (reader, _) = other.open(Role::Reader).unwrap();
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                // The first cell is the neighbour's.
                for index in 1..9 {
                    let at = cells.base.plus(index * 64);
                    other.run(reader, &[], |_| Verb::FetchAdd { at, delta: 1 });
                    count += 1;
                }
            }
            other.attached.leave().unwrap();
            count
        });
        for round in 0..scale(200) {
            let key = format!("restless-{round}");
            session.create_counter(key.as_bytes(), 0).unwrap();
            let since = Instant::now();
            match session.delete(key.as_bytes()) {
                Ok(deleted) => assert!(deleted),
                Err(error) => {
                    println!("{error} after {:?}", since.elapsed());
                    assert!(since.elapsed() < setting::patience(Duration::from_secs(12)));
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        println!("{} adds meanwhile", adds.join().unwrap());
    });
    intruder.close(reader);
    intruder.attached.leave().unwrap();
    drop((intruder, session, client));
    // Cells of counters that could not be deleted stay; there are none unless an add struck each of many guesses.
    scene.ends_as_it_began();
}

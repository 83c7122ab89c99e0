//! A door that answers too late.
//!
//! What could break: an answer does not say what it answers. One that comes after its question was given up would be
//! taken for that of the next question, and one region would be read as another.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept, bind, listen, recv, send, sendmsg, socket_with,
};
use sidewire_common::fabric::{Fabric, PeerInfo, RemoteAddr, RemoteRegion, ShmTicket, shm};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Of the region.
const BYTES: u64 = 4096;
const PATIENCE: Duration = Duration::from_millis(100);

fn packet(kind: u16) -> [u8; 32] {
    let mut packet = [0; 32];
    packet[..4].copy_from_slice(b"SWsh");
    packet[4..6].copy_from_slice(&1_u16.to_le_bytes());
    packet[6..8].copy_from_slice(&kind.to_le_bytes());
    packet
}

fn region_file() -> OwnedFd {
    let file = memfd_create("late", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, BYTES).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL | SealFlags::FUTURE_WRITE).unwrap();
    file
}

fn grant(link: &OwnedFd, file: &OwnedFd) {
    let fds = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    // The guest may have hung up, which is what it should do.
    let _ = sendmsg(link, &[IoSlice::new(&packet(4))], &mut control, SendFlags::NOSIGNAL);
}

/// Welcomes one guest, and answers its first question when told to; says when it has.
fn late_door(name: &str) -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    let door = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&door, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    listen(&door, 1).unwrap();
    let ((tell, told), (say, said)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        let link = accept(&door).unwrap();
        let mut hello = [0_u8; 32];
        recv(&link, &mut hello[..], RecvFlags::empty()).unwrap();
        send(&link, &packet(5), SendFlags::empty()).unwrap();
        recv(&link, &mut hello[..], RecvFlags::empty()).unwrap();
        told.recv().unwrap();
        grant(&link, &region_file());
        say.send(()).unwrap();
        // Until the test is over.
        let _ = told.recv();
    });
    (tell, said)
}

#[test]
fn an_answer_that_comes_too_late_is_not_taken_for_the_next() {
    let name = format!("sidewire-late-{}", std::process::id());
    let (answer, answered) = late_door(&name);
    let guest = shm::Guest::new();
    guest.link(&PeerInfo::Shm(ShmTicket { socket: name, token: [7; 16] })).unwrap();
    let region = |rkey| RemoteRegion { base: RemoteAddr { addr: 0, rkey }, bytes: BYTES, atomic: false };
    guest.set_patience(PATIENCE);
    let started = Instant::now();
    let error = guest.adopt(&[region(1)]).unwrap_err();
    assert!(started.elapsed() >= PATIENCE && started.elapsed() < PATIENCE * 10, "{:?}", started.elapsed());
    println!("{error}");
    answer.send(()).unwrap();
    answered.recv().unwrap();
    let second = guest.adopt(&[region(2)]);
    assert!(second.is_err(), "region 2 is what was sent for region 1");
    let until = Instant::now() + Duration::from_secs(2);
    while guest.link_alive() {
        assert!(Instant::now() < until, "the link goes on, though nobody knows what its answers mean");
        std::thread::sleep(Duration::from_millis(1));
    }
}

//! Over shared memory: what can be done with the descriptors that the server hands over.

use crate::{fill, is_whole};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, recvmsg, send, socket_with,
};
use sidewire_common::fabric::{Fabric, PeerInfo, RemoteAddr, RemoteRegion, Role, shm};
use sidewire_common::memory::Mapping;
use sidewire_proto::convert::{self, RegionUse};
use sidewire_tests::intruder::{Attached, Intruder};
use sidewire_tests::{Server, setting};
use std::fs::{File, OpenOptions};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// The link's socket, spoken to by hand.
struct Door(OwnedFd);

const PACKET_BYTES: usize = 32;

impl Door {
    fn open(attached: &Attached) -> Self {
        let Ok(PeerInfo::Shm(ticket)) = convert::peer(attached.reply.link.clone()) else { panic!("no ticket") };
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new_abstract_name(ticket.socket.as_bytes()).unwrap()).unwrap();
        let door = Self(socket);
        door.say(1, &ticket.token);
        assert_eq!(door.hear().1.len(), 0, "the welcome of a link brings no descriptor");
        door
    }

    fn say(&self, kind: u8, body: &[u8]) {
        let mut packet = [0; PACKET_BYTES];
        packet[..8].copy_from_slice(&[b'S', b'W', b's', b'h', 1, 0, kind, 0]);
        packet[8..8 + body.len()].copy_from_slice(body);
        send(&self.0, &packet, SendFlags::NOSIGNAL).unwrap();
    }

    fn hear(&self) -> (usize, Vec<OwnedFd>) {
        let mut bytes = [0; PACKET_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let rights = control.drain().filter_map(|m| if let RecvAncillaryMessage::ScmRights(fds) = m { Some(fds) } else { None });
        (received.bytes, rights.flatten().collect())
    }

    fn ask(&self, rkey: u32) -> Option<File> {
        self.say(3, &rkey.to_le_bytes());
        let (bytes, mut fds) = self.hear();
        assert_eq!(bytes, PACKET_BYTES);
        assert!(fds.len() <= 1);
        fds.pop().map(File::from)
    }
}

fn skipped() -> bool {
    if setting::is_verbs() {
        println!("skipped: verbs hand over no descriptors");
    }
    setting::is_verbs()
}

fn adopt(file: &File, bytes: u64, writable: bool) -> Result<Mapping, String> {
    let fd = OwnedFd::from(file.try_clone().unwrap());
    Mapping::adopt("stolen", fd, bytes as usize, writable).map_err(|e| e.to_string())
}

/// Whether `mprotect` could make this mapping writable: the flag `mw` in `/proc/self/smaps`.
fn may_become_writable(map: &Mapping) -> bool {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let start = format!("{:x}-", map.address());
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&start));
    let flags = lines.find(|line| line.starts_with("VmFlags:")).expect("the mapping is ours");
    flags.split_whitespace().any(|flag| flag == "mw")
}

/// Everything that a descriptor could be used for.
fn nothing_writes(name: &str, file: &File, bytes: u64) {
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE;
    assert!(fcntl_get_seals(file).unwrap().contains(all), "{name}");
    assert!(fcntl_add_seals(file, SealFlags::WRITE).is_err(), "{name}: a seal was added");
    assert!(adopt(file, bytes, true).is_err(), "{name}: mapped writable");
    let map = adopt(file, bytes, false).unwrap();
    assert!(!may_become_writable(&map), "{name}: mprotect would be granted");
    let mut ways = vec![("as it came", file.try_clone().unwrap())];
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Root may open anything again; the seals must hold all the same.
    if let Ok(again) = OpenOptions::new().read(true).write(true).open(&path) {
        ways.push(("opened again", again));
    }
    for (way, file) in ways {
        assert!(file.write_at(&[1; 8], 0).is_err(), "{name}, {way}: written");
        assert!(file.set_len(0).is_err(), "{name}, {way}: shrunk");
        assert!(file.set_len(bytes * 2).is_err(), "{name}, {way}: grown");
        assert!(adopt(&file, bytes, true).is_err(), "{name}, {way}: mapped writable");
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(fallocate(&file, hole, 0, bytes).is_err(), "{name}, {way}: punched");
        assert!(fallocate(&file, FallocateFlags::ZERO_RANGE, 0, bytes).is_err(), "{name}, {way}: zeroed");
    }
}

#[test]
fn index_and_heap_cannot_be_made_writable() {
    if skipped() {
        return;
    }
    let server = Server::builder().memory("64MiB").start();
    let client = server.client();
    let session = client.session().unwrap();
    fill(&session);
    let attached = Attached::to(server.address());
    let door = Door::open(&attached);
    let mut tried = 0;
    for (name, used_for) in [("index", RegionUse::Index), ("heap", RegionUse::Heap)] {
        for region in attached.regions_for(used_for) {
            let file = door.ask(region.base.rkey).expect("the region is offered");
            nothing_writes(name, &file, region.bytes);
            tried += 1;
        }
    }
    assert!(tried >= 2);
    is_whole(&session);
}

/// Cells may be written, that is their purpose, but no more than that.
#[test]
fn cells_cannot_be_shrunk_and_a_hole_kills_nobody() {
    if skipped() {
        return;
    }
    let mut server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    fill(&session);
    let attached = Attached::to(server.address());
    let door = Door::open(&attached);
    let region = attached.regions_for(RegionUse::Cells)[0];
    let file = door.ask(region.base.rkey).expect("cells are offered");
    assert!(file.set_len(0).is_err() && file.set_len(region.bytes * 2).is_err());
    let map = adopt(&file, region.bytes, true).expect("cells are mapped writable");
    drop(map);
    // The last page: cells that serve nobody yet.
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, region.bytes - 4096, 4096).unwrap();
    is_whole(&session);
    for n in 0..500 {
        session.create_counter(format!("more{n}").as_bytes(), n).unwrap();
        assert_eq!(session.counter(format!("more{n}").as_bytes()).unwrap(), Some(n));
    }
    assert!(server.runs());
}

#[test]
fn anothers_ring_is_never_handed_over() {
    if skipped() {
        return;
    }
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    fill(&session);
    let mut victim = Intruder::at(server.address());
    let (_, ring) = victim.open(Role::Writer).unwrap();
    let ring = ring.expect("a writer has a ring");
    let attached = Attached::to(server.address());
    let door = Door::open(&attached);
    assert!(door.ask(ring.base.rkey).is_none(), "the victim's ring");
    let offered: Vec<u32> = attached.regions().iter().map(|region| region.region.base.rkey).collect();
    for guess in (0..2000).chain((0..200).map(|n| n | 1 << 31)).chain([u32::MAX]).filter(|guess| !offered.contains(guess)) {
        assert!(door.ask(guess).is_none(), "rkey {guess:#x} was never offered");
    }
    is_whole(&session);
}

/// A token that is good twice would let one client take over another's link or endpoint.
#[test]
fn a_token_opens_once() {
    if skipped() {
        return;
    }
    let server = Server::start();
    let attached = Attached::to(server.address());
    let invitation = convert::peer(attached.reply.link.clone()).unwrap();
    let first = shm::Guest::new();
    first.link(&invitation).unwrap();
    assert!(shm::Guest::new().link(&invitation).is_err(), "the same token once more");
    let PeerInfo::Shm(mut ticket) = invitation else { panic!("no ticket") };
    ticket.token[0] ^= 1;
    assert!(shm::Guest::new().link(&PeerInfo::Shm(ticket)).is_err(), "a guessed token");
    assert!(first.link_alive());
    // A client that lies to itself about what a region is gets no further.
    for region in attached.regions_for(RegionUse::Heap) {
        assert!(first.adopt(&[RemoteRegion { atomic: true, ..region }]).is_err(), "the heap as cells");
    }
    let base = RemoteAddr { addr: 0, rkey: attached.regions_for(RegionUse::Index)[0].base.rkey };
    assert!(first.adopt(&[RemoteRegion { base, bytes: 1 << 40, atomic: false }]).is_err(), "more than there is");
}

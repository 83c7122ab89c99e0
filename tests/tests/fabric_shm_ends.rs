//! The end of either side of the shm fabric: who learns of it, and what is given back.

mod contract;

use contract::*;
use sidewire_common::fabric::{Access, Event, PeerInfo, Role, Status, Verb, Wake, WorkId};
use sidewire_tests::raw_shm as raw;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sleeps until `Broken` comes for each of the ends.
fn all_broken(port: &mut dyn sidewire_common::fabric::Port, ends: usize) {
    let (mut broken, mut out, since) = (0, Vec::new(), Instant::now());
    while broken < ends {
        if port.poll(&mut out) == 0 {
            assert_ne!(port.sleep(PATIENCE).unwrap(), Wake::TimedOut);
        }
        broken += out.drain(..).filter(|completion| completion.event == Event::Broken).count();
        assert!(since.elapsed() < PATIENCE);
    }
    assert_eq!(port.poll(&mut out), 0);
}

/// A client's end wakes the server; what it had sent before still arrives.
#[test]
fn a_server_learns_that_its_client_is_gone() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    readers(&mut *server, &mut *client, DEPTH);
    let beat = beats(&mut *server, &mut *client, 16);
    writers(&mut *server, &mut *client, DEPTH);
    for message in [b"last", b"word"] {
        post_one(&mut *client, beat.client, 1, Verb::Send { bytes: message }).unwrap();
    }
    drop(client);
    assert_eq!(server.sleep(PATIENCE).unwrap(), Wake::Ready);
    let all = poll_until(&mut *server, |all| all.iter().filter(|completion| completion.event == Event::Broken).count() == 3);
    assert_eq!(all.iter().filter(|completion| matches!(completion.event, Event::Message { .. })).count(), 2);
    assert_eq!(server.poll(&mut Vec::new()), 0);
}

/// Even a server that never sleeps.
#[test]
fn a_server_that_never_sleeps_learns_it_too() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    readers(&mut *server, &mut *client, DEPTH);
    drop(client);
    poll_until(&mut *server, |all| all.iter().any(|completion| completion.event == Event::Broken));
}

/// What a client published before it went is received even when its end is heard first.
#[test]
fn last_words_are_heard_after_the_end() {
    for polls in 0..64 {
        let rig = Rig::new();
        let (mut server, mut client) = (rig.server_port(), rig.client_port());
        let beat = beats(&mut *server, &mut *client, 16);
        (0..polls).for_each(|_| assert_eq!(server.poll(&mut Vec::new()), 0));
        post_one(&mut *client, beat.client, 1, Verb::Send { bytes: b"last" }).unwrap();
        drop(client);
        // Long enough for the next look at the sockets to be due.
        std::thread::sleep(Duration::from_millis(2));
        assert!(matches!(poll_count(&mut *server, 1)[0].event, Event::Message { .. }), "after {polls} polls");
        all_broken(&mut *server, 1);
    }
}

/// A server's end: every endpoint of the client breaks, the link says so, and the server's memory is free
/// although the client's port was never used again.
#[test]
fn a_client_learns_that_its_server_is_gone_and_holds_nothing() {
    let rig = Rig::new();
    let region = rig.region(0x8f000, Access::RemoteRead);
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let mut idle = rig.client_port();
    readers(&mut *server, &mut *client, DEPTH);
    beats(&mut *server, &mut *client, 16);
    writers(&mut *server, &mut *client, DEPTH);
    let idle_pair = readers(&mut *server, &mut *idle, DEPTH);
    let mut buffer = rig.buffers(64, 1).take().unwrap();
    let at = region.at(0, 8);
    assert_eq!(read(&mut *idle, idle_pair.client, &mut buffer, at, 8), Status::Ok);
    let lent = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("memfd:sidewire-contract") && size(line) == 0x8f000).count()
    };
    assert_eq!(lent(), 2);
    drop(server);
    let Rig { server, client: guest, .. } = rig;
    drop((server, region));
    soon(|| (!guest.link_alive()).then_some(()));
    soon(|| (lent() == 0).then_some(()));
    // A port that has not heard of it yet must not take what it finds there for the server's.
    let into = buffer.lend(0..8, WorkId(77));
    if post_one(&mut *idle, idle_pair.client, 77, Verb::Read { into, from: at }).is_ok() {
        assert_eq!(dones(&poll_until(&mut *idle, |all| !dones(all).is_empty()))[0].1, Status::RemoteAccess);
    }
    all_broken(&mut *client, 3);
    assert!(guest.adopt(&[]).is_err());
}

fn size(line: &str) -> u64 {
    let (start, rest) = line.split_once('-').unwrap();
    let end = rest.split(' ').next().unwrap();
    u64::from_str_radix(end, 16).unwrap() - u64::from_str_radix(start, 16).unwrap()
}

/// A server that closes one endpoint, or dismisses a client.
#[test]
fn a_client_learns_that_it_was_dismissed() {
    let rig = Rig::new();
    let (mut server, mut client) = (rig.server_port(), rig.client_port());
    let pair = beats(&mut *server, &mut *client, 16);
    server.close(pair.server);
    all_broken(&mut *client, 1);
    rig.server.dismiss(rig.id);
    soon(|| (!rig.client.link_alive()).then_some(()));
    assert!(rig.server.departed().is_empty());
}

/// Runs an ignored test of this file in a process of its own, where no other test disturbs its counts.
fn alone(name: &str) {
    let output =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", name, "--ignored", "--nocapture"]).output().unwrap();
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

fn gauges() -> [usize; 3] {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    [count("/proc/self/fd"), maps.lines().filter(|line| line.contains("memfd:")).count(), count("/proc/self/task")]
}

/// Descriptors, mappings and threads after 1,000 connects and ends are as before.
#[test]
fn a_thousand_connects_leave_nothing_behind() {
    alone("leave_nothing_behind");
}

#[test]
#[ignore = "runs in a process of its own"]
fn leave_nothing_behind() {
    let rig = Rig::new();
    let region = rig.region(4096, Access::RemoteRead);
    let mut server = rig.server_port();
    let before = gauges();
    for round in 0..1_000 {
        let guest = sidewire_common::fabric::open_client(rig.client.info().kind, None, None).unwrap();
        let id = sidewire_common::id::ClientId::random();
        guest.link(&rig.server.admit(id).unwrap()).unwrap();
        guest.adopt(&[region.registered.remote()]).unwrap();
        let mut client = guest.port(sidewire_common::fabric::PortSpec { name: "brief".into(), completions: 1024 }).unwrap();
        let pairs = [
            readers(&mut *server, &mut *client, 8),
            writers(&mut *server, &mut *client, 8),
            beats(&mut *server, &mut *client, 8),
        ];
        // Also one whose client never comes.
        let never = server.open(&spec(Role::Beat, 8)).unwrap();
        server.connect(never.endpoint, &PeerInfo::Unneeded).unwrap();
        if round % 2 == 0 {
            drop((client, guest));
            pairs.iter().for_each(|pair| server.close(pair.server));
        } else {
            pairs.iter().for_each(|pair| server.close(pair.server));
            drop((guest, client));
        }
        server.close(never.endpoint);
        server.poll(&mut Vec::new());
    }
    // The door may not have closed its copy of the last descriptor when `before` was taken.
    soon(|| (gauges().iter().zip(before).all(|(after, before)| *after <= before)).then_some(()));
    soon(|| (rig.server.departed().len() <= 1_000).then_some(()));
}

/// Without a descriptor to spare the door waits: it neither dies nor spins, and serves when there are some.
#[test]
fn the_door_survives_a_lack_of_descriptors() {
    alone("survive_a_lack_of_descriptors");
}

#[test]
#[ignore = "runs in a process of its own"]
fn survive_a_lack_of_descriptors() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let rig = Rig::new();
    let mut server = rig.server_port();
    let opened = server.open(&spec(Role::Beat, 8)).unwrap();
    let ticket = raw::ticket(&opened.info).clone();
    let door = door_stat();
    let knocking: Vec<_> = (0..4).map(|_| raw::socket()).collect();
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    knocking.iter().for_each(|socket| raw::knock_with(socket, &ticket.socket));
    let before = ticks(&door);
    std::thread::sleep(Duration::from_secs(1));
    let spent = ticks(&door) - before;
    assert!(spent <= 5, "the door spent {spent} ticks of 100 on waiting");
    assert!(raw::say(&knocking[0], &raw::packet(raw::ENDPOINT, &ticket.token)));
    taken.truncate(taken.len() - 8);
    assert_eq!(raw::listen(&knocking[0]).1.len(), 4);
}

/// The door thread's `stat`, opened while there are descriptors.
fn door_stat() -> File {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let mut tasks = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).unwrap().trim() == "sidewire-door");
    File::open(tasks.next().unwrap().join("stat")).unwrap()
}

/// CPU time spent, in clock ticks.
fn ticks(stat: &File) -> u64 {
    let mut bytes = [0; 1024];
    let length = stat.read_at(&mut bytes, 0).unwrap();
    let text = String::from_utf8_lossy(&bytes[..length]);
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

//! Two processes: the server is stopped, and killed, while the client works on its memory.

use crate::rig::{Rig, port, server_memory, take, verbs_setting};
use rustix::process::{Pid, Signal, kill_process};
use sidewire_common::fabric::{
    Access, EndpointSpec, Event, FabricChoice, PeerInfo, RemoteAddr, RemoteRegion, Role, Status, Verb, VerbsPeer, WorkId,
    WorkRequest, open_server,
};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "SIDEWIRE_CONTRACT_CHILD";

fn text(peer: &VerbsPeer) -> String {
    let gid: String = peer.gid.iter().map(|b| format!("{b:02x}")).collect();
    format!("{} {} {} {gid} {} {} {}", peer.qpn, peer.psn, peer.lid, peer.mtu_bytes, peer.responder_depth, peer.initiator_depth)
}

fn parse(line: &str) -> VerbsPeer {
    let words: Vec<&str> = line.split_whitespace().collect();
    let gid = std::array::from_fn(|n| u8::from_str_radix(&words[3][2 * n..2 * n + 2], 16).unwrap());
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    VerbsPeer {
        qpn: number(0),
        psn: number(1),
        lid: number(2) as u16,
        gid,
        mtu_bytes: number(4),
        responder_depth: number(5) as u8,
        initiator_depth: number(6) as u8,
    }
}

/// Not a test of its own: the server's process, started by the tests below.
#[test]
fn verbs_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let (device, address) = verbs_setting().unwrap();
    let fabric = open_server(FabricChoice::Verbs, Some(&device), address).unwrap().fabric;
    let cells = server_memory(&fabric, 4096, Access::RemoteReadAtomic);
    cells.0.store(8, 0x1234).unwrap();
    let mut port = port(&fabric, 64);
    let opened = port.open(&EndpointSpec { role: Role::ReadTarget, send_depth: 0, recv_depth: 0 }).unwrap();
    let PeerInfo::Verbs(peer) = &opened.info else { unreachable!() };
    let base = cells.1.remote().base;
    println!("\nCHILD {} {} {}", base.addr, base.rkey, text(peer));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    port.connect(opened.endpoint, &PeerInfo::Verbs(parse(&line))).unwrap();
    println!("READY");
    std::io::stdin().read_line(&mut line).unwrap();
}

struct Server {
    child: Child,
    cells: RemoteRegion,
    reader: sidewire_common::fabric::EndpointId,
}

impl Server {
    fn start(rig: &mut Rig) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["processes::verbs_child", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with("CHILD ")).unwrap();
        let mut words = line.splitn(4, ' ').skip(1);
        let addr = words.next().unwrap().parse().unwrap();
        let rkey = words.next().unwrap().parse().unwrap();
        let peer = parse(words.next().unwrap());
        let opened = rig.here.open(&EndpointSpec { role: Role::Reader, send_depth: 64, recv_depth: 0 }).unwrap();
        let PeerInfo::Verbs(own) = &opened.info else { unreachable!() };
        writeln!(child.stdin.as_mut().unwrap(), "{}", text(own)).unwrap();
        assert!(lines.any(|line| line == "READY"));
        rig.here.connect(opened.endpoint, &PeerInfo::Verbs(peer)).unwrap();
        Self {
            child,
            cells: RemoteRegion { base: RemoteAddr { addr, rkey }, bytes: 4096, atomic: true },
            reader: opened.endpoint,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stopped server's memory could be out of reach: its CPU would then be part of the data path.
#[test]
fn verbs_stopped_server() {
    let Some(mut rig) = Rig::verbs() else { return };
    let server = Server::start(&mut rig);
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(100));
    let cell = server.cells.at(0, 8).unwrap();
    for n in 0..2_000 {
        assert_eq!(rig.run(server.reader, Verb::FetchAdd { at: cell, delta: 1 }), (Status::Ok, n));
    }
    assert_eq!(rig.run(server.reader, Verb::CompareSwap { at: cell, expect: 2_000, swap: 7 }), (Status::Ok, 2_000));
    let mut buffer = rig.pool.take().unwrap();
    let id = WorkId(90_000);
    let verb = Verb::Read { into: buffer.lend(0..16, id), from: server.cells.base };
    rig.here.post(server.reader, &mut vec![WorkRequest { id, verb }]).unwrap();
    assert_eq!(take(&mut *rig.here, 1)[0].event, Event::Done { id, status: Status::Ok, old: 0 });
    buffer.give_back(id);
    assert_eq!(buffer.bytes()[..16], [[7, 0, 0, 0, 0, 0, 0, 0], [0x34, 0x12, 0, 0, 0, 0, 0, 0]].concat());
    server.signal(Signal::CONT);
}

/// A killed server could leave requests without an end, or with a success that never was.
#[test]
fn verbs_killed_server() {
    let Some(mut rig) = Rig::verbs() else { return };
    for round in 0..4 {
        let mut server = Server::start(&mut rig);
        let cell = server.cells.at(0, 8).unwrap();
        let (mut posted, mut ended, mut broken) = (0u64, 0u64, None);
        let mut failed = Vec::new();
        let started = Instant::now();
        while broken.is_none() || ended < posted {
            if broken.is_none() && rig.here.room(server.reader) > 0 {
                let id = WorkId(posted);
                if rig
                    .here
                    .post(server.reader, &mut vec![WorkRequest { id, verb: Verb::FetchAdd { at: cell, delta: 1 } }])
                    .is_ok()
                {
                    posted += 1;
                }
            }
            if posted == 500 + round * 100 {
                server.child.kill().unwrap();
                server.child.wait().unwrap();
            }
            let mut all = Vec::new();
            rig.here.poll(&mut all);
            for completion in all {
                match completion.event {
                    Event::Done { id, status, old } => {
                        assert_eq!(id, WorkId(ended), "an end is missing");
                        ended += 1;
                        if status.is_ok() {
                            assert_eq!(old, id.0);
                            assert!(failed.is_empty(), "a success after a failure");
                        } else {
                            failed.push(status);
                        }
                    }
                    Event::Broken => broken = Some(started.elapsed()),
                    other => panic!("{other:?}"),
                }
            }
            assert!(started.elapsed() < Duration::from_secs(20));
        }
        println!("killed: {:?} first, {} flushed, noticed after {:?}", failed[0], failed.len() - 1, broken.unwrap());
        assert!(matches!(failed[0], Status::Unreachable | Status::RemoteAccess), "{failed:?}");
        assert!(failed[1..].iter().all(|&s| s == Status::Flushed));
        rig.here.close(server.reader);
    }
}

//! What can only be provoked from inside the provider, on a device: `SIDEWIRE_TEST_FABRIC=verbs`, with
//! `SIDEWIRE_TEST_DEVICE` and `SIDEWIRE_TEST_ADDR`. Elsewhere the tests say that they are skipped.

use super::endpoint::Parts;
use super::port::VerbsPort;
use super::{Device, open};
use crate::fabric::selection::Wanted;
use crate::fabric::{Access, Completion, EndpointSpec, Event, Fabric, FabricError, Port, PortSpec, PostError, RemoteAddr, Role};
use crate::fabric::{Status, Verb, WorkId, WorkRequest};
use crate::memory::Mapping;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn setting() -> Option<(String, IpAddr)> {
    if std::env::var("SIDEWIRE_TEST_FABRIC").as_deref() != Ok("verbs") {
        println!("skipped: SIDEWIRE_TEST_FABRIC is not verbs");
        return None;
    }
    let text = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    Some((text("SIDEWIRE_TEST_DEVICE"), text("SIDEWIRE_TEST_ADDR").parse().unwrap()))
}

fn wanted(device: Option<&str>, address: Option<IpAddr>) -> Wanted<'_> {
    Wanted { device, address, address_may_differ: false }
}

fn device() -> Option<Device> {
    let (name, address) = setting()?;
    Some(Device::open(wanted(Some(&name), Some(address))).unwrap())
}

fn port(device: &Device, completions: u32) -> VerbsPort {
    VerbsPort::new(&device.hardware, PortSpec { name: "lab".into(), completions }).unwrap()
}

fn cell(device: &Device) -> (RemoteAddr, crate::fabric::Registered) {
    let map = Arc::new(Mapping::anonymous("cell", 4096).unwrap());
    let registered = device.register(&map, Access::RemoteReadAtomic).unwrap();
    (registered.remote().base, registered)
}

fn adds(at: RemoteAddr, ids: std::ops::Range<u64>) -> Vec<WorkRequest<'static>> {
    ids.map(|id| WorkRequest { id: WorkId(id), verb: Verb::FetchAdd { at, delta: 1 } }).collect()
}

fn poll_for(port: &mut VerbsPort, count: usize) -> Vec<Completion> {
    let (mut all, started) = (Vec::new(), Instant::now());
    while all.len() < count {
        port.poll(&mut all);
        assert!(started.elapsed() < Duration::from_secs(10), "not in time: {all:?}");
    }
    all
}

/// Every id once and in order; the statuses, and how often `Broken` came.
fn check(all: &[Completion], ids: std::ops::Range<u64>) -> (Vec<Status>, usize) {
    let done = |c: &Completion| if let Event::Done { id, status, .. } = c.event { Some((id.0, status)) } else { None };
    let (seen, statuses): (Vec<u64>, Vec<Status>) = all.iter().filter_map(done).unzip();
    assert_eq!(seen, ids.collect::<Vec<_>>());
    (statuses, all.iter().filter(|c| c.event == Event::Broken).count())
}

/// A queue pair of `real` work requests in an endpoint that believes in `believed`.
fn shallow(port: &mut VerbsPort, device: &Device, real: u32, believed: u32) -> crate::fabric::EndpointId {
    let parts = open::loopback(&device.hardware, port.queue.queue(), believed).unwrap();
    let thin = open::loopback(&device.hardware, port.queue.queue(), real).unwrap();
    let itself = crate::fabric::PeerInfo::Verbs(thin.local.peer(&device.hardware, thin.pair.number()));
    let endpoint = port.add(Parts { pair: thin.pair, local: thin.local, ..parts }).unwrap();
    port.connect(endpoint, &itself).unwrap();
    endpoint
}

/// The device could take a part of a chain only. It counts as taken, and every request ends once.
#[test]
fn verbs_half_taken_chain() {
    let Some(device) = device() else { return };
    let mut port = port(&device, 1024);
    let (at, _cell) = cell(&device);
    let endpoint = shallow(&mut port, &device, 8, 400);
    let mut chain = adds(at, 0..400);
    assert_eq!(port.post(endpoint, &mut chain), Ok(()));
    assert!(chain.is_empty());
    let (statuses, broken) = check(&poll_for(&mut port, 401), 0..400);
    let good = statuses.iter().take_while(|s| s.is_ok()).count();
    assert!(good < 400 && statuses[good..].iter().all(|&s| s == Status::Flushed), "{statuses:?}");
    assert_eq!(broken, 1);
    println!("{good} were done, the others flushed");
    assert_eq!(port.post(endpoint, &mut adds(at, 0..1)), Err(PostError::Broken));
    port.close(endpoint);
    assert_eq!(port.poll(&mut Vec::new()), 0);
}

/// A completion queue that is too small loses completions, and their work would never end.
#[test]
fn verbs_lost_completions() {
    let Some(device) = device() else { return };
    let mut port = port(&device, 4);
    let (at, _cell) = cell(&device);
    let parts = open::loopback(&device.hardware, port.queue.queue(), 64).unwrap();
    let itself = crate::fabric::PeerInfo::Verbs(parts.local.peer(&device.hardware, parts.pair.number()));
    let endpoint = port.add(parts).unwrap();
    port.connect(endpoint, &itself).unwrap();
    for id in 0..64 {
        port.post(endpoint, &mut adds(at, id..id + 1)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    let (statuses, broken) = check(&poll_for(&mut port, 65), 0..64);
    assert_eq!(broken, 1);
    println!("{} were done, the others flushed", statuses.iter().filter(|s| s.is_ok()).count());
    // The port can be used again.
    port.close(endpoint);
    let endpoint = port.loopback(4).unwrap();
    port.post(endpoint, &mut adds(at, 0..1)).unwrap();
    assert!(check(&poll_for(&mut port, 1), 0..1).0[0].is_ok());
}

/// The kernel's answer to too much locked memory is a bare ENOMEM; ours names the limit.
#[test]
fn verbs_memlock() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let Some(device) = device() else { return };
    let map = Arc::new(Mapping::anonymous("large", 64 << 20).unwrap());
    let before = getrlimit(Resource::Memlock);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::IPC_LOCK);
            set_capabilities(None, sets).unwrap();
            setrlimit(Resource::Memlock, rustix::process::Rlimit { current: Some(8 << 20), maximum: before.maximum }).unwrap();
            let refused = device.register(&map, Access::RemoteRead).unwrap_err();
            println!("{refused}");
            let FabricError::Memlock { needed, limit } = refused else { panic!("{refused}") };
            assert!(needed >= 64 << 20 && limit == 8 << 20);
            let small = Arc::new(Mapping::anonymous("small", 1 << 20).unwrap());
            device.register(&small, Access::RemoteRead).unwrap();
            // What is registered counts.
            let held: Vec<_> = (0..6).map(|_| device.register(&small, Access::RemoteRead).unwrap()).collect();
            assert!(matches!(
                device.register(&Arc::new(Mapping::anonymous("more", 3 << 20).unwrap()), Access::Local),
                Err(FabricError::Memlock { .. })
            ));
            drop(held);
        });
    });
    setrlimit(Resource::Memlock, before).unwrap();
    device.register(&map, Access::RemoteRead).unwrap();
}

/// The wrong device could be used, or a refusal could leave the operator guessing.
#[test]
fn verbs_choice_of_device() {
    let Some((name, address)) = setting() else { return };
    let reason = |name: Option<&str>, address: Option<&str>| match Device::open(wanted(name, address.map(|a| a.parse().unwrap())))
    {
        Err(error) => error.to_string(),
        Ok(device) => format!("opened {} with {}", device.info().device, device.info().gid),
    };
    assert!(reason(Some("nope0"), None).contains(&format!("looked for nope0; {name} is not it")));
    let absent = reason(None, Some("192.0.2.1"));
    assert!(absent.contains("port 1 does not carry 192.0.2.1"), "{absent}");
    assert!(reason(Some(&name), Some("127.0.0.1")).contains("does not carry"));
    let good = format!("opened {name} with ::ffff:{address}");
    assert_eq!(reason(None, Some(&address.to_string())), good);
    assert_eq!(reason(None, None), good);
    assert_eq!(reason(Some(&name), Some("0.0.0.0")), good);
    let info = Device::open(Wanted::default()).unwrap().info().clone();
    println!("{info:?}");
    assert!(info.inline_bytes >= 64 && info.read_depth > 0 && info.link_layer == "Ethernet");
}

/// Reads longer than the device's longest message: refused by us, not by the wire.
#[test]
fn verbs_longest_message() {
    let Some(device) = device() else { return };
    let longest = device.hardware.message_bytes_max as usize;
    println!("the longest message is {longest} bytes");
    if longest > 64 << 20 {
        return;
    }
    let map = Arc::new(Mapping::anonymous("long", 2 * longest).unwrap());
    let registered = device.register(&map, Access::RemoteRead).unwrap();
    let pool = crate::memory::BufferPool::new(Arc::clone(&map), registered.clone(), 2 * longest);
    let mut port = port(&device, 64);
    let endpoint = port.loopback(4).unwrap();
    let mut buffer = pool.take().unwrap();
    for bytes in [longest, longest + 1] {
        let id = WorkId(bytes as u64);
        let read = Verb::Read { into: buffer.lend(0..bytes, id), from: registered.remote().base };
        let posted = port.post(endpoint, &mut vec![WorkRequest { id, verb: read }]);
        if posted.is_ok() {
            assert!(check(&poll_for(&mut port, 1), bytes as u64..bytes as u64 + 1).0[0].is_ok());
        }
        assert_eq!(posted.is_ok(), bytes == longest);
        buffer.give_back(id);
    }
}

/// Ids of closed endpoints could name their successors, and old completions end new work.
#[test]
fn verbs_many_lives() {
    let Some(device) = device() else { return };
    let mut port = port(&device, 256);
    let (at, _cell) = cell(&device);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200 {
        let endpoint = port.loopback(64).unwrap();
        assert!(seen.insert(endpoint));
        port.post(endpoint, &mut adds(at, 0..64)).unwrap();
        port.close(endpoint);
        check(&poll_for(&mut port, 64), 0..64);
        let spec = EndpointSpec { role: Role::Beat, send_depth: 16, recv_depth: 16 };
        let beat = port.open(&spec).unwrap().endpoint;
        assert!(seen.insert(beat));
        port.close(beat);
        assert_eq!(port.poll(&mut Vec::new()), 0);
    }
    assert_eq!(port.reserved, 0);
}

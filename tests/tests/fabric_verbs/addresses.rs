//! The interface's addresses come and go.

use crate::rig::{Rig, take};
use sidewire_common::fabric::{EndpointSpec, Event, FabricKind, Role, Status, Verb, WorkId, WorkRequest, open_client};
use std::process::Command;

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// A GID's place in the table moves when addresses change; a remembered index would then name another address,
/// or none.
#[test]
#[ignore = "changes the addresses of the lab's interface v0: run it there with --ignored"]
fn verbs_moved_gid() {
    let Some(mut rig) = Rig::verbs() else { return };
    let address = std::env::var("SIDEWIRE_TEST_ADDR").unwrap();
    let before = rig.client.info().gid_index;
    let old = rig.reader();
    assert_eq!(rig.read(old.ours, 0, 64).0, Status::Ok);
    ip(&format!("addr del {address}/24 dev v0"));
    let opened = rig.here.open(&EndpointSpec { role: Role::Reader, send_depth: 1, recv_depth: 0 });
    println!("without the address: {}", opened.unwrap_err());
    let cell = rig.cells.1.remote().base;
    let add = WorkRequest { id: WorkId(1), verb: Verb::FetchAdd { at: cell, delta: 1 } };
    rig.here.post(old.ours, &mut vec![add]).unwrap();
    let all = take(&mut *rig.here, 2);
    println!("an add without the address: {:?}", all[0].event);
    assert!(matches!(all[0].event, Event::Done { status: Status::Local(_) | Status::Unreachable, .. }));
    assert_eq!(all[1].event, Event::Broken);
    ip("addr add 10.0.0.9/24 dev v0");
    ip(&format!("addr add {address}/24 dev v0"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let again = open_client(FabricKind::Verbs, None, Some(address.parse().unwrap())).unwrap();
    println!("the index was {before}, and is {}", again.info().gid_index);
    assert_ne!(before, again.info().gid_index, "it did not move, so this shows nothing");
    let new = rig.reader();
    assert_eq!(rig.read(new.ours, 0, 64).0, Status::Ok);
    ip("addr del 10.0.0.9/24 dev v0");
}
